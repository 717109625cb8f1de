"""A stream that gives what is left over of its parts to no worker is found."""

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.refusals.shared import shared_out_rounded_down

TEXT = """\
class Shards(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        {share}
        yield from self.read(mine)

    def __len__(self):
        return len(self.shards) // get_worker_info().num_workers
"""


@pytest.mark.parametrize(
    ("share", "is_lost"),
    [
        ("each = len(shards) // info.num_workers; mine = shards[info.id * each :][:each]", True),
        ("n = info.num_workers; each = len(shards) // n; mine = shards[each * info.id :]", True),
        ("at, n = info.id, info.num_workers; mine = shards[at * (len(shards) // n) :]", True),
        ("each = int(len(shards) / info.num_workers); mine = shards[info.id * each :]", True),
        ("each = -(-len(shards) // info.num_workers); mine = shards[info.id * each :]", False),
        ("n = info.num_workers; each = (len(shards) + n - 1) // n; mine = shards[each:]", False),
        ("each = int(math.ceil(len(shards) / info.num_workers)); mine = shards[each:]", False),
        ("mine = shards[info.id :: info.num_workers]", False),
        ("each, more = divmod(len(shards), info.num_workers); mine = shards[each:]", False),
        (
            "n = info.num_workers; mine = shards[len(shards) // n * info.id :]\n"
            + 8 * " "
            + "mine = mine if info.id == n - 1 else mine[: len(shards) // n]",
            False,
        ),
        ("n = info.num_workers; each = len(shards) // n + (info.id < len(shards) % n)", False),
        ("each = len(shards) // args.batch_size; mine = shards[each:]", False),
        ("each = int(math.floor(len(shards) / float(info.num_workers)))", True),
        ("n, w = len(shards), info.num_workers; end = (info.id + 1) * n // w", False),
        ("room = self.buffer_size // info.num_workers", False),
        ("self.at, self.n = info.id, info.num_workers; each = len(shards) // self.n", True),
        ("self.n = info.num_workers; each = len(shards) // self.n", True),
        ("n = info.num_workers; each = len(shards) // n; more = len(shards) - each * n", False),
    ],
)
def test_a_share_that_is_rounded_down_leaves_a_rest(share: str, is_lost: bool) -> None:
    program = parsed({"/p/train.py": TEXT.format(share=share)}, Places(), "/p/train.py")
    assert shared_out_rounded_down(program) == ("train.py:4" if is_lost else "")
