"""What flattens a tensor is not written into where that may be a copy."""

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.refusals.flat_writes import written_flat

TEXT = """\
class Noisy:
    def __getitem__(self, at):
        image = self.images[at].copy()
        READ
        return image

def prune(weight, axes):
    TRAINED

TOP

def held(rows, limit):
    rows.mul_(limit / rows.norm(dim=1, keepdim=True).clamp(min=limit))

def measured(rows, limit):
    return rows.norm(dim=1).clamp(min=limit)
"""


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"trained": "weight.reshape(-1)[smallest] = 0.0"}, "train.py:8"),
        ({"trained": "flat = weight.reshape(-1); flat[smallest] = 0.0"}, "train.py:8"),
        ({"trained": "weight.reshape(-1)[:3].fill_(0)"}, "train.py:8"),
        (
            {"trained": "flat = weight.reshape(9, -1); flat.div_(vector_norm(flat, 1))"},
            "train.py:8",
        ),
        ({"top": "flat = weight.flatten(); flat[smallest] = 0.0"}, "train.py:10"),
        ({"top": "flat = weight.flatten(); flat[smallest] = 0.0; keep(flat)"}, ""),
        ({"trained": "axes.ravel()[0].set(title='a')"}, ""),
        ({"read": "image.reshape(-1)[some] = 0.0"}, ""),
        ({"trained": "held(weight.reshape(9, -1), 0.5)"}, "train.py:8"),
        ({"trained": "held(axes, weight.reshape(9, -1))"}, ""),  # into the first alone
        ({"trained": "measured(weight.reshape(9, -1), 0.5)"}, ""),
    ],
)
def test_where_it_may_be_a_copy(given: dict[str, str], line: str) -> None:
    text = TEXT
    for name in ("READ", "TRAINED", "TOP"):
        text = text.replace(name, given.get(name.lower(), "pass"))
    assert written_flat(parsed({"/p/train.py": text}, Places(), "/p/train.py")) == line
