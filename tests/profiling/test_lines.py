"""What runs in methods of modules beside their forward is forward too, on a CPU."""

import pytest

from autotune.diagnosis import Bottleneck, diagnose
from autotune.knobs import by_name
from autotune.knobs.knob import Skip
from autotune.profiling.build import with_lines
from autotune.workload.found import INSIDE, BusyLine
from tests import builders


def in_parts(share: float, *, device: str = "cpu", phase: str = "forward") -> dict[str, float]:
    line = BusyLine(phase=phase, path="/m.py", line=7, function="computer", share=share)
    profile = builders.profile(
        phases={"forward": 0.1, "backward": 0.4, "other": 0.5},
        machine=builders.machine(device=device),
    )
    return dict(with_lines(profile, (line,)).phases)


def test_it_is_no_more_than_no_phase_accounts_for() -> None:
    assert in_parts(0.3) == pytest.approx({"forward": 0.4, "backward": 0.4, "other": 0.2})
    assert in_parts(0.7)["other"] == 0.0
    assert in_parts(0.3, phase="other")["other"] == 0.5
    assert in_parts(0.3, device="cuda")["other"] == 0.5  # there it is the device's time


def test_what_is_put_round_calls_of_modules_is_not_tried_where_they_are_a_small_part() -> None:
    line = BusyLine(phase="forward", path="/m.py", line=7, function="computer", share=0.3)
    profile = builders.profile(
        phases={"forward": 0.2, "backward": 0.4, "other": 0.4}, probes={"bf16_speedup": 3.0}
    )
    found = {
        lines: by_name("precision").domain(with_lines(profile, lines)) for lines in ((), (line,))
    }
    assert not isinstance(found[()], Skip)
    assert "methods that are called by themselves" in getattr(found[(line,)], "reason", "")


def test_looks_that_fell_between_the_epochs_do_not_say_where_the_model_computes() -> None:
    line = BusyLine(phase="forward", path="/m.py", line=7, function="sampling", share=0.7)
    profile = builders.profile(
        phases={"forward": 0.5, "backward": 0.4, "other": 0.1}, probes={"bf16_speedup": 3.0}
    )
    found = with_lines(profile, (line,))
    assert found.phases["forward"] == pytest.approx(0.6)
    assert not isinstance(by_name("precision").domain(found), Skip)


def test_python_inside_a_forward_pass_is_code_of_the_program_s_own() -> None:
    assert in_parts(0.06, phase=INSIDE) == pytest.approx(
        {"forward": 0.04, "backward": 0.4, "other": 0.56}
    )
    assert in_parts(0.3, phase=INSIDE)["forward"] == 0.0
    line = BusyLine(phase=INSIDE, path="/m.py", line=7, function="match", share=0.45)
    profile = builders.profile(phases={"forward": 0.6, "backward": 0.4, "other": 0.0})
    first = diagnose(with_lines(profile, (line,)))[0]
    assert first.bottleneck is Bottleneck.HOST
    assert "45 % in match (m.py:7)" in first.headline
