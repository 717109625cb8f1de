"""Transforms that are modules are called for each sample: a hook would cost what they do."""

from pathlib import Path

import pytest

from tests.workload.programs import HEAD, run, steps

TRANSFORMING = (
    HEAD
    + """
from pathlib import Path
from torch.utils.data import Dataset

class Flip(nn.Module):
    def forward(self, x):
        return x.flip(0)

class Flipped(Dataset):
    flip = Flip()
    def __len__(self):
        return 640
    def __getitem__(self, index):
        x, y = dataset[index % len(dataset)]
        x = self.flip(x)
        hooked = self.flip._compiled_call_impl is not None
        watched = nn.Module.__call__.__module__ != "torch.nn.modules.module"
        with open("said", "a") as file:
            file.write(f"{watched:d}{hooked:d} ")
        return x, y

loader = DataLoader(Flipped(), batch_size=32, num_workers=WORKERS)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(50):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
)


@pytest.mark.parametrize("workers", [0, 1])
def test_they_run_torch_s_own_call(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = TRANSFORMING.replace("WORKERS", str(workers))
    run(text, steps(20), folder=tmp_path)
    said = (tmp_path / "said").read_text().split()
    assert set(said[-32:]) == {"00"}
    assert set(said[96:]) == {"00"}  # as soon as the first steps are over; in a worker at once
    if workers:
        assert set(said) == {"00"}
