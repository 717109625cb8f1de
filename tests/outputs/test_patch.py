"""What is withdrawn is left to a person, with what to write and where."""

from autotune.outputs.patch import Emission
from autotune.source.edits import EditOutcome, LoaderArgument, Place, Places, ProcessStatement

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
        ("refused", "it came out slower", "/train.py: torch.set_num_threads(1), after the imports"),
        ("refused", "it came out slower", ""),
        ("refused", "no", "go"),
    ]
