"""Reading with other random numbers: other samples, and nothing else of the training."""

from pathlib import Path

import pytest

from autotune.workload.setup import Setup
from tests.workload.programs import PLAIN, losses

AUGMENTED = PLAIN.replace(
    "loader = DataLoader(dataset",
    """import random
import numpy

class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return len(dataset)
    def __getitem__(self, index):
        x, y = dataset[index]
        return x + {noise}, y

loader = DataLoader(Augmented()""",
)


@pytest.mark.parametrize(
    "noise", ["random.gauss(0, 1)", "torch.randn(())", "float(numpy.random.randn())"]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_are_others_with_each_stream(tmp_path: Path, noise: str, workers: int) -> None:
    text = AUGMENTED.format(noise=noise).replace(
        "shuffle=True", f"shuffle=True, num_workers={workers}"
    )
    first, again, other = (
        losses(text, tmp_path, count=3, setup=Setup(stream=stream)) for stream in (1, 1, 2)
    )
    assert first == again
    assert first[0] != other[0]
    assert losses(text, tmp_path, count=3)[0] not in (first[0], other[0])


def test_what_the_training_draws_itself_stays_as_it_is(tmp_path: Path) -> None:
    dropout = PLAIN.replace("model(x)", "torch.nn.functional.dropout(model(x))")
    assert losses(dropout, tmp_path, setup=Setup(stream=1)) == losses(dropout, tmp_path)
