"""A library's collators that hold a model, of which they ask settings alone."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from autotune.workload.samples.of_loader import kept_to_read
from autotune.workload.samples.settings import learning

LIBRARY = """
class DataCollatorForSeq2Seq:
    def __init__(self, model): self.model = model
    def __call__(self, items): return self.model.shifted(items)

class Features(DataCollatorForSeq2Seq):
    pass
"""
HELD = "collate_fn.model"


class Own(nn.Linear):
    pass


@pytest.mark.parametrize(
    ("name", "model", "held"),
    [
        ("DataCollatorForSeq2Seq", nn.Linear(4, 2), False),
        ("DataCollatorForSeq2Seq", Own(4, 2), True),
        ("Features", nn.Linear(4, 2), True),
    ],
    ids=["a library's model", "a model of the user's", "another collator"],
)
def test_samples_are_not_made_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, model: nn.Module, held: bool
) -> None:
    installed = tmp_path / "lib" / "python3.12" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "collators.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.delitem(sys.modules, "collators", raising=False)
    collate = getattr(importlib.import_module("collators"), name)(model)
    loader = DataLoader(torch.zeros(4), collate_fn=collate)  # type: ignore[arg-type]
    assert learning(loader) == ((HELD,) if held else ())
    assert (HELD in kept_to_read(loader)) is held
