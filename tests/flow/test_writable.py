"""What the source cannot be given is known before anything is tried."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autotune.flow.emitting import unwritable
from autotune.trials.space import Space
from autotune.workload.program.target import OBJECTS, load_target
from tests import builders
from tests.source.programs import places_of

LOOP = """\
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=8)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
SPACE = Space(
    choices={
        "threads": (2, 1),
        "num_workers": (0, 2, 4),
        "persistent_workers": (False, True),
        "precision": ("fp32", "bf16"),
    },
    own={"threads": 2, "num_workers": 0, "persistent_workers": False, "precision": "fp32"},
    skipped=(),
)


def found(folder: Path, *, without: str = "") -> dict[str, tuple[str, ...]]:
    path = folder / "train.py"
    path.write_text(LOOP)
    places = places_of(LOOP, str(path))
    places = replace(places, **{without: None}) if without else places
    profiled = replace(builders.profile(), seen=replace(builders.seen(), places=places))
    context: Any = SimpleNamespace(target=load_target(path))
    return unwritable(context, profiled, SPACE)


def test_a_program_that_takes_all_of_it_has_nothing_to_say(tmp_path: Path) -> None:
    assert found(tmp_path) == {}


def test_what_is_refused_is_said_once_for_all_numbers_with_the_reason(tmp_path: Path) -> None:
    ((reason, settings),) = found(tmp_path, without="loader").items()
    assert "DataLoader was not seen" in reason
    assert settings == ("num_workers",)
    ((_, settings),) = found(tmp_path, without="forward").items()
    assert settings == ("precision bf16",)


def test_objects_have_no_source() -> None:
    context: Any = SimpleNamespace(target=SimpleNamespace(kind=OBJECTS))
    assert unwritable(context, builders.profile(), SPACE) == {}
