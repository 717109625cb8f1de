"""Workers are offered where they deliver what the program is given without them, and only there."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.knobs.knob import Config
from autotune.measurement.measurement import Failure
from autotune.measurement.processes.process import NotPossible, RunEnded
from autotune.measurement.untimed.vetting import vet_workers
from autotune.source.refusals.whose import MODULE
from autotune.workload.program.target import SCRIPT, Target
from autotune.workload.samples.delivery import Delivery
from tests import builders
from tests.traps.conftest import Bench, Vet
from tests.traps.programs import stream, table

PLAIN = "return X[index], Y[index]"


def weighted(sampler: str) -> str:
    """A program whose loop writes to the weights of this `sampler`."""
    text = table(PLAIN, options="batch_size=16, sampler=sampler")
    text = text.replace("loader = DataLoader", f"{sampler}\nloader = DataLoader")
    changes = "optimizer.step()\n        sampler.weights[:16] += x.mean() ** 2"
    return text.replace("optimizer.step()", changes)


class TestStreams:
    def test_one_that_gives_every_sample_to_every_worker_keeps_at_most_one(
        self, workers: Vet
    ) -> None:
        vetted = workers(stream("yield from zip(X, Y)"), (0, 1, 2, 4))
        assert vetted.values == (0, 1)
        assert "every sample comes 4 times" in vetted.reason
        assert "get_worker_info" in vetted.reason

    def test_one_that_is_shuffled_and_augmented_but_not_shared_out_is_found_out(
        self, workers: Vet
    ) -> None:
        body = (
            "for index in torch.randperm(640).tolist():\n"
            "    yield X[index] + torch.rand(4), Y[index]"
        )
        vetted = workers(stream(body), (0, 2))
        assert vetted.values == (0,)
        assert "every sample comes 2 times" in vetted.reason

    @pytest.mark.parametrize(("kinds", "kept"), [(8, (0, 1)), (1, (0, 1, 2))])
    @pytest.mark.slow
    def test_one_that_mixes_what_is_open_in_each_worker_keeps_at_most_one(
        self, workers: Vet, kinds: int, kept: tuple[int, ...]
    ) -> None:
        body = (
            "info = get_worker_info()\n"
            "part, parts = (info.id, info.num_workers) if info else (0, 1)\n"
            "files = list(range(8))[part::parts]\n"
            "for _ in range(640 // parts):\n"
            "    file = files[int(torch.randint(len(files), ()))]\n"
            f"    yield torch.randn(4) + file, file % {kinds} % 2"
        )
        text = stream(body, options="batch_size=32")
        vetted = workers(text, (0, 1, 2))
        assert vetted.values == kept, vetted.reason
        assert ("mixes only its own part of the stream" in vetted.reason) == (kinds == 8)

    def test_a_slow_one_is_waited_for(self, bench: Callable[[str], Bench]) -> None:
        made = bench(stream("yield from zip(X, Y)"))
        loader = made.observe().loader
        assert loader is not None
        vetted = vet_workers(
            made.start, made.target, loader, (0, 2), seconds=0.0
        )  # time for one batch
        assert vetted.values == (0,)
        assert "every sample comes 2 times" in vetted.reason

    def test_what_there_is_no_time_to_compare_is_refused(
        self, bench: Callable[[str], Bench]
    ) -> None:
        made = bench(table(PLAIN))
        loader = made.observe().loader
        assert loader is not None
        vetted = vet_workers(made.start, made.target, loader, (0, 2), seconds=1.0, deadline=0.0)
        assert vetted.values == (0,)
        assert "a larger budget has more" in vetted.reason

    @pytest.mark.parametrize(
        ("startup_seconds", "said"), [(0.1, "no sign of its first"), (9.0, "a larger budget")]
    )
    def test_a_hang_is_told_where_it_was_waited_for_long_enough(
        self, startup_seconds: float, said: str
    ) -> None:
        def hang() -> None:
            raise RunEnded(Failure(kind="hung", reason="no sign of its first step within 6 s"))

        def start(config: Config) -> Any:
            return SimpleNamespace(
                await_first_step=hang if config else lambda: None,
                startup_seconds=startup_seconds,
                limit=lambda _: None,
                draw=lambda _: Delivery(batches=((1,),), ended=False),
                kill=lambda: None,
            )

        loader = builders.seen().loader
        assert loader is not None
        in_six_seconds = time.monotonic() + 6.0
        values, target = (0, loader.num_workers, 8), Target(kind=SCRIPT, path="")
        vetted = vet_workers(start, target, loader, values, seconds=1.0, deadline=in_six_seconds)
        assert said in vetted.reason

    @pytest.mark.parametrize("counts_steps", [False, True])
    def test_a_schedule_does_not_run_out_where_the_loop_counts_its_steps(
        self, counts_steps: bool
    ) -> None:
        batches = tuple(((number,),) for number in range(8))
        run: Any = SimpleNamespace(
            await_first_step=lambda: None,
            startup_seconds=0.1,
            limit=lambda _: None,
            draw=lambda _: Delivery(batches=batches, ended=False, lasts=900),
            window=lambda _, **__: None,
            pid=os.getpid(),
            kill=lambda: None,
        )
        own = builders.seen().loader
        assert own is not None
        vetted = vet_workers(
            lambda _: run,
            Target(kind=SCRIPT, path=""),
            replace(own, num_workers=0, iterable=True),
            (0, 2),
            seconds=1.0,
            counts_steps=counts_steps,
        )
        assert ("OneCycleLR ends in an error after 900 steps" in vetted.reason) != counts_steps

    def test_what_cannot_be_drawn_from_as_it_is_keeps_its_workers(self) -> None:
        def refuse() -> None:
            raise NotPossible("a thread of the program's own draws its batches")

        run: Any = SimpleNamespace(await_first_step=refuse, kill=lambda: None)
        loader = builders.seen().loader
        assert loader is not None
        vetted = vet_workers(
            lambda _: run, Target(kind=SCRIPT, path=""), loader, (0, 2, 4), seconds=1.0
        )
        assert vetted.values == (loader.num_workers,)
        assert vetted.reason.endswith(
            "could not be drawn once more (a thread of the program's own draws its batches)"
        )

    @pytest.mark.parametrize(
        ("kind", "deadline", "said"),
        [
            (
                "hung",
                0.0,
                "(no sign of a batch within 5 s; a larger budget has more time for it)",
            ),
            ("hung", math.inf, "(no sign of a batch within 5 s)"),
            ("crashed", 0.0, "(no sign of a batch within 5 s)"),
        ],
    )
    def test_the_one_reason_why_it_was_not_drawn_is_said(
        self, kind: str, deadline: float, said: str
    ) -> None:
        def end() -> None:
            raise RunEnded(Failure(kind=kind, reason="no sign of a batch within 5 s"))

        run: Any = SimpleNamespace(await_first_step=end, kill=lambda: None)
        loader = builders.seen().loader
        assert loader is not None
        vetted = vet_workers(
            lambda _: run,
            Target(kind=SCRIPT, path=""),
            loader,
            (0, 2),
            seconds=1.0,
            deadline=deadline,
        )
        assert vetted.reason.endswith(f"could not be drawn once more {said}")

    def test_one_that_shares_its_samples_out_may_have_workers(self, workers: Vet) -> None:
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, info.num_workers) if info else (0, 1)\n"
            "for index in range(first, 640, step):\n    yield X[index], Y[index]"
        )
        vetted = workers(stream(body), (0, 2, 4))
        assert vetted.values == (0, 2, 4)
        assert not vetted.reason
        assert vetted.doubt is None

    def test_one_that_loses_samples_is_refused(self, workers: Vet) -> None:
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, 2 * info.num_workers) if info else (0, 1)\n"
            "for index in range(first, 640, step):\n    yield X[index], Y[index]"
        )
        vetted = workers(stream(body), (0, 2))
        assert vetted.values == (0,)
        assert "an epoch has 320 samples instead of 640" in vetted.reason

    def test_one_whose_workers_each_shuffle_for_themselves_repeats_and_loses_samples(
        self, workers: Vet
    ) -> None:
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, info.num_workers) if info else (0, 1)\n"
            "for index in torch.randperm(640)[first::step].tolist():\n    yield X[index], Y[index]"
        )
        vetted = workers(stream(body), (0, 2))
        assert vetted.values == (0,)
        assert "never came" in vetted.reason

    def test_one_that_counts_its_epochs_is_refused_even_one_worker(self, workers: Vet) -> None:
        body = (
            "order = random.Random(self.epoch)\nself.epoch += 1\n"
            "for index in order.sample(range(640), 640):\n    yield X[index], Y[index]"
        )
        text = stream(body).replace("    def __iter__", "    epoch = 0\n\n    def __iter__")
        vetted = workers(text, (0, 1))
        assert vetted.values == (0,)
        assert "each reading changes `dataset.epoch`" in vetted.reason

    @pytest.mark.slow
    def test_epochs_that_a_schedule_counts_the_steps_of_stay_as_long(self, workers: Vet) -> None:
        """Two workers end with an incomplete batch each: 40 batches instead of 39."""
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, info.num_workers) if info else (0, 1)\n"
            "yield from zip(X[first:620:step], Y[first:620:step])"
        )
        text = stream(body)
        free = workers(text, (0, 2))
        assert free.values == (0, 2)
        assert free.doubt is not None
        assert free.doubt.evidence.startswith("With 2 workers, an epoch has 40 batches instead of")
        scheduled = text.replace(
            "for epoch",
            "schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=900)\n"
            "for epoch",
            1,
        ).replace("optimizer.step()", "optimizer.step(); schedule.step()")
        vetted = workers(scheduled, (0, 1, 2))
        assert vetted.values == (0, 1)
        assert "the program's OneCycleLR ends in an error after 900 steps" in vetted.reason

    @pytest.mark.slow
    def test_an_endless_one_that_is_shared_out_by_seed_may_have_workers(self, workers: Vet) -> None:
        body = (
            "info = get_worker_info()\n"
            "rng = np.random.default_rng(info.id if info else 0)\n"
            "while True:\n"
            "    index = rng.integers(640)\n    yield X[index] + torch.rand(4), Y[index]"
        )
        vetted = workers(stream(body), (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is not None


class TestTables:
    @pytest.mark.parametrize(
        "item",
        [
            PLAIN,
            "return X[index] + torch.rand(4), Y[index]",
            "return X[index] * random.random() + np.random.rand(), int(Y[index])",
        ],
        ids=["deterministic", "augmented by torch", "augmented by numpy and random"],
    )
    def test_whatever_can_be_read_anywhere_may_have_workers(self, workers: Vet, item: str) -> None:
        vetted = workers(table(item), (0, 1, 2))
        assert vetted.values == (0, 1, 2)
        assert not vetted.reason
        assert vetted.doubt is None

    def test_what_differs_at_each_reading_is_compared_by_the_rest(self, workers: Vet) -> None:
        vetted = workers(
            table(
                "return X[index] + np.random.default_rng().random(), Y[index]",
            ),
            (0, 2),
        )
        assert vetted.values == (0, 2)
        assert vetted.doubt is None

    def test_what_differs_altogether_is_said_not_to_have_been_compared(self, workers: Vet) -> None:
        item = (
            "rng = np.random.default_rng()\n"
            "number = rng.integers(640)\nreturn X[number] + rng.random(), int(number % 2)"
        )
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is not None
        assert "differ each time" in vetted.doubt.evidence

    def test_one_that_knows_which_worker_reads_is_refused(self, workers: Vet) -> None:
        item = "info = get_worker_info()\nreturn X[index - (info.id if info else 0)], Y[index]"
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "with 2 workers, the program would be given other data" in vetted.reason

    def test_a_program_with_workers_is_compared_with_what_it_has(self, workers: Vet) -> None:
        text = table(PLAIN, options="batch_size=16, shuffle=True, num_workers=1")
        assert workers(text, (0, 1, 2)).values == (0, 1, 2)

    def test_an_open_file_that_processes_read_over_each_other_is_named(self, workers: Vet) -> None:
        prepare = (
            "self.file = tempfile.TemporaryFile(buffering=0)\nself.file.write(X.numpy().tobytes())"
        )
        item = (
            "self.file.seek(16 * index)\n"
            "return torch.frombuffer(bytearray(self.file.read(16)), dtype=torch.float32), Y[index]"
        )
        vetted = workers(table(item, prepare), (0, 2))
        assert vetted.values == (0,)
        assert "open file (`dataset.file`)" in vetted.reason

    def test_a_file_that_each_process_opens_for_itself_is_fine(self, workers: Vet) -> None:
        prepare = (
            "self.path = tempfile.mkstemp(dir=os.path.dirname(__file__))[1]\nself.file = None\n"
            "open(self.path, 'wb').write(X.numpy().tobytes())"
        )
        item = (
            "self.file = self.file or open(self.path, 'rb')\nself.file.seek(16 * index)\n"
            "return torch.frombuffer(bytearray(self.file.read(16)), dtype=torch.float32), Y[index]"
        )
        assert workers(table(item, prepare), (0, 2)).values == (0, 2)

    def test_an_open_database_is_not_carried_into_workers(self, workers: Vet) -> None:
        prepare = (
            "path = tempfile.mkstemp(dir=os.path.dirname(__file__))[1]\n"
            "self.database = sqlite3.connect(path, check_same_thread=False)\n"
            "self.database.execute('create table x (i integer primary key, v real)')\n"
            "rows = enumerate(X[:, 0].tolist())\n"
            "self.database.executemany('insert into x values (?, ?)', rows)\n"
            "self.database.commit()"
        )
        item = (
            "row = self.database.execute('select v from x where i = ?', (index,)).fetchone()\n"
            "return torch.tensor(row * 4), Y[index]"
        )
        vetted = workers(table(item, prepare), (0, 2))
        assert vetted.values == (0,)
        assert "an open connection (`dataset.database`)" in vetted.reason

    @pytest.mark.parametrize("by", ["pid", "worker_init_fn"])
    def test_a_database_that_each_process_opens_for_itself_is_fine(
        self, workers: Vet, by: str
    ) -> None:
        prepare = (
            "self.path = tempfile.mkstemp(dir=os.path.dirname(__file__))[1]\n"
            "self.database, self.owner = sqlite3.connect(self.path), os.getpid()\n"
            "self.database.execute('create table x (i integer primary key, v real)')\n"
            "rows = enumerate(X[:, 0].tolist())\n"
            "self.database.executemany('insert into x values (?, ?)', rows)\n"
            "self.database.commit()"
        )
        item = (
            "if OPENS and self.owner != os.getpid():\n"
            "    self.database, self.owner = sqlite3.connect(self.path), os.getpid()\n"
            "row = self.database.execute('select v from x where i = ?', (index,)).fetchone()\n"
            "return torch.tensor(row * 4), Y[index]"
        ).replace("OPENS", str(by == "pid"))
        options = "batch_size=16"
        text = table(item, prepare, options=options)
        if by == "worker_init_fn":
            opens = (
                "def opened(_):\n"
                "    dataset = torch.utils.data.get_worker_info().dataset\n"
                "    dataset.database = sqlite3.connect(dataset.path)\n"
            )
            text = text.replace(options, f"{options}, worker_init_fn=opened")
            text = text.replace("loader = DataLoader", f"{opens}loader = DataLoader")
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2), vetted.reason

    def test_a_process_that_it_talks_to_is_not_talked_to_by_several(self, workers: Vet) -> None:
        prepare = (
            "import subprocess\npipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}\n"
            "self.process = subprocess.Popen(['cat'], bufsize=0, **pipes)"
        )
        item = f"self.process.stdin.write(b'1')\nself.process.stdout.read(1)\n{PLAIN}"
        vetted = workers(table(item, prepare), (0, 1, 2))
        assert vetted.values == (0,)
        assert "the pipes of a process that it talks to (`dataset.process`)" in vetted.reason

    def test_one_that_fills_the_same_memory_for_each_batch_is_refused(self, workers: Vet) -> None:
        prepare = "self.x, self.y = torch.empty(16, 4), torch.empty(16, dtype=Y.dtype)"
        item = "self.x[:], self.y[:] = X[index], Y[index]\nreturn self.x, self.y"
        options = "batch_size=None, sampler=torch.arange(640).view(40, 16)"
        vetted = workers(table(item, prepare, options), (0, 1, 2))
        assert vetted.values == (0,)
        assert "batches would be torn" in vetted.reason
        copied = item.replace("self.x, self.y", "self.x.clone(), self.y.clone()")
        assert workers(table(copied, prepare, options), (0, 1, 2)).values == (0, 1, 2)

    @pytest.mark.parametrize("asks", ["torch.initial_seed()", "torch.random.initial_seed()"])
    def test_samples_by_the_seed_that_a_run_began_with_are_refused(
        self, workers: Vet, asks: str
    ) -> None:
        item = f"held_out = (index + {asks}) % 640\nreturn X[held_out], Y[held_out]"
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "they are made by `torch.initial_seed()` (train.py:" in vetted.reason
        begun = "self.seed = torch.initial_seed()"  # once, in the program's own process
        item = item.replace(asks, "self.seed")
        assert workers(table(item, begun), (0, 2)).values == (0, 2)

    def test_threads_that_workers_do_not_have_hang_and_are_named(
        self, workers: Vet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("autotune.measurement.untimed.vetting.PATIENCE_SECONDS", 2.0)
        prepare = "self.pool = ThreadPoolExecutor(1)\nself.pool.submit(int).result()"
        item = "return self.pool.submit(X.__getitem__, index).result(), Y[index]"
        vetted = workers(table(item, prepare), (0, 1))
        assert vetted.values == (0,)
        assert "no sign of its first training step" in vetted.reason
        assert "threads of its own (`dataset.pool`)" in vetted.reason

    @pytest.mark.slow
    def test_threads_that_are_needed_by_luck_only_stay_behind_too(self, workers: Vet) -> None:
        # One of two is at work: in a worker the pool starts its second one, and gets along.
        prepare = "self.pool = ThreadPoolExecutor(2)\nself.pool.submit(int).result()"
        item = (
            "jobs = [self.pool.submit(X.__getitem__, index) for _ in range(2)]\n"
            "return jobs[0].result(), Y[index]"
        )
        vetted = workers(table(item, prepare), (0, 1))
        assert vetted.values == (0,)
        assert "threads of its own (`dataset.pool`) would stay behind" in vetted.reason
        unused = prepare.replace("\nself.pool.submit(int).result()", "")
        assert workers(table(item, unused), (0, 1)).values == (0, 1)

    def test_a_lock_that_is_held_as_workers_start_is_named(
        self, workers: Vet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("autotune.measurement.untimed.vetting.PATIENCE_SECONDS", 2.0)
        prepare = "self.lock = threading.Lock()\nself.main = os.getpid()\nself.lock.acquire()"
        item = "if os.getpid() != self.main:\n    self.lock.acquire()\nreturn X[index], Y[index]"
        vetted = workers(table(item, prepare), (0, 1))
        assert vetted.values == (0,)
        assert "a lock (`dataset.lock`)" in vetted.reason

    def test_a_lock_that_nobody_holds_is_fine(self, workers: Vet) -> None:
        item = "with self.lock:\n    return X[index], Y[index]"
        assert workers(table(item, "self.lock = threading.Lock()"), (0, 2)).values == (0, 2)

    def test_one_that_crashes_in_workers_is_refused_with_its_error(self, workers: Vet) -> None:
        item = (
            "if get_worker_info():\n    raise OSError('no licence for a second process')\n"
            "return X[index], Y[index]"
        )
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "no licence for a second process" in vetted.reason


class TestDatasetsThatChange:
    """A worker reads a copy: of what training changes it sees nothing, and what reading changes it
    changes for itself.
    """

    def test_one_that_training_writes_to_is_refused(self, workers: Vet) -> None:
        text = table(
            "return X[index] * (1 + self.hardness[index]), Y[index]",
            "self.hardness = torch.zeros(640)",
        ).replace("optimizer.step()", "optimizer.step()\n        dataset.hardness += x.mean()")
        vetted = workers(text, (0, 1, 2))
        assert vetted.values == (0,)
        assert "training changes `dataset.hardness`" in vetted.reason

    def test_one_whose_order_training_decides_is_refused(self, workers: Vet) -> None:
        chosen = (
            "class Hardest:\n    def __init__(self):\n        self.weights = torch.ones(640)\n\n"
            "    def __iter__(self):\n"
            "        return (int(torch.multinomial(self.weights, 1)) for _ in range(640))\n\n"
            "    def __len__(self):\n        return 640\n\n\nsampler = Hardest()"
        )
        vetted = workers(weighted(chosen), (0, 2))
        assert vetted.values == (0,)
        assert "training changes `sampler.sampler.weights`" in vetted.reason
        assert "copies" not in vetted.reason

    def test_one_whose_order_is_drawn_as_the_epoch_begins_may_have_workers(
        self, workers: Vet
    ) -> None:
        chosen = (
            "from torch.utils.data import WeightedRandomSampler\n"
            "sampler = WeightedRandomSampler(torch.ones(640), 640)"
        )
        assert workers(weighted(chosen), (0, 2)).values == (0, 2)

    def test_what_no_sample_is_made_from_may_be_written_to(self, workers: Vet) -> None:
        text = table(PLAIN, "self.weights = torch.ones(640)").replace(
            "optimizer.step()", "optimizer.step()\n        dataset.weights += x.mean()"
        )
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)

    def test_what_is_set_between_epochs_reaches_the_workers(self, workers: Vet) -> None:
        text = table("return X[index] * self.scale, Y[index]", "self.scale = 1.0").replace(
            "    for x, y in loader:", "    dataset.scale *= 0.9\n    for x, y in loader:"
        )
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)

    def test_a_stream_from_what_training_fills_is_refused_even_one_worker(
        self, workers: Vet
    ) -> None:
        text = (
            stream("while True:\n    yield random.choice(buffer)")
            .replace("class Stream", "buffer = list(zip(X[:32], Y[:32]))\n\nclass Stream")
            .replace("optimizer.step()", "optimizer.step()\n        buffer.append((X[0], Y[0]))")
        )
        vetted = workers(text, (0, 1))
        assert vetted.values == (0,)
        assert "training changes `buffer`" in vetted.reason

    def test_one_that_counts_what_it_has_given_is_refused(self, workers: Vet) -> None:
        item = "self.given += 1\nreturn X[index] * min(1.0, self.given / 5000), Y[index]"
        vetted = workers(table(item, "self.given = 0"), (0, 2))
        assert vetted.values == (0,)
        assert "reading counts `dataset.given`" in vetted.reason

    def test_one_whose_random_numbers_grow_with_what_it_has_given_is_refused(
        self, workers: Vet
    ) -> None:
        item = (
            "self.given += 1\nstrength = min(1.0, self.given / 5000)\n"
            "return X[index] + strength * np.random.randn(), Y[index], strength"
        )
        text = table(item, "self.given = 0").replace("for x, y in", "for x, y, _ in")
        vetted = workers(text, (0, 2))
        assert vetted.values == (0,)
        assert "reading counts `dataset.given`" in vetted.reason

    def test_one_whose_sampler_chooses_all_at_once_may_have_workers(self, workers: Vet) -> None:
        sampler = (
            "class Batches:\n    def __len__(self):\n        return 40\n\n"
            "    def __iter__(self):\n"
            "        order = sorted(range(640), key=lambda _: random.random())\n"
            "        return iter([order[first::40] for first in range(40)])\n\n\nloader ="
        )
        text = table(PLAIN, options="batch_sampler=Batches()").replace("loader =", sampler, 1)
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is None

    def test_one_with_random_numbers_of_its_own_is_refused(self, workers: Vet) -> None:
        item = "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        vetted = workers(table(item, "self.random = np.random.default_rng(0)"), (0, 2))
        assert vetted.values == (0,)
        assert "`dataset.random`" in vetted.reason

    @pytest.mark.parametrize(
        ("prepare", "item"),
        [
            ("self.noise = 0.3", "self.noise *= 0.999"),
            ("self.noise = 0.0", "self.noise = 0.99 * self.noise + 0.01 * float(X[index].mean())"),
            ("global NOISE\nNOISE = 0.3", "global NOISE\nNOISE *= 0.999"),
            ("self.last = X[0]", "last, self.last = self.last, X[index]"),
            ("self.pool = []", "self.pool = [*self.pool[-9:], X[index]]"),
        ],
    )
    def test_random_ones_that_depend_on_those_read_before_are_refused(
        self, workers: Vet, prepare: str, item: str
    ) -> None:
        noise = next((each for each in ("NOISE", "self.noise") if each in item), "0.1")
        others = "last" if "last" in item else "self.pool[0]" if "pool" in item else "X[0]"
        given = f"return X[index] + {others} + {noise} * torch.randn(4), Y[index]"
        vetted = workers(table(f"{item}\n{given}", prepare), (0, 2))
        assert vetted.values == (0,)
        assert "reading changes" in vetted.reason

    def test_random_ones_that_are_counted_or_kept_may_have_workers(self, workers: Vet) -> None:
        item = (
            "self.read += 1\nif index not in self.known:\n    self.known[index] = X[index] * 2\n"
            "return self.known[index] + torch.randn(4), Y[index]"
        )
        vetted = workers(table(item, "self.read, self.known = 0, {}"), (0, 2))
        assert vetted.values == (0, 2)

    def test_noise_by_the_number_of_threads_is_refused(self, workers: Vet) -> None:
        item = "return X[index] + torch.randn(4) / torch.get_num_threads(), Y[index]"
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "`torch.get_num_threads()` (train.py:" in vetted.reason

    def test_one_seeded_by_each_worker_may_have_workers(self, workers: Vet) -> None:
        item = (
            "if self.random is None or self.here != os.getpid():\n"
            "    info = torch.utils.data.get_worker_info()\n"
            "    self.here = os.getpid()\n"
            "    self.random = np.random.default_rng(0 if info is None else info.seed)\n"
            "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        )
        text = "import os\n" + table(item, "self.random = self.here = None")
        assert workers(text, (0, 2)).values == (0, 2)

    def test_one_that_seeds_its_random_numbers_in_each_worker_may_have_workers(
        self, workers: Vet
    ) -> None:
        item = (
            "if self.seed != torch.initial_seed():\n"
            "    self.seed = torch.initial_seed()\n"
            "    self.random = np.random.default_rng(self.seed)\n"
            "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        )
        prepare = "self.seed, self.random = 0, np.random.default_rng(0)"
        vetted = workers(table(item, prepare), (0, 2))
        assert vetted.values == (0, 2)

    def test_one_that_remembers_what_it_has_read_may_have_workers(self, workers: Vet) -> None:
        item = (
            "if index not in self.known:\n    self.known[index] = X[index] * 2\n"
            "return self.known[index], Y[index]"
        )
        vetted = workers(table(item, "self.known = {}"), (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is None


class TestWhatIsReadBack:
    """What making a batch sets in a worker is set in its copy: a loop that reads it reads what it
    was at first.
    """

    LOSS = "nn.functional.cross_entropy(model(x), y)"

    def mixing(self, loss: str, workers: int = 0) -> str:
        """A program whose collate_fn leaves behind what it has mixed by, and one of two batches
        alone.
        """
        mix = (
            "class Mix:\n    def __init__(self):\n        self.lam = 1.0\n\n"
            "    def __call__(self, batch):\n"
            "        x, y = torch.utils.data.default_collate(batch)\n"
            "        self.lam = 1.0\n"
            "        if np.random.rand() < 0.5:\n"
            "            self.lam = np.random.beta(1.0, 1.0)\n"
            "        return x * self.scale(), y\n\n"
            "    def scale(self):\n        return 1.0\n\n\nmix = Mix()\nloader ="
        )
        options = f"batch_size=16, collate_fn=mix, num_workers={workers}"
        text = table(PLAIN, options=options).replace("loader =", mix, 1)
        assert self.LOSS in text
        return text.replace(self.LOSS, loss)

    def test_by_the_loop_it_keeps_the_program_without_workers(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})")
        line = next(at for at, code in enumerate(text.splitlines(), 1) if "mix.lam" in code)
        vetted = workers(text, (0, 1, 2))
        assert vetted.values == (0,)
        assert f"the program reads `mix.lam` (train.py:{line}), which making a" in vetted.reason
        assert "in a worker it is set in a copy" in vetted.reason

    def test_by_the_loop_it_counts_too_where_it_is_another_only_later(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})").replace("rand() < 0.5", "rand() < 0.0")
        assert "the program reads `mix.lam`" in workers(text, (0, 2)).reason

    def test_by_nobody_it_may_be_set_in_copies(self, workers: Vet) -> None:
        vetted = workers(self.mixing(self.LOSS), (0, 2))
        assert vetted.values == (0, 2)

    def test_by_a_program_that_has_workers_it_is_as_it_was(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})", workers=1)
        assert workers(text, (1, 2)).values == (1, 2)

    def test_a_variable_counts_too(self, workers: Vet) -> None:
        mix = (
            "def mix(batch):\n    global lam\n    lam = np.random.rand()\n"
            "    return torch.utils.data.default_collate(batch)\n\n\nlam = 1.0\nloader ="
        )
        text = table(PLAIN, options="batch_size=16, collate_fn=mix").replace("loader =", mix, 1)
        assert workers(text, (0, 2)).values == (0, 2)
        text = text.replace(self.LOSS, f"(lam * {self.LOSS})")
        assert "`lam` (train.py:" in workers(text, (0, 2)).reason

    @pytest.mark.parametrize(
        ("loss", "kept"), [(f"(rounds.current * {LOSS})", (0,)), (LOSS, (0, 1, 2))]
    )
    @pytest.mark.parametrize("item", [PLAIN, "return X[index] + torch.rand(4), Y[index]"])
    def test_what_choosing_a_batch_sets_is_ahead_of_the_loop(
        self, workers: Vet, item: str, loss: str, kept: tuple[int, ...]
    ) -> None:
        rounds = (
            "class Rounds(torch.utils.data.Sampler):\n    current = 0\n\n"
            "    def __iter__(self):\n"
            "        for part in torch.randperm(640).split(16):\n"
            "            self.current = int(part[0])\n"
            "            yield part.tolist()\n\n"
            "    def __len__(self):\n        return 40\n\n\nrounds = Rounds()\nloader ="
        )
        text = table(item, options="batch_sampler=rounds").replace("loader =", rounds, 1)
        vetted = workers(text.replace(self.LOSS, loss), (0, 1, 2))
        assert vetted.values == kept, vetted.reason
        if kept == (0,):
            assert "reads `rounds.current` (train.py:" in vetted.reason
            assert "chosen ahead of the one that it trains on" in vetted.reason

    @pytest.mark.slow
    def test_in_a_stream_it_counts_too(self, workers: Vet) -> None:
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, info.num_workers) if info else (0, 1)\n"
            "for self.at in range(first, 640, step):\n    yield X[self.at], Y[self.at]"
        )
        text = stream(body).replace("step()", "step()\n        print(dataset.at)")
        assert "`dataset.at`" in workers(text, (0, 2)).reason
        assert workers(stream(body), (0, 2)).values == (0, 2)

    def test_what_a_dataset_counts_for_itself_may_be_counted_in_copies(self, workers: Vet) -> None:
        text = table("self.step += 1\nself.random = index\n" + PLAIN, "self.step = 0")
        vetted = workers(text, (0, 2))  # optimizer.step() and np.random are others
        assert vetted.values == (0, 2)
        printed = text.replace("optimizer.step()", "optimizer.step()\n        print(dataset.step)")
        assert "`dataset.step`" in workers(printed, (0, 2)).reason

    def test_by_the_trainer_that_collates_it_keeps_the_program_without_workers(
        self, workers: Vet
    ) -> None:
        trainer = (
            "class Trainer:\n    lam = 1.0\n\n    def collate(self, batch):\n"
            "        self.lam = np.random.beta(1.0, 1.0)\n        self.made = batch\n"
            "        return torch.utils.data.default_collate(batch)\n\n"
            "    def share(self):\n        return {}\n\n\ntrainer = Trainer()\nloader ="
        )
        options = "batch_size=16, collate_fn=trainer.collate"
        text = table(PLAIN, options=options).replace(self.LOSS, f"(trainer.share() * {self.LOSS})")
        read = text.replace("loader =", trainer.format("self.lam"), 1)
        assert "`self.lam` (train.py:" in workers(read, (0, 2)).reason
        unread = text.replace("loader =", trainer.format("1.0"), 1)
        assert workers(unread, (0, 2)).values == (0, 2)

    def test_what_makes_batches_may_read_its_own(self, workers: Vet) -> None:
        item = "self.mix.apply(index)\nself.last = index\nreturn X[self.mix.at], Y[self.last]"
        mixer = (
            "class Mixer:\n    def apply(self, index):\n        self.at = index\n"
            "        return self.at\n\n\nclass Table"
        )
        text = table(item, "self.mix = Mixer()").replace("class Table", mixer, 1)
        text += "        print(optimizer.last if hasattr(optimizer, 'last') else '')\n"
        assert workers(text, (0, 2)).values == (0, 2)

    def test_what_a_sampler_sets_is_set_in_the_program_itself(self, workers: Vet) -> None:
        sampler = (
            "class Buckets:\n    def __len__(self):\n        return 40\n\n"
            "    def __iter__(self):\n"
            "        self.batches = torch.randperm(640).view(40, 16).tolist()\n"
            "        return iter(self.batches)\n\n\nbuckets = Buckets()\nloader ="
        )
        text = table(PLAIN, options="batch_sampler=buckets").replace("loader =", sampler, 1)
        text = text.replace("optimizer.step()", "optimizer.step()\n        len(buckets.batches)")
        assert workers(text, (0, 2)).values == (0, 2)


class TestCounts:
    """Numbers that reading counts on in the dataset."""

    COUNTED = "self.read += 1\nreturn X[index] * (1 if self.read < {0} else 0), Y[index]"

    def test_what_is_read_later_may_depend_on_how_much_was_read(self, workers: Vet) -> None:
        text = table(self.COUNTED.format(100_000), "self.read = 0")
        vetted = workers(text, (0, 2))
        assert vetted.values == (0,) and ".read`, and what is read depends on it" in vetted.depends
        assert vetted.reason.startswith("with 2 workers, reading c")

    def test_so_it_may_where_workers_read_already(self, workers: Vet) -> None:
        options = "batch_size=16, shuffle=True, num_workers=2"
        text = table(self.COUNTED.format(100_000), "self.read = 0", options=options)
        vetted = workers(text, (0, 2, 4))
        assert vetted.values == (2,) and ".read`, and what is read depends on it" in vetted.depends

    @pytest.mark.parametrize(
        ("late", "prepare", "said"),
        [
            ("x = self.spare[next(self.turn)]", "self.turn = itertools.cycle(range(3))", "take"),
            ("x = x + self.ids[index]", "self.ids = Numbers(itertools.count().__next__)", "new"),
            ("x = x + self.ids[index]", "self.ids = Numbers(lambda: len(self.ids))", "new"),
            ("x = x + self.words.number(index)", "self.words = Words()", "new"),
            ("x = x + self.words[index]", "self.words = Words()", "new"),
            ("x = x + self.ids.setdefault(index, len(self.ids))", "self.ids = {}", "new"),
            ("self.bad += 1\n    x = X[self.bad % 3]", "self.bad = 0", "counts"),
        ],
    )
    def test_what_only_late_samples_go_on_with(
        self, workers: Vet, late: str, prepare: str, said: str
    ) -> None:
        item = f"x = X[index]\nif index > 638:\n    {late}\nreturn x, Y[index]"
        text = table(item, f"self.spare = X[:3]\n{prepare}", options="batch_size=4")
        numbers = """\
