"""Programs under test: a source, the places that a run would pass, what a rewrite made of it."""

import textwrap
from dataclasses import dataclass

from autotune.source.edits import Edit, EditOutcome, Place, Places
from autotune.source.rewrite import rewrite

PATH = "/project/train.py"

# What a line must hold to be the place; the first such line counts.
SIGNS = {
    "loader": ("DataLoader(",),
    "optimizer": ("optim.SGD(", "optim.AdamW(", "optim.Adam(", "SGD("),
    "forward": ("model(", "net("),
    "backward": (".backward(",),
    "step": ("optimizer.step(", "step(optimizer)", "opt.step("),
    "zero_grad": (".zero_grad(",),
}
COPIES = (".to(device", ".cuda(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite of one source left."""

    text: str
    outcomes: tuple[EditOutcome, ...]

    @property
    def statuses(self) -> list[str]:
        return [outcome.status for outcome in self.outcomes]

    @property
    def reason(self) -> str:
        return self.outcomes[0].reason

    @property
    def hand_step(self) -> str:
        return self.outcomes[0].hand_step


def source(text: str) -> str:
    """An indented literal as the text of a file."""
    return textwrap.dedent(text).lstrip("\n")


def places_of(text: str, path: str = PATH) -> Places:
    """The places that a run would be seen to pass, found by how the lines look."""
    lines = [line.split("#")[0] for line in text.splitlines()]

    def first(signs: tuple[str, ...]) -> Place | None:
        for number, line in enumerate(lines, 1):
            definition = line.lstrip().startswith(("def ", "class ", "import ", "from "))
            if not definition and any(sign in line for sign in signs):
                return Place(path=path, line=number)
        return None

    copies = [
        Place(path=path, line=number)
        for number, line in enumerate(lines, 1)
        if any(sign in line for sign in COPIES) and "model" not in line
    ]
    found = {name: first(signs) for name, signs in SIGNS.items()}
    return Places(**found, copies=tuple(copies))


def rewritten(text: str, *edits: Edit, places: Places | None = None) -> Rewritten:
    """`text` with `edits` made at its own places."""
    seen = places or places_of(text)
    done = rewrite({PATH: text}, [("knob", edit) for edit in edits], seen)
    return Rewritten(text=done.sources[PATH], outcomes=done.outcomes)


def check(before: str, after: str, *edits: Edit) -> None:
    """`before` becomes `after`, and `after` stays as it is."""
    first = rewritten(source(before), *edits)
    assert first.text == source(after), first.text
    assert "refused" not in first.statuses, first.outcomes
    again = rewritten(first.text, *edits)
    assert again.text == first.text, again.text
    assert again.statuses == ["already"] * len(edits), again.outcomes
