"""What samples are made by is found where the training sets it, by whatever name it has it."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.dataset_changes import set_later, set_meanwhile

TEXT = """\
class Table:
    def __init__(self, config):
        self.config = config
        self.level = 1.0

    def set_level(self, level):
        self.level = level


class Meter:
    def __init__(self):
        self.level = 0

    def note(self, loss):
        self.level = loss


def anneal(given, step):
    if step % 250 == 249:
        given["scale"] *= 0.5


config = {"scale": 1.0}
config["scale"] = 2.0
table = Table(config)
loader = DataLoader(table)
meter = Meter()
for epoch in range(9):
    EPOCH
    for step, (x, y) in enumerate(loader):
        loss_of(net(x), y).backward()
        optimizer.step()
        STEP
"""


def found(
    name: str,
    kinds: tuple[str, ...],
    *,
    epoch: str = "pass",
    step: str = "pass",
    is_array: bool = False,
) -> tuple[str, str]:
    text = TEXT.replace("EPOCH", epoch).replace("STEP", step)
    backward = 31
    assert "backward" in text.splitlines()[backward - 1]
    places = Places(backward=Place(path="/p/train.py", line=backward))
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    finds = (set_meanwhile, set_later)
    first, second = (find(program, name, kinds, is_array=is_array) for find in finds)
    return first, second


@pytest.mark.parametrize(
    ("epoch", "step", "places"),
    [
        ("pass", "pass", ("", "")),
        ("pass", "anneal(config, step)", ("train.py:20", "train.py:20")),
        ("anneal(config, epoch)", "pass", ("", "train.py:20")),
        ('config["scale"] = epoch', "pass", ("", "train.py:29")),
        ('config["other"] = epoch', "pass", ("", "")),
    ],
)
def test_an_item_of_a_dict(epoch: str, step: str, places: tuple[str, str]) -> None:
    assert found("scale", (), epoch=epoch, step=step) == places


@pytest.mark.parametrize(
    ("epoch", "step", "places"),
    [
        ("pass", "pass", ("", "")),
        ("pass", "meter.note(loss)", ("", "")),  # another class's
        ("renamed.set_level(epoch)", "pass", ("", "train.py:7")),
        ("pass", "renamed.level = 0.1", ("train.py:33", "train.py:33")),
        ("table = Table(config)", "pass", ("", "")),  # made anew
    ],
)
def test_an_attribute(epoch: str, step: str, places: tuple[str, str]) -> None:
    assert found("level", ("Table",), epoch=epoch, step=step) == places


@pytest.mark.parametrize(
    ("step", "places"),
    [
        ("renamed.level[step] = loss", ("train.py:33", "train.py:33")),
        ("renamed.level[:3].clamp_(0, 1)", ("train.py:33", "train.py:33")),
        ("renamed.level *= 0.5", ("train.py:33", "train.py:33")),
        ("if step > 900: renamed.level.index_copy_(0, y, loss)", ("train.py:33", "train.py:33")),
        ("renamed.level.fill(0)", ("train.py:33", "train.py:33")),
        ("np.copyto(renamed.level, loss)", ("train.py:33", "train.py:33")),
        ("torch.add(x, y, out=renamed.level)", ("train.py:33", "train.py:33")),
        ("seen = renamed.level[step]", ("", "")),
        ("seen[renamed.level] = loss", ("", "")),
        ("renamed.level = loss", ("", "")),  # another one, and not in it
        ("renamed.level.item()", ("", "")),
        ("renamed.level.__len__()", ("", "")),
    ],
)
def test_what_is_written_into_an_array(step: str, places: tuple[str, str]) -> None:
    assert found("level", ("Table",), step=step, is_array=True) == places