import itertools
from collections import defaultdict as Numbers

class Words(dict):
    def number(self, word):
        return self.setdefault(word, len(self))

    def __missing__(self, word):
        self[word] = len(self)
        return self[word]

class Table"""
        vetted = workers(text.replace("class Table", numbers), (0, 2))
        words = {"take": "samples take the next of `dataset.turn`", "counts": "changes `self.bad`"}
        assert vetted.values == (0,)
        assert words.get(said, "is given the next number") in vetted.reason
        assert vetted.reason.endswith(": each worker goes on by itself")

    @pytest.mark.parametrize(
        ("item", "prepare"),
        [
            ("names = {}\nnames[index] = len(names)\nreturn X[index], Y[index]", "pass"),
            (
                f"if len(self.kept) < 900:\n    self.kept[index] = Y[index]\n{PLAIN}",
                "self.kept = {}",
            ),
            (
                "self.bad += index > 638\nif self.bad % 9 == 8:\n    print(f'{self.bad} bad')\n"
                + PLAIN,
                "self.bad = 0",
            ),
            ("return X[index], Y[index] + len(self.lists[index])", "self.lists = Lists(list)"),
            ("rows = iter(X[index:])\nreturn next(rows), Y[index]", "pass"),
        ],
    )
    def test_what_is_kept_of_each_by_itself_is_none(
        self, workers: Vet, item: str, prepare: str
    ) -> None:
        lists = "from collections import defaultdict as Lists\n\n\nclass Table"
        vetted = workers(table(item, prepare).replace("class Table", lists), (0, 2))
        assert (vetted.values, vetted.depends) == ((0, 2), ""), vetted.reason

    @pytest.mark.parametrize(
        "item",
        [
            "self.read += 1\nreturn X[index], Y[index]",  # a figure for someone
            "self.read = index\nreturn X[self.read], Y[self.read]",
            "return X[index + self.read - self.read], Y[index]",
        ],
    )
    def test_others_are_no_matter(self, workers: Vet, item: str) -> None:
        vetted = workers(table(item, "self.read = 0"), (0, 2))
        assert (vetted.values, vetted.depends) == ((0, 2), "")

    def test_a_model_that_is_asked_for_its_width_is_none_of_the_data(self, workers: Vet) -> None:
        collate = "batch_size=16, collate_fn=lambda rows: padded(rows, model.in_features)"
        padded = (
            "def padded(rows, width):\n    x, y = torch.utils.data.default_collate(rows)\n"
            "    return x[:, :width], y\n\n\nclass Table"
        )
        text = table(PLAIN, options=collate).replace("class Table", padded, 1)
        assert workers(text, (0, 2)).values == (0, 2)
        weighed = text.replace("model.in_features", "int(model.weight.shape[1])")
        assert workers(weighed, (0, 2)).values == (0,)


def test_settings_that_samples_are_made_by_are_told_by_name(workers: Vet) -> None:
    item = 'return X[index] * self.config["scale"] + schedule.level * self.width, Y[index]'
    text = table(item, "self.config, self.width = config, 2").replace(
        "class Table",
        'config = {"scale": 1.0, "rate": 0.1}\n'
        "class Schedule:\n    level = 1.0\n\nschedule = Schedule()\n\nclass Table",
    )
    settings = workers(text, (0, 1)).settings
    found = {(each.name, each.kinds, each.scope) for each in settings if not each.inside}
    assert found == {
        *(("scale", (), ""), ("level", ("Schedule",), ""), ("width", ("Table",), "")),
        *(("config", ("Table",), ""), ("schedule", (), MODULE)),
        *(("X", (), MODULE), ("Y", (), MODULE)),
        ("__getitem__", ("Table",), ""),  # another may be put in its place
        *(
            (name, ("BatchSampler", "Sampler", "Generic"), "")
            for name in ("batch_size", "drop_last")
        ),
    }


def test_attributes_of_a_librarys_object_and_the_environment_are_told_too(workers: Vet) -> None:
    item = 'return augment(X[index]) * float(os.environ.get("NOISE", "1")), Y[index]'
    text = table(item).replace(
        "class Table", "import os\naugment = torch.nn.Dropout(0.0)\n\n\nclass Table", 1
    )
    found = workers(text, (0, 1)).settings
    assert "Dropout" in next(at.kinds for at in found if at.path == "augment.p")
    (of_environment,) = (at for at in found if at.path == "os.environ")
    assert of_environment.scope == MODULE and "NOISE" in of_environment.keys


def test_methods_that_set_an_attribute_of_a_librarys_object_are_told_with_it(workers: Vet) -> None:
    made = "shifts = torch.utils.data.DistributedSampler([0], num_replicas=1, rank=0)"
    text = table("return X[index] + shifts.epoch, Y[index]")
    text = text.replace("class Table", f"{made}\n\n\nclass Table", 1)
    (found,) = (at for at in workers(text, (0, 1)).settings if at.path == "shifts.epoch")
    assert "DistributedSampler" in found.kinds and found.setters == {"set_epoch"}


def test_a_property_of_the_users_that_sets_an_attribute_is_told_with_it(workers: Vet) -> None:
    made = (
        "class Schedule:\n    _level = 1.0\n\n    @property\n    def level(self):\n"
        "        return self._level\n\n    def reset(self, to):\n        self._level = to\n\n"
        "    @level.setter\n    def level(self, to):\n        self._level = to\n\n"
        "schedule = Schedule()\n"
    )
    text = table("return X[index] * schedule.level, Y[index]")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    found = {at.path: at.setters for at in workers(text, (0, 1)).settings}
    assert found["schedule._level"] == {"level"}


def test_an_array_that_another_object_of_the_users_has_too_is_known_by_its_name_there(
    workers: Vet,
) -> None:
    tracker = "class Tracker:\n    def __init__(self):\n        self.hard = torch.ones(8)\n\n"
    prepare = "self.weights = tracker.hard[:4].numpy()"
    text = table("return X[index] * self.weights, Y[index]", prepare)
    text = text.replace("class Table", f"{tracker}tracker = Tracker()\n\n\nclass Table")
    found = workers(text, (0, 2)).settings
    arrays = {(at.path, at.name, at.kinds) for at in found if at.inside}
    assert ("dataset.weights", "hard", ("Tracker",)) in arrays
    assert ("dataset.weights", "weights", ("Table",)) in arrays


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ("@functools.cache\ndef options():\n    return Options()\n", "options().grain"),
        ("@functools.lru_cache(1)\ndef options():\n    return Options()\n", "options().grain"),
        (
            "@functools.cache\ndef options(*i):\n    return X[i] if i else Options()\n\noptions(1)",
            "options().grain",
        ),
        ("kept = Options()\noptions = weakref.ref(kept)\n", "options().grain"),
        ("kept = Options()\noptions = weakref.proxy(kept)\n", "options.grain"),
    ],
)
def test_settings_behind_a_cached_function_or_a_weak_reference(
    workers: Vet, made: str, read: str
) -> None:
    options = f"import functools\nimport weakref\n\nclass Options:\n    grain = 1.0\n\n{made}\n"
    text = table(f"return X[index] * {read}, Y[index]").replace(
        "class Table", f"{options}class Table"
    )
    found = workers(text, (0, 1)).settings
    assert ("grain", ("Options",)) in {(at.name, at.kinds) for at in found}


def test_data_that_are_others_in_each_run_are_not_put_down_to_workers(workers: Vet) -> None:
    text = table("return self.rows[index], Y[index]", "self.rows = torch.rand(640, 4)")
    vetted = workers(
        text.replace("class Table", "torch.manual_seed(time.time_ns())\nclass Table"), (0, 2)
    )
    assert vetted.values == (0,)
    assert "the program as it is was given other data in each of two runs" in vetted.reason


@pytest.mark.parametrize(
    ("drawn", "streams"),
    [
        ("random.random()", ("random",)),
        ("uniform(0, 1)", ("random",)),
        ("np.random.rand()", ("numpy.random",)),
        ("rand()", ("numpy.random",)),
        ("draws.rand()", ("numpy.random",)),
        ("np.random.default_rng(index).random()", ()),
        ("random.Random(index).random()", ()),
        ("float(torch.rand(()))", ()),
    ],
)
def test_whose_random_numbers_samples_are_made_with(
    workers: Vet, drawn: str, streams: tuple[str, ...]
) -> None:
    made = "import random\nfrom random import uniform\nimport numpy as np\n"
    made += "from numpy import random as draws\nfrom numpy.random import rand\n"
    text = table(f"return X[index] + {drawn}, Y[index]")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    assert workers(text, (0, 1)).streams == streams


def test_methods_and_what_a_function_is_given_are_told_by_name(workers: Vet) -> None:
    item = "return self.scaled(shifted(X[index])), Y[index]"
    made = (
        "import contextvars\nimport functools\n"
        "RATE = contextvars.ContextVar('rate', default=1.0)\n"
        "def shift(x, by):\n    return RATE.get() * x + by\n"
        "shifted = functools.partial(shift, by=0.0)\n"
    )
    text = table(item).replace("class Table", f"{made}\n\nclass Table", 1)
    text = text.replace(
        "    def __len__", "    def scaled(self, x):\n        return x\n\n    def __len__"
    )
    found = {(at.name, at.kinds, at.scope, at.inside) for at in workers(text, (0, 1)).settings}
    assert ("scaled", ("Table",), "", False) in found
    assert ("by", (), "", False) in found
    assert ("RATE", (), MODULE, True) in found


def test_what_chooses_samples_is_known_by_name_too(workers: Vet) -> None:
    drill = (
        "class Drill(torch.utils.data.Sampler):\n    def __init__(self):\n"
        "        self.again = []\n\n"
        "    def __iter__(self):\n        for part in torch.randperm(640).split(16):\n"
        "            yield self.again.pop() if self.again else part.tolist()\n\ndrill = Drill()\n"
    )
    text = table(PLAIN, options="batch_sampler=drill").replace("loader =", f"{drill}\nloader =", 1)
    found = workers(text, (0, 2)).settings
    assert ("sampler.again", "again", True) in {(at.path, at.name, at.inside) for at in found}


def test_the_programs_own_functions_that_its_steps_run_are_told_by_their_places(
    workers: Vet,
) -> None:
    made = """\
