"""The GPU's bench: its code, run with tiny sizes on whatever there is, and how it judges."""

import itertools
import json
import runpy
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.outputs.document import from_document
from autotune.profiling.memory_model import OutOfMemory
from tests.bench import (
    delivered,
    gpu,
    gpu_checks,
    gpu_go,
    gpu_jpeg,
    gpu_memory,
    gpu_planted,
    gpu_rivals,
    rival,
)
from tests.bench.delivered import ORIGINAL, TUNED, Claim
from tests.bench.gpu_bars import bars
from tests.bench.gpu_go import measure
from tests.bench.gpu_programs import images
from tests.bench.gpu_raw import Raw
from tests.bench.gpu_unit import AS_IT_IS, PROGRAMS, RIVAL, Setting, Unit
from tests.bench.rival import Answer
from tests.bench.stopwatch import Timing

REHEARSAL = Setting(rehearse=True)
# Of the published models, as torchvision's documentation has them.
PUBLISHED = {18: 11_689_512, 50: 25_557_032}


def unit(
    name: str, measure: Any = lambda setting: {"figure": 1}, needs: tuple[str, ...] = ()
) -> Unit:
    return Unit(part="planted", name=name, seconds=60, measure=measure, needs=needs)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def fail(setting: Setting) -> dict[str, Any]:
    raise RuntimeError("CUDA error: out of memory")


def costs(share: float, reach: float = 0.005) -> dict[str, Any]:
    """A loop that costs `share` in turns, give or take `reach`, and less in the profile; to close
    windows costs more.
    """
    kinds = {"profile": share - 0.005, "turns": share, "closing": 0.1}
    return {
        kind: {"cost_share": each, "interval": [each - reach, each + reach]}
        for kind, each in kinds.items()
    }


def accuracies(*differences: float) -> dict[str, Any]:
    """Of a model as it is and in bf16, seed by seed; seeds also draw other data."""
    own = [0.95 - 0.05 * seed for seed in range(len(differences))]
    bf16 = [each + off for each, off in zip(own, differences, strict=True)]
    return {"accuracy": {AS_IT_IS: own, "bf16": bf16}}


def document(name: str, measured: dict[str, Any]) -> dict[str, Any]:
    return {"part": name.partition("-")[0], "name": name, "measured": measured}


