"""A training program for the device that there is: a GPU, or the CPU in its place."""

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


data = TensorDataset(torch.randn(2048, 64), torch.randint(0, 4, (2048,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0
for epoch in range(100_000):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        if step == 3:
            pass  # FAULT
"""

PINNED = TRAINING.replace("shuffle=True", "shuffle=True, pin_memory=True").replace(
    "x.to(device), y.to(device)", "x.to(device, non_blocking=True), y.to(device, non_blocking=True)"
)


def failing(statement: str) -> str:
    """The program with a statement that goes wrong in its third step."""
    return TRAINING.replace("pass  # FAULT", statement)
