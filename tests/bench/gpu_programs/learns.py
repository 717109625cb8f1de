"""A small convolutional network that learns: which of four directions a grating has, in noise."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

PIXELS, CLASSES, HELD_OUT = 24, 4, 1024


def gratings(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    angles = labels * math.pi / CLASSES
    phases = 2 * math.pi * torch.rand(count, generator=generator)
    places = torch.linspace(-1, 1, PIXELS)
    rows, columns = torch.meshgrid(places, places, indexing="ij")
    waves = torch.stack(
        [
            torch.sin(8 * (math.cos(a) * columns + math.sin(a) * rows) + p)
            for a, p in zip(angles.tolist(), phases.tolist(), strict=True)
        ]
    )
    noise = 4.0 * torch.randn(waves.shape, generator=generator)
    return (waves + noise).unsqueeze(1), labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, 2, 2)
        self.conv2 = nn.Conv2d(32, 64, 3, 2, 1)
        self.head = nn.Linear(64 * (PIXELS // 4) ** 2, CLASSES)

    def forward(self, x):
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        return self.head(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    data = TensorDataset(*gratings(args.samples, seed=args.seed + 1))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(args.epochs):
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    images, labels = (part.to(device) for part in gratings(HELD_OUT, seed=10_000))
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    print(f"accuracy {right:.4f} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