class Drill(torch.utils.data.Sampler):
    def __iter__(self):
        for part in torch.randperm(640).split(16):
            yield part.tolist()

def mark(x):
    return x

class Listener:
    def after(self, x):
        mark(x)

    def later(self, x):
        mark(x)
"""
    text = table(PLAIN, "self.listener = Listener()", options="batch_sampler=Drill()")
    text = text.replace("class Table", f"{made}\n\nclass Table", 1)
    told = "optimizer.step()\n        getattr(dataset.listener, 'after')(x)"
    text = text.replace("optimizer.step()", told)
    lines = text.splitlines()
    ran = ("def __iter__", "def mark", "def after")  # and no __getitem__
    (*found,) = (lines[at.line - 1].strip() for at in workers(text, (0, 1)).running)
    assert sorted(found) == sorted(
        line.strip() for line in lines if any(each in line for each in ran)
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_that_makes_samples_stays_with_the_training(workers: Vet, frozen: bool) -> None:
    made = f"teacher = torch.nn.Linear(4, 4).requires_grad_({not frozen})"
    text = table("return teacher(X[index]).detach(), Y[index]")
    found = workers(text.replace("class Table", f"{made}\n\n\nclass Table", 1), (0, 2))
    assert (
        found.values == (0,)
        and "(`teacher`): with workers they would be made by copies" in found.reason
    )


def test_an_optimizer_that_makes_samples_stays_with_the_training(workers: Vet) -> None:
    made = "rate = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)"
    text = table('return X[index] * rate.param_groups[0]["lr"], Y[index]')
    found = workers(text.replace("class Table", f"{made}\n\n\nclass Table", 1), (0, 2))
    assert found.values == (0,)
    assert "(`rate`): with workers they would be made by copies" in found.reason


def test_what_a_stream_is_made_by_is_told_by_name(workers: Vet) -> None:
    body = "for index in range(640):\n    yield X[index] * self.level, Y[index]"
    text = stream(body).replace(
        "class Stream(IterableDataset):", "class Stream(IterableDataset):\n    level = 1.0\n", 1
    )
    found = {(at.name, at.kinds[:1]) for at in workers(text, (0, 1)).settings}
    assert ("level", ("Stream",)) in found


def test_arrays_and_containers_are_known_by_the_variables_that_hold_them(workers: Vet) -> None:
    text = table("return X[index] * self.marks[0], Y[index]", "self.marks = marks")
    text = text.replace("class Table", "marks = [1.0]\n\n\nclass Table", 1)
    found = workers(text, (0, 2)).settings
    names = {(at.path, at.name, at.scope) for at in found if at.inside and at.scope}
    assert {("dataset.marks", "marks", MODULE), ("X", "X", MODULE)} <= names
    assert ("dataset.marks", "marks", ("Table",)) in {(at.path, at.name, at.kinds) for at in found}