def held(*documents: dict[str, Any], names: tuple[str, ...] = ()) -> dict[str, bool | None]:
    return {bar.name: bar.holds for bar in bars(documents, names)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu.main(["--out", str(tmp_path)]) == gpu.NO_DEVICE
    assert "no CUDA device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_is_never_written_to_the_reports() -> None:
    with pytest.raises(SystemExit):
        gpu.main(["--rehearse", "--out", str(gpu.REPORTS / "h200")])


class TestGoes:
    def test_what_has_its_file_is_not_measured_again(self, tmp_path: Path) -> None:
        assert measure((unit("a"),), REHEARSAL, tmp_path, 60) == []
        written = read(tmp_path / "a.json")
        assert written["measured"] == {"figure": 1} and written["rehearsal"] is True
        assert {"device_name", "cores", "versions", "torch_cuda"} <= set(written["machine"])
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
        other = unit("a", lambda setting: {"figure": 2})
        measure((other,), REHEARSAL, tmp_path, 60)
        assert read(tmp_path / "a.json") == written
        measure((other,), replace(REHEARSAL, fresh=True), tmp_path, 60)
        assert read(tmp_path / "a.json")["measured"] == {"figure": 2}

    def test_what_was_rehearsed_is_not_measured(self, tmp_path: Path) -> None:
        measure((unit("a"),), REHEARSAL, tmp_path, 60)
        measure((unit("a", lambda setting: {"figure": 2}),), Setting(), tmp_path, 90)
        written = read(tmp_path / "a.json")
        assert written["measured"] == {"figure": 2} and "rehearsal" not in written

    def test_what_would_not_be_over_in_time_is_left_for_the_next_go(self, tmp_path: Path) -> None:
        assert measure((unit("a"), unit("b")), Setting(), tmp_path, 30) == ["a", "b"]
        assert list(tmp_path.iterdir()) == []

    def test_one_that_fails_says_so_and_does_not_end_the_others(self, tmp_path: Path) -> None:
        measure((unit("a", fail), unit("b")), REHEARSAL, tmp_path, 60)
        document = read(tmp_path / "a.json")
        assert "out of memory" in document["failed"] and "Traceback" in document["said"]
        assert (tmp_path / "b.json").exists()
        measure((unit("a"),), REHEARSAL, tmp_path, 60)  # what failed is made again
        assert "failed" not in read(tmp_path / "a.json")

    def test_what_failed_before_comes_last(self, tmp_path: Path) -> None:
        order: list[str] = []
        measure((unit("a", fail),), REHEARSAL, tmp_path, 60)
        units = [unit(name, lambda _, name=name: order.append(name)) for name in "abc"]
        measure(tuple(units), REHEARSAL, tmp_path, 60)
        assert order == ["b", "c", "a"]

    def test_one_that_needs_another_waits_for_it(self, tmp_path: Path) -> None:
        second = unit("b", lambda setting: setting.needed("a"), needs=("a",))
        assert measure((unit("a", fail), second), REHEARSAL, tmp_path, 60) == ["b"]
        assert measure((unit("a"), second), REHEARSAL, tmp_path, 60) == ["b"]  # a came last
        assert measure((unit("a"), second), REHEARSAL, tmp_path, 60) == []
        assert read(tmp_path / "b.json")["measured"] == {"figure": 1}

    def test_one_that_is_not_over_in_time_is_ended_with_all_that_it_started(
        self, tmp_path: Path
    ) -> None:
        alone = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', "
        alone += "'import time; time.sleep(99)'], start_new_session=True); time.sleep(99)"
        command = [sys.executable, "-c", alone]
        began = time.monotonic()

        def hang(setting: Setting) -> dict[str, Any]:
            subprocess.run(command, check=True)
            return {}

        there = gpu_go._descendants()
        measure((unit("a", hang), unit("b")), REHEARSAL, tmp_path, 1.5)
        assert read(tmp_path / "a.json")["failed"].startswith("out of time")
        assert time.monotonic() - began < 30
        assert gpu_go._descendants() <= there | tracker()

    def test_nothing_is_left_of_what_one_forgot(self, tmp_path: Path) -> None:
        def forget(setting: Setting) -> dict[str, Any]:
            return {"pid": started(setting.work)}

        def started(folder: Path) -> int:
            script = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', "
            script += "'import time; time.sleep(99)'], stdout=-3, stderr=-3).pid)"  # to nowhere
            ran = subprocess.run(
                [sys.executable, "-c", script], check=True, capture_output=True, text=True
            )
            return int(ran.stdout)

        measure((unit("a", forget),), REHEARSAL, tmp_path, 60)
        assert not Path(f"/proc/{read(tmp_path / 'a.json')['measured']['pid']}").exists()

    def test_an_interrupt_keeps_what_there_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(setting: Setting) -> dict[str, Any]:
            raise KeyboardInterrupt

        monkeypatch.setattr(gpu, "UNITS", (unit("a"), unit("b", interrupt), unit("c")))
        assert gpu.main(["--rehearse", "--out", str(tmp_path)]) == gpu.INTERRUPTED
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

    def test_the_rows_that_are_copied_each_step_are_pinned_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pinned: list[torch.Tensor] = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda rows: pinned.append(rows) or rows)
        gpu_checks._rows.cache_clear()
        rows = gpu_checks._rows(3)
        assert gpu_checks._rows(3) is rows and len(pinned) == 1
        gpu_checks._rows.cache_clear()

    def test_all_of_it_fits_a_few_goes(self) -> None:
        assert sum(unit.seconds for unit in gpu.UNITS) < 1700
        assert max(unit.seconds for unit in gpu.UNITS) < 300
        names = [unit.name for unit in gpu.UNITS]
        for number, each in enumerate(gpu.UNITS):
            assert set(each.needs) <= set(names[:number])

    def test_all_but_the_rivals_comes_first_and_fits_one_go(self) -> None:
        rivals = [unit.part == "rivals" for unit in gpu.UNITS]
        assert rivals == sorted(rivals)
        others = (unit.seconds for unit in gpu.UNITS if unit.part != "rivals")
        assert sum(others) <= 8 * 60

    @pytest.mark.slow
    def test_a_rehearsal_is_held_to_no_bar(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        gpu.main(["--rehearse", "--only", "overhead", "--out", str(tmp_path)])
        facts = json.loads((tmp_path / "overhead.json").read_text())
        loops = facts["measured"]["loops"]
        assert set(loops) == set(gpu_checks.LOOPS)
        assert {"profile", "turns", "closing"} < set(loops["busy"])
        assert capsys.readouterr().out == ""

    @pytest.mark.slow
    def test_a_planted_program_is_profiled_as_by_a_user(self, tmp_path: Path) -> None:
        gpu.main(["--rehearse", "--only", "planted-item_costly", "--out", str(tmp_path)])
        facts = read(tmp_path / "planted-item_costly.json")["measured"]
        assert from_document(facts["result"]).diagnosis
        assert torch.cuda.is_available() or facts["raw"] == asdict(Raw())


class TestPrograms:
    @pytest.mark.parametrize("fault", gpu_planted.FAULTS)
    def test_each_planted_program_trains(self, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.utils.data.DataLoader, "__init__", _without_workers())
        self.run(PROGRAMS / "planted.py", [fault, "--scale", "1", "--steps", "1"], monkeypatch)

    def test_waits_that_are_to_cost_something_are_several_a_layer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read, item = [], torch.Tensor.item
        monkeypatch.setattr(
            torch.Tensor, "item", lambda each: read.append(each.dtype) or item(each)
        )
        arguments = ["item_costly", "--scale", "1", "--steps", "1"]
        self.run(PROGRAMS / "planted.py", arguments, monkeypatch)
        assert read.count(torch.float32) == 3 * 10  # the loader's seed is an integer

    @pytest.mark.parametrize("workload", gpu_rivals.WORKLOADS[1:], ids=lambda each: each.program)
    def test_each_workload_trains(
        self, workload: gpu_rivals.Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "program.py"
        program.write_text(workload.text(rehearse=True))
        self.run(program, ["--steps", "1"], monkeypatch)

    def run(self, program: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", [program.name, *arguments])
        runpy.run_path(str(program), run_name="__main__")

    @pytest.mark.parametrize("workload", gpu_rivals.WORKLOADS, ids=lambda each: each.name)
    def test_the_rival_trains_by_its_own_step(self, workload: gpu_rivals.Workload) -> None:
        text = gpu_rivals.with_rival(workload.text(rehearse=False), "fast")
        compile(text, "rival", "exec")
        assert "pytorch_autotune.autotune(" in text and "loss.backward()" not in text

    @pytest.mark.parametrize("depth", PUBLISHED)
    def test_the_resnets_are_the_published_ones(self, depth: int) -> None:
        with torch.device("meta"):
            model = images.ResNet(depth)
        assert sum(each.numel() for each in model.parameters()) == PUBLISHED[depth]

    def test_the_program_that_learns_is_given_its_number_format(self) -> None:
        (accuracy,) = gpu_checks.train("bf16", 1, ["--samples", "128", "--epochs", "1"])
        assert 0 <= accuracy <= 1


def tracker() -> set[Any]:
    """multiprocessing's own, which lives as long as this process."""
    commands = {each: " ".join(each.cmdline()) for each in gpu_go._descendants()}
    return {each for each, command in commands.items() if "resource_tracker" in command}


def _without_workers() -> Any:
    original = torch.utils.data.DataLoader.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs | {"num_workers": 0, "persistent_workers": False})

    return __init__


CLAIM = Claim(
    outcome="faster",
    reason="",
    speedup=1.5,
    interval=(1.4, 1.6),
    settings={},
    cost_seconds=60.0,
    break_even_steps=None,
)
SEARCHED = {"search_seconds": 80.0, "wall_seconds": 300.0, "picked": "", "said": ""}
WORKLOAD = gpu_rivals.WORKLOADS[0]


class TestRivals:
    @pytest.fixture
    def contest(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """Contests in which nothing is installed, searched or run, and no two runs take as long;
        what they were called with, and what autotune is to claim.
        """
        asked: dict[str, Any] = {"claim": CLAIM, "programs": [], "caches": []}
        seconds = itertools.count(2)

        def time_program(program: Path, *_: Any) -> Timing:
            asked["programs"].append(program.read_text())
            marks = ((1.0, 10**6), (float(next(seconds)), 2 * 10**6))
            return Timing(
                wall_seconds=9.0, own_cores=1.0, other_cores=0.0, stolen_cores=0.0, marks=marks
            )

        def prepare(example: Any, work: Path) -> Path:
            gpu_rivals.written("original", work / ORIGINAL / "examples" / example.original)
            return work / ORIGINAL

        def search(example: Any, root: Path, budget: str) -> Claim:
            asked["budget"] = budget
            gpu_rivals.written('{"verdict": {}}', root.parent / "out" / "result.json")
            if asked["claim"].outcome == "faster":
                gpu_rivals.written("tuned", root.parent / TUNED / "examples" / example.tuned)
            return asked["claim"]

        def search_by_it(program: Path, packages: Path) -> dict[str, Any]:
            gpu_rivals.written('{"key": "config"}', Path(gpu_rivals.os.environ[gpu_rivals.CACHE]))
            return SEARCHED

        def tune(python: Path, example: Any, root: Path, **options: Any) -> Answer:
            asked["loadtune"] = options
            gpu_rivals.written("loadtuned", root / "examples" / example.original)
            return Answer(found=True)

        for owner, name, stand_in in (
            (gpu_jpeg, "prepare", prepare),
            (delivered, "search", search),
            (delivered, "time_program", time_program),
            (rival, "install", lambda _: tmp_path),
            (rival, "tune", tune),
            (gpu_rivals, "install", lambda _: None),
            (gpu_rivals, "search_by_it", search_by_it),
        ):
            monkeypatch.setattr(owner, name, stand_in)
        return asked

    def go(self, part: tuple[Unit, ...], out: Path, **changes: Any) -> None:
        """Each in a go of its own."""
        for each in part:
            assert measure((each,), replace(REHEARSAL, **changes), out, 60) == []
            assert "failed" not in read(out / f"{each.name}.json")

    def test_a_contest_is_three_measurements_that_go_on_from_each_other(
        self, contest: dict[str, Any], tmp_path: Path
    ) -> None:
        self.go(gpu_rivals.UNITS[:3], tmp_path)
        theirs, own, runs = (
            read(tmp_path / f"rivals-resnet18{end}.json")["measured"]
            for end in ("-theirs", "-ours", "")
        )
        assert theirs["cache"] == {"key": "config"}
        assert own["tuned"] == "tuned" and own["result"] == {"verdict": {}}
        assert own["claim"] == json.loads(json.dumps(asdict(CLAIM)))
        assert contest["budget"] == "105s"  # 0.45 of 300 s, less 30
        assert list(runs["samples_per_second"]) == [ORIGINAL, TUNED, RIVAL]
        assert contest["programs"][1] == "tuned" and "autotune(" in contest["programs"][2]

    @pytest.mark.usefixtures("contest")
    @pytest.mark.parametrize("rounds", [1, 2])
    @pytest.mark.parametrize(
        "part", [gpu_rivals.UNITS[:3], gpu_jpeg.UNITS[:2]], ids=["pytorch-autotune", "jpeg"]
    )
    def test_a_contest_takes_no_more_rounds_than_its_time_is_meant_for(
        self, part: tuple[Unit, ...], rounds: int, tmp_path: Path
    ) -> None:
        self.go(part, tmp_path, rounds=rounds)
        runs = read(tmp_path / f"{part[0].name.removesuffix('-theirs').removesuffix('-ours')}.json")
        assert {name: len(all_) for name, all_ in runs["measured"]["runs"].items()}[TUNED] == rounds

    def test_what_hands_nothing_back_is_timed_as_the_original(
        self, contest: dict[str, Any], tmp_path: Path
    ) -> None:
        contest["claim"] = replace(CLAIM, outcome=delivered.NOTHING_DELIVERED, speedup=1.0)
        self.go(gpu_rivals.UNITS[:3] + gpu_jpeg.UNITS, tmp_path)
        runs = read(tmp_path / "rivals-resnet18.json")["measured"]["runs"]
        assert list(runs) == [ORIGINAL, RIVAL]
        assert read(tmp_path / "rivals-jpeg.json")["measured"]["speedup"]["estimate"] == 1.0
        others = read(tmp_path / "rivals-jpeg-loadtune.json")["measured"]["runs"]
        assert list(others) == [ORIGINAL, delivered.RIVAL]

    def test_the_jpeg_bar_does_not_wait_for_loadtune(
        self, contest: dict[str, Any], tmp_path: Path
    ) -> None:
        self.go(gpu_jpeg.UNITS[:2], tmp_path)
        assert "loadtune" not in contest
        assert read(tmp_path / "rivals-jpeg.json")["measured"]["speedup"]["estimate"] == 0.5
        self.go(gpu_jpeg.UNITS[2:], tmp_path)
        assert contest["loadtune"]["options"] == rival.DEFAULTS
        assert contest["loadtune"]["limit_seconds"] < gpu_jpeg.UNITS[2].seconds
        assert contest["programs"][-2:] == ["tuned", "loadtuned"]

    @pytest.mark.usefixtures("contest")
    def test_loadtune_may_be_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def install(_: Path) -> None:
            raise subprocess.CalledProcessError(1, "pip", stderr="No matching distribution")

        monkeypatch.setattr(rival, "install", install)
        self.go(gpu_jpeg.UNITS, tmp_path)
        said = read(tmp_path / "rivals-jpeg-loadtune.json")["measured"]
        assert said["loadtune"] is None and "No matching distribution" in said["said"]

    @pytest.mark.parametrize(
        ("its_seconds", "budget"), [(60.0, "60s"), (200.0, "60s"), (400.0, "150s")]
    )
    def test_the_budget_leaves_the_whole_search_half_of_the_rivals_time(
        self, its_seconds: float, budget: str, tmp_path: Path
    ) -> None:
        facts = document("rivals-resnet18-theirs", {"wall_seconds": its_seconds})
        (tmp_path / "rivals-resnet18-theirs.json").write_text(json.dumps(facts))
        setting = Setting().within(tmp_path, tmp_path)
        assert gpu_rivals.budget_beside(WORKLOAD, setting) == budget
        assert gpu_rivals.budget_beside(WORKLOAD, replace(setting, budget="9s")) == "9s"


class TestMemory:
    def test_the_model_is_held_to_the_true_limit(self) -> None:
        found = gpu_memory.memory(REHEARSAL)
        assert found["true_samples"] == 31
        assert found["predicted_samples"] == pytest.approx(31, rel=0.05)
        assert found["epoch_out_of_memory"] == 0

    @pytest.mark.parametrize(
        ("said", "lacks_room"),
        [
            ("CUDA out of memory. Tried to allocate 2.00 GiB.", True),
            ("GET was unable to find an engine to execute this computation", True),
            ("CUDA error: an illegal memory access was encountered", False),
        ],
    )
    def test_a_probe_tells_a_lack_of_memory_from_other_failures(
        self, said: str, lacks_room: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError(said)

        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
        training = gpu_memory.Training(torch.nn.Linear(2, 2), pixels=4)
        monkeypatch.setattr(training, "train", fail)
        if lacks_room:
            assert isinstance(training.probe(2), OutOfMemory)
        else:
            with pytest.raises(RuntimeError, match="illegal"):
                training.probe(2)

    def test_its_steps_train(self) -> None:
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 10))
        gpu_memory.Training(model, pixels=4).train(2)
        weight = next(model.parameters())
        assert weight.grad is None and not torch.equal(weight, torch.zeros_like(weight))

    def test_an_epoch_is_steps_of_two_sizes_without_giving_anything_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 10))
        training, done, given_back = gpu_memory.Training(model, pixels=4), [], []
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(len(done)))

        def step(size: int) -> None:
            done.append(size)
            if len(done) == 15:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        monkeypatch.setattr(training, "step", step)
        assert training.epochs(6) == {"epoch_out_of_memory": 1, "epoch_retries": 0}
        assert done == [*[6] * gpu_memory.EPOCH_STEPS, 2] * gpu_memory.EPOCHS
        assert given_back == [0]


