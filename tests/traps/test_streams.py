"""Workers of iterable datasets: those that share it out, and those that do not."""

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
from autotune.workload.program.target import SCRIPT, Target
from autotune.workload.samples.delivery import Delivery
from tests import builders
from tests.traps.conftest import Bench, Vet
from tests.traps.programs import PLAIN, stream, table


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
        assert "samples did not come" in vetted.reason

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
