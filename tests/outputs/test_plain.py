import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.diagnosis import Finding
from autotune.machine import Machine
from autotune.outputs.plain import Mismatch, build, plain
from autotune.profiling.profile import Ceiling, Memory
from autotune.trials.space import Space
from autotune.verdict import Verdict
from autotune.workload.seen import Seen
from autotune.workload.window import Window

st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


def there_and_back(kind, value):
    return build(kind, json.loads(json.dumps(plain(value), allow_nan=False)), "value")


@pytest.mark.parametrize(
    "kind",
    [Machine, Seen, Window, Finding, Ceiling, Memory, Space, Verdict],
    ids=lambda k: k.__name__,
)
@given(data=st.data())
def test_every_value_comes_back_equal(kind, data):
    value = data.draw(st.from_type(kind))

    assert there_and_back(kind, value) == value


def test_what_is_not_finite_is_null_and_comes_back_as_nan():
    window = Window(mode="as_is", steps=3, samples=3, seconds=1.0, losses=(1.0, math.nan, math.inf))

    assert plain(window)["losses"] == [1.0, None, None]
    back = there_and_back(Window, window).losses
    assert back[0] == 1.0
    assert all(map(math.isnan, back[1:]))


def test_nothing_measured_stays_none():
    ceiling = Ceiling(name="host", samples_per_second=None, max_gain=None, reason="no device")

    assert there_and_back(Ceiling, ceiling) == ceiling


def test_a_whole_number_does_for_a_float():
    assert build(tuple[float, ...], [1, 2.5], "interval") == (1.0, 2.5)


def test_a_setting_keeps_its_type():
    settings_ = {"fused": True, "num_workers": 1, "precision": "1"}

    back = build(dict[str, bool | int | str], settings_, "config")

    assert {name: type(value) for name, value in back.items()} == {
        "fused": bool,
        "num_workers": int,
        "precision": str,
    }


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (int, "4", "place is '4', not int"),
        (int, True, "place is True, not int"),
        (str, None, "place is None, not str"),
        (tuple[float, float], [1.0], "place has 1 items, not 2"),
        (tuple[int, ...], [1, "x"], "place[1] is 'x', not int"),
        (bool | int | str, 0.5, "place is 0.5, not bool or int or str"),
        (dict[str, int], {"a": []}, "place.a is [], not int"),
        (Ceiling, {"name": "host"}, "place.samples_per_second is missing"),
        (Ceiling, [], "place is [], not dict"),
    ],
)
def test_a_mismatch_says_where_and_what(kind, data, message):
    with pytest.raises(Mismatch) as caught:
        build(kind, data, "place")

    assert str(caught.value) == message


def test_an_unknown_word_of_a_closed_list_is_a_mismatch():
    data = {
        "bottleneck": "gremlins",
        "severity": "info",
        "evidence": "",
        "max_gain": None,
        "headline": "",
    }

    with pytest.raises(
        Mismatch, match=r"diagnosis.bottleneck is 'gremlins', not one of data, copy"
    ):
        build(Finding, data, "diagnosis")
