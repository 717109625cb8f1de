"""Workers of map-style datasets: those that deliver what the program is given without them."""

import pytest

from tests.traps.conftest import Vet
from tests.traps.programs import PLAIN, table


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
        assert "a connection (`dataset.database`)" in vetted.reason

    def test_a_connection_of_a_graph_is_none(self, workers: Vet) -> None:
        text = table("return X[index], Y[index]", "self.edges = [RoadConnection()]")
        text = text.replace(
            "class Table", "class RoadConnection:\n    ends = 1, 2\n\nclass Table", 1
        )
        assert workers(text, (0, 2)).values == (0, 2)

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
        assert "batches may be torn" in vetted.reason
        copied = item.replace("self.x, self.y", "self.x.clone(), self.y.clone()")
        assert workers(table(copied, prepare, options), (0, 1, 2)).values == (0, 1, 2)

    @pytest.mark.parametrize("asks", ["torch.initial_seed()", "torch.random.initial_seed()"])
    def test_samples_by_the_seed_that_a_run_began_with_are_refused(
        self, workers: Vet, asks: str
    ) -> None:
        item = f"held_out = (index + {asks}) % 640\nreturn X[held_out], Y[held_out]"
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "making them asks for `torch.initial_seed()` (train.py:" in vetted.reason
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
        assert "threads or processes of its own (`dataset.pool`)" in vetted.reason

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
        assert "threads or processes of its own (`dataset.pool`) would stay behind" in vetted.reason
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
