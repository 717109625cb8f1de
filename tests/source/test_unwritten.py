"""Where a program takes memory that nothing was written to."""

import pytest

from autotune.source.calls.unwritten import unwritten
from autotune.source.edits import Places
from autotune.source.program import parsed


@pytest.mark.parametrize(
    ("code", "takes"),
    [
        ("torch.empty(4, 4)", True),
        ("np.empty_like(x)", True),
        ("x.new_empty(x.shape)", True),
        ("x.new(n, 3)", True),
        ("torch.LongTensor(x.size())", True),
        ("torch.empty(n, 3).uniform_(-1, 1)", False),
        ("np.empty((0, 4))", False),
        ("torch.empty(0)", False),
        ("Image.new(mode, size)", False),
        ("hashlib.new('md5', data)", False),
        ("torch.LongTensor(labels)", False),
        ("torch.Tensor(range(wide))", False),
        ("torch.FloatTensor(n, 3)", True),
        ("torch.Tensor(*x.shape)", True),
        ("torch.FloatTensor([1, 2])", False),
        ("torch.LongTensor([int(a) for a in row])", False),
        ("torch.Tensor()", False),
        ("torch.zeros(4, 4)", False),
        ("queue.put(x)", False),
    ],
)
def test_it_is_found_in_its_line(code: str, takes: bool) -> None:
    program = parsed({"/project/model.py": f"import torch\nx = {code}\n"}, Places(), "")
    assert unwritten(program) == ("model.py:2" if takes else "")
