"""Train a ResNet on pictures that a DataLoader brings, as a careful user writes it."""

import argparse

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

DEPTH, PIXELS, BATCH, PICTURES, WORKERS = 50, 224, 64, 4096, 8
CLASSES = 1000


class Pictures(Dataset):
    """Made up, and kept as bytes; the same ones however often they are asked for."""

    def __init__(self):
        shape = (256, 3, PIXELS, PIXELS)
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        return self.pixels[index % len(self.pixels)], index % CLASSES


class Basic(nn.Module):
    widening = 1

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.way_round = way_round(channels_in, channels, stride)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.way_round(x))


class Bottleneck(nn.Module):
    widening = 4

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * channels)
        self.way_round = way_round(channels_in, 4 * channels, stride)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        return functional.relu(self.norm3(self.conv3(y)) + self.way_round(x))


def way_round(channels_in, channels_out, stride):
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
    )


class ResNet(nn.Module):
    """As published (He et al. 2015), with the stride in the 3x3 convolution as torchvision has
    it."""

    def __init__(self, depth):
        super().__init__()
        block, counts = {18: (Basic, (2, 2, 2, 2)), 50: (Bottleneck, (3, 4, 6, 3))}[depth]
        self.conv = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        channels, stages = 64, []
        for number, count in enumerate(counts):
            width, blocks = 64 << number, []
            for index in range(count):
                stride = 2 if number and not index else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.widening
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        return self.head(self.stages(x).mean((2, 3)))


def loss_of(outputs, labels):
    return functional.cross_entropy(outputs, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(
        Pictures(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=WORKERS,
        persistent_workers=WORKERS > 0,
        pin_memory=device == "cuda",
        drop_last=True,
    )
    model = ResNet(DEPTH).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    while step < args.steps:
        for pixels, labels in loader:
            inputs = pixels.to(device, non_blocking=True).float().div_(255)
            labels = labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = loss_of(model(inputs), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
