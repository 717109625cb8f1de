"""Small training programs as users write them, one for each kind of model that knobs act on."""

MLP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(512, 16), torch.randint(0, 4, (512,)))
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1000):
        for inputs, labels in loader:
            optimizer.zero_grad(set_to_none=False)
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()


main()
"""

CONVNET = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, images):
        hidden = F.relu(self.second(F.relu(self.first(images))))
        return self.head(hidden.mean((2, 3)))


torch.manual_seed(0)
images, labels = torch.randn(128, 3, 12, 12), torch.randint(0, 4, (128,))
train_loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for epoch in range(1000):
    for x, y in train_loader:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
"""

BLOCKS = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.tail = nn.ModuleDict({"layers": nn.Sequential(Block(width), Block(width))})
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.tail["layers"](x))


torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
batches = DataLoader(data, batch_size=32, shuffle=True)
model = Stack()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(1000):
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

PROGRAMS = {"mlp": MLP, "convnet": CONVNET, "blocks": BLOCKS}