class TestBars:
    def finding(self, bottleneck: str, severity: str = "warning") -> dict[str, str]:
        return {"bottleneck": bottleneck, "severity": severity, "headline": bottleneck}

    def test_a_healthy_program_is_left_alone(self) -> None:
        expected = gpu_planted.FAULTS["healthy"]
        assert expected.missed([self.finding("compute", "info")]) == []
        assert expected.missed([self.finding("data"), self.finding("compute", "info")]) == [
            "data came first, and not compute",
            "data was found",
        ]

    def test_a_fault_is_found_first(self) -> None:
        expected = gpu_planted.FAULTS["slow_loader"]
        assert expected.missed([self.finding("data"), self.finding("overhead")]) == []
        assert expected.missed([self.finding("copy"), self.finding("data")]) != []

    def rivals(
        self, ours: float, its: float, seconds: float, name: str = "resnet50"
    ) -> list[dict[str, Any]]:
        rates = {ORIGINAL: [100.0], TUNED: [100 * ours], RIVAL: [100 * its]}
        claim = {"speedup": ours, "outcome": "faster"}
        return [
            document(f"rivals-{name}-theirs", {"search_seconds": 80.0, "wall_seconds": 100.0}),
            document(f"rivals-{name}-ours", {"claim": claim, "wall_seconds": seconds}),
            document(f"rivals-{name}", {"samples_per_second": rates}),
        ]

    def test_the_rival_is_to_be_met_in_half_its_time(self) -> None:
        name = (
            "rivals-resnet50: as fast as pytorch-autotune's pick, in at most half its search time"
        )
        assert held(*self.rivals(2.0, 1.9, 40))[name] is True
        assert held(*self.rivals(2.0, 2.1, 40))[name] is False
        assert held(*self.rivals(2.0, 1.9, 60))[name] is False

    def test_the_mean_is_of_all_workloads_or_of_none(self) -> None:
        name = "faster than pytorch-autotune on the geometric mean"
        documents: list[dict[str, Any]] = []
        found = []
        for workload in gpu_rivals.WORKLOADS:
            documents += self.rivals(2.0, 1.9, 40, workload.name)
            found.append(held(*documents)[name])
        assert found == [None, None, True]

    def test_who_claims_nothing_is_not_right_about_it(self) -> None:
        theirs, own, runs = self.rivals(1.0, 1.0, 40)
        own["measured"]["claim"] = {"speedup": 1.0, "outcome": "no_gain"}
        name = "rivals-resnet50: reported against delivered within 3%"
        assert held(theirs, own, runs)[name] is None

    def test_what_has_no_file_is_not_measured(self) -> None:
        names = tuple(unit.name for unit in gpu.UNITS)
        assert held(names=names) == dict.fromkeys(names)
        assert "parity" in held(*self.rivals(2.0, 1.9, 40), names=names)

    def test_overhead_memory_parity_and_claims_have_their_bars(self) -> None:
        memory = {
            "predicted_samples": 96,
            "true_samples": 100,
            "probes": 6,
            "out_of_memory": 1,
            "epoch_out_of_memory": 0,
        }
        good = held(
            document("overhead", {"loops": {"busy": costs(0.01)}}),
            document("memory", memory),
            document("parity", accuracies(-0.04, 0.03, -0.03, 0.02, -0.04)),
            document("rivals-jpeg", {"speedup": {"estimate": 6.0}}),
            document("rivals-jpeg-ours", {"claim": {"speedup": 6.1, "outcome": "faster"}}),
        )
        assert set(good.values()) == {True}
        bad = held(
            document("overhead", {"loops": {"busy": costs(0.03)}}),
            document("memory", memory | {"epoch_out_of_memory": 1}),
            document("parity", accuracies(-0.02, -0.021, -0.019, -0.02, -0.02)),
            document("rivals-jpeg", {"speedup": {"estimate": 5.0}}),
            document("rivals-jpeg-ours", {"claim": {"speedup": 6.1, "outcome": "faster"}}),
        )
        assert set(bad.values()) == {False}

    def test_a_cost_that_scatters_across_the_bar_is_not_known(self) -> None:
        wide = held(document("overhead", {"loops": {"launching": costs(0.002, 0.3)}}))
        assert set(wide.values()) == {None}

    def test_what_failed_is_not_measured(self) -> None:
        assert held({"part": "parity", "name": "parity", "failed": "no"}) == {"parity": None}
