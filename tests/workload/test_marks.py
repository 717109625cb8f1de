"""Of a program whose blocks are marked, it is told what its steps did not come to."""

import builtins
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from autotune.source.edits import Place
from autotune.workload.conversation import Ended, Ready
from autotune.workload.program.marks import Marking, Marks
from tests import builders
from tests.workload.programs import Rehearsed

PATH = "/train.py"
PROGRAM = '''
def start(resume):
    """What comes before."""
    if resume:
        load()
    return 1


def step(number):
    "One."
    if number > 100:
        number -= 1
    elif number == 2:
        number += 1
    else:
        number += 2
    if number < 50:
        return number
    number = 0
    if number:
        number = 1
    return number


def epochs(count):
    for epoch in range(count):
        try:
            for number in range(3):
                step(number)
                yield
            if epoch > 5:
                with open("/far"):
                    pass
        except ValueError:
            if count:
                raise
        match epoch:
            case 3:
                if count > 2:
                    count += 1
'''


@pytest.fixture
def marks() -> Iterator[Marks]:
    before = set(vars(builtins))
    yield Marks({PATH: PROGRAM})
    for name in set(vars(builtins)) - before:
        delattr(builtins, name)


def lines(places: tuple[Place, ...]) -> list[str]:
    text = PROGRAM.splitlines()
    assert {place.path for place in places} <= {PATH}
    return [text[place.line - 1].strip() for place in places]


def running(marks: Marks) -> dict[str, Any]:
    code: CodeType = compile(marks.code[PATH], PATH, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_what_the_steps_did_not_come_to(marks: Marks) -> None:
    names = running(marks)
    names["start"](resume=False)
    training = names["epochs"](2)
    next(training)
    marks.begin_training()
    assert lines(marks.not_come_to()) == []
    list(training)
    assert lines(marks.not_come_to()) == ["number -= 1", "number = 0", 'with open("/far"):']


def test_what_the_program_says_of_itself_stays(marks: Marks) -> None:
    names = running(marks)
    assert names["start"].__doc__ == "What comes before." and names["step"].__doc__ == "One."
    assert names["step"].__code__.co_firstlineno == 9
    assert [names["step"](number) for number in (0, 2, 101)] == [2, 3, 0]


def test_each_window_tells_it(marks: Marks) -> None:
    names, said = running(marks), Rehearsed()
    marking = Marking(said, marks)
    training = names["epochs"](1)
    next(training)
    marking.say(Ready(startup_seconds=1.0))
    list(training)
    marking.say(builders.window())
    marking.say(Ended(steps=3, window=builders.window()))
    _, window, ended = said.reports
    told: list[Any] = [window, getattr(ended, "window", None)]
    assert [len(each.not_come_to) for each in told] == [2, 2]
