"""The GPU's bench: its code, run with tiny sizes on whatever there is, and how it judges."""

import itertools
import json
import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from autotune.profiling.memory_model import OutOfMemory
from tests.bench import delivered, gpu, gpu_checks, gpu_memory, gpu_planted, gpu_rivals, rival
from tests.bench.delivered import ORIGINAL, TUNED, Claim
from tests.bench.gpu_bars import bars
from tests.bench.gpu_programs import images
from tests.bench.gpu_unit import PROGRAMS, RIVAL, Setting, Unit
from tests.bench.rival import Answer
from tests.bench.stopwatch import Timing

REHEARSAL = Setting(rehearse=True)
# Of the published models, as torchvision's documentation has them.
PUBLISHED = {18: 11_689_512, 50: 25_557_032}


def unit(name: str, measure: Any = lambda setting: {"figure": 1}) -> Unit:
    return Unit(part="planted", name=name, seconds=60, measure=measure)


def costs(share: float) -> dict[str, Any]:
    """A loop that costs `share` in turns, and less in the profile."""
    return {"profile": {"cost_share": share - 0.005}, "turns": {"cost_share": share}}


def document(name: str, measured: dict[str, Any]) -> dict[str, Any]:
    return {"part": name.partition("-")[0], "name": name, "measured": measured}


def held(*documents: dict[str, Any]) -> dict[str, bool | None]:
    return {bar.name: bar.holds for bar in bars(documents)}


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
        assert gpu.measure((unit("a"),), REHEARSAL, tmp_path, 60) == []
        written = json.loads((tmp_path / "a.json").read_text())
        assert written["measured"] == {"figure": 1} and written["rehearsal"] is True
        assert {"device_name", "cores", "versions", "torch_cuda"} <= set(written["machine"])
        other = unit("a", lambda setting: {"figure": 2})
        gpu.measure((other,), REHEARSAL, tmp_path, 60)
        assert json.loads((tmp_path / "a.json").read_text()) == written
        gpu.measure((other,), replace(REHEARSAL, fresh=True), tmp_path, 60)
        assert json.loads((tmp_path / "a.json").read_text())["measured"] == {"figure": 2}

    def test_what_would_not_be_over_in_time_is_left_for_the_next_go(self, tmp_path: Path) -> None:
        assert gpu.measure((unit("a"), unit("b")), Setting(), tmp_path, 30) == ["a", "b"]
        assert list(tmp_path.iterdir()) == []

    def test_one_that_fails_says_so_and_does_not_end_the_others(self, tmp_path: Path) -> None:
        def fail(setting: Setting) -> dict[str, Any]:
            raise RuntimeError("CUDA error: out of memory")

        gpu.measure((unit("a", fail), unit("b")), REHEARSAL, tmp_path, 60)
        document = json.loads((tmp_path / "a.json").read_text())
        assert "out of memory" in document["failed"] and "Traceback" in document["said"]
        assert (tmp_path / "b.json").exists()
        gpu.measure((unit("a"),), REHEARSAL, tmp_path, 60)  # what failed is made again
        assert "failed" not in json.loads((tmp_path / "a.json").read_text())

    def test_a_rehearsal_is_held_to_no_bar(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        gpu.main(["--rehearse", "--only", "overhead", "--out", str(tmp_path)])
        facts = json.loads((tmp_path / "overhead.json").read_text())
        assert set(facts["measured"]["loops"]) == set(gpu_checks.LOOPS)
        assert capsys.readouterr().out == ""


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


def _without_workers() -> Any:
    original = torch.utils.data.DataLoader.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs | {"num_workers": 0, "persistent_workers": False})

    return __init__


class TestRivals:
    @pytest.fixture
    def scattering(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Contests in which nothing is installed, searched or run, and no two runs take as long."""
        claim = Claim(
            outcome="faster",
            reason="",
            speedup=1.5,
            interval=(1.4, 1.6),
            settings={},
            cost_seconds=60.0,
            break_even_steps=None,
        )
        seconds = itertools.count(2)

        def time_program(*_: Any) -> Timing:
            marks = ((1.0, 10**6), (float(next(seconds)), 2 * 10**6))
            return Timing(
                wall_seconds=9.0, own_cores=1.0, other_cores=0.0, stolen_cores=0.0, marks=marks
            )

        def prepare(*_: Any) -> Path:
            (tmp_path / ORIGINAL).mkdir()
            return tmp_path / ORIGINAL

        for owner, name, stand_in in (
            (delivered, "prepare", prepare),
            (delivered, "search", lambda *_: claim),
            (delivered, "time_program", time_program),
            (rival, "install", lambda _: tmp_path),
            (rival, "tune", lambda *_: Answer(found=False)),
            (gpu_rivals, "install", lambda _: None),
            (gpu_rivals, "search_by_it", lambda *_: {}),
        ):
            monkeypatch.setattr(owner, name, stand_in)

    @pytest.mark.usefixtures("scattering")
    @pytest.mark.parametrize("rounds", [1, 2])
    @pytest.mark.parametrize(
        "measure",
        [partial(gpu_rivals.contest, gpu_rivals.WORKLOADS[0]), gpu_rivals.against_loadtune],
        ids=["pytorch-autotune", "loadtune"],
    )
    def test_a_contest_takes_no_more_rounds_than_its_time_is_meant_for(
        self, measure: Any, rounds: int, tmp_path: Path
    ) -> None:
        found = measure(replace(REHEARSAL, rounds=rounds).within(tmp_path))
        assert {name: len(runs) for name, runs in found["runs"].items()}[TUNED] == rounds


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

    def rivals(self, ours: float, its: float, seconds: float) -> dict[str, Any]:
        return document(
            "rivals-resnet50",
            {
                "claim": {"speedup": ours},
                "search_seconds": seconds,
                "pytorch_autotune": {"search_seconds": 100.0},
                "samples_per_second": {ORIGINAL: [100.0], TUNED: [100 * ours], RIVAL: [100 * its]},
            },
        )

    def test_the_rival_is_to_be_met_in_half_its_time(self) -> None:
        name = (
            "rivals-resnet50: as fast as pytorch-autotune's pick, in at most half its search time"
        )
        assert held(self.rivals(2.0, 1.9, 40))[name] is True
        assert held(self.rivals(2.0, 2.1, 40))[name] is False
        assert held(self.rivals(2.0, 1.9, 60))[name] is False

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
            document("parity", {"noise": 0.004, "differs_by": {"bf16": -0.009}}),
            document("rivals-jpeg", {"speedup": {"estimate": 6.0}, "claim": {"speedup": 6.1}}),
        )
        assert set(good.values()) == {True}
        bad = held(
            document("overhead", {"loops": {"busy": costs(0.03)}}),
            document("memory", memory | {"epoch_out_of_memory": 1}),
            document("parity", {"noise": 0.004, "differs_by": {"bf16": -0.02}}),
            document("rivals-jpeg", {"speedup": {"estimate": 5.0}, "claim": {"speedup": 6.1}}),
        )
        assert set(bad.values()) == {False}

    def test_what_failed_is_not_measured(self) -> None:
        assert held({"part": "parity", "name": "parity", "failed": "no"}) == {"parity": None}
