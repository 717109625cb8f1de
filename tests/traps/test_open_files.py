"""Tensors of workers that a training keeps hold open files, of which there may be too few."""

import pytest

from tests.traps.conftest import Vet
from tests.traps.programs import table

LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, 4096))\n"
LOADER, STEP = "loader = DataLoader", "optimizer.step()"


def keeping(what: str, limit: str = LIMIT) -> str:
    """A program whose loop keeps something of each batch, for an epoch of 400 steps."""
    text = table("return X[index % 640], Y[index % 640]", options="batch_size=1", size=400)
    text = text.replace(LOADER, f"kept = []\n{LOADER}").replace(STEP, f"{STEP}\n        {what}")
    return limit + text


@pytest.mark.parametrize(
    ("what", "limit", "runs_out"),
    [
        ("kept.append(y)", LIMIT, True),
        ("kept.append(y.numpy())", LIMIT, True),
        ("kept.append(y.clone())", LIMIT, False),
        ("kept[:] = [y]", LIMIT, False),
        ("kept.append(y)", "", False),  # enough of them may be open
    ],
)
def test_workers_are_refused_where_the_batches_that_are_kept_would_use_files_up(
    workers: Vet, what: str, limit: str, runs_out: bool
) -> None:
    vetted = workers(keeping(what, limit), (0, 2))
    assert vetted.values == ((0,) if runs_out else (0, 2))
    assert ("`ulimit -n`" in vetted.reason) == runs_out
