"""What is withdrawn is left to a person, with what to write and where."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.outputs.patch import Emission, emit, write_patch
from autotune.source.edits import EditOutcome, LoaderArgument, Place, Places, ProcessStatement
from autotune.workload.program.target import load_target
from tests import builders
from tests.source.programs import places_of

WORKERS = LoaderArgument(name="num_workers", code="4")
PINNED = LoaderArgument(name="pin_memory", code="True")
THREADS = ProcessStatement(code="torch.set_num_threads(1)")


def test_what_is_withdrawn_says_what_to_write_and_where() -> None:
    edits = (
        EditOutcome(knob="num_workers", edit=WORKERS, status="done"),
        EditOutcome(knob="threads", edit=THREADS, status="done"),
        EditOutcome(knob="pin_memory", edit=PINNED, status="already"),
        EditOutcome(knob="pin_memory", edit=PINNED, status="refused", reason="no", hand_step="go"),
    )
    places = Places(loader=Place(path="/data.py", line=3))
    emission = Emission(
        sources={"/train.py": "pass"},
        program="pass",
        patch="+pass",
        root="/",
        edits=edits,
        places=places,
        main="/train.py",
    )
    left = emission.withdrawn("it came out slower")
    assert (left.sources, left.program, left.patch, left.root) == ({}, "", "", "/")
    assert [(edit.status, edit.reason, edit.hand_step) for edit in left.edits] == [
        ("refused", "it came out slower", "/data.py:3: DataLoader(..., num_workers=4)"),
        ("refused", "it came out slower", "/train.py: after the imports: torch.set_num_threads(1)"),
        ("already", "", ""),
        ("refused", "no", "go"),
    ]


def test_what_is_withdrawn_is_said_as_it_would_have_been_written(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("def make(data, **kwargs):\n    return DataLoader(data, **kwargs)\n")
    seen = builders.seen(places=Places(loader=Place(path=str(path), line=2)))
    emission = emit(load_target(str(path)), {"num_workers": 4}, seen)
    assert [edit.status for edit in emission.edits] == ["done"]
    (left,) = emission.withdrawn("it came out slower").edits
    line = 'return DataLoader(data, **{**kwargs, "num_workers": 4})'
    assert left.hand_step == f"{path}:2: {line}"


LOOP = """\
from torch.utils.data import DataLoader
from schedule import made

loader = DataLoader(data, batch_size=8)
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = made(optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
"""


@pytest.mark.parametrize("files", [1, 2])
def test_a_program_of_several_files_is_none_by_itself(tmp_path: Path, files: int) -> None:
    program, tuned = tmp_path / "train.py", tmp_path / "out" / "train_tuned.py"
    program.write_text(LOOP)
    if files > 1:
        (tmp_path / "schedule.py").write_text("def made(opt, batches):\n    return opt\n")
    seen = builders.seen(places=Places(loader=Place(path=str(program), line=4)))

    emission = emit(load_target(program), {"num_workers": 4}, seen)
    write_patch(emission, tuned.with_name("tuned.patch"), tuned)

    assert "num_workers=4" in tuned.with_name("tuned.patch").read_text()
    assert tuned.exists() is (files == 1)


def test_a_module_in_which_nothing_was_seen_to_happen_is_read_too(tmp_path: Path) -> None:
    program, beside = tmp_path / "train.py", tmp_path / "schedule.py"
    program.write_text(LOOP)
    seen = replace(builders.seen(), places=places_of(LOOP, str(program)))
    for length, status in (("3 * len(batches)", "refused"), ("90", "done")):
        beside.write_text(f"def made(opt, batches):\n    return Cosine(opt, T_max={length})\n")
        emission = emit(load_target(program), {"micro_batches": 2}, seen)
        assert [edit.status for edit in emission.edits] == [status], emission.edits
        assert str(beside) not in emission.sources


def test_what_a_link_leads_to_outside_the_project_is_not_changed(tmp_path: Path) -> None:
    project, shared = tmp_path / "project", tmp_path / "shared"
    project.mkdir()
    shared.mkdir()
    (shared / "data.py").write_text("def make(data):\n    return DataLoader(data)\n")
    (project / "common").symlink_to(shared)
    (project / "train.py").write_text("from common.data import make\n")
    path = str(project / "common" / "data.py")
    seen = builders.seen(places=Places(loader=Place(path=path, line=2)))

    emission = emit(load_target(project / "train.py"), {"num_workers": 4}, seen)

    (edit,) = emission.edits
    assert edit.status == "refused" and "outside the project's own files" in edit.reason
    assert edit.hand_step == f"{path}:2: DataLoader(..., num_workers=4)"
    assert emission.patch == ""
