"""Train a small ResNet to tell photographs apart, from JPEG files.

Every sample is read, decoded, cropped, flipped and recoloured when it is asked for, as image
training usually is. The photographs are cuttings from pictures that scikit-image ships; they are
written to `--data` the first time.

    python examples/photos.py --epochs 20
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

PICTURES = (
    "astronaut",
    "brick",
    "cat",
    "coffee",
    "grass",
    "gravel",
    "hubble_deep_field",
    "immunohistochemistry",
    "retina",
    "rocket",
)
PHOTO_PIXELS = 256
INPUT_PIXELS = 64


def write_photos(folder, count):
    """Write `count` JPEG files, cut at random from the picture whose number begins its name."""
    from skimage import data

    folder.mkdir(parents=True, exist_ok=True)
    pictures = [Image.fromarray(getattr(data, name)()).convert("RGB") for name in PICTURES]
    places = random.Random(0)
    for number in range(count):
        label = number % len(PICTURES)
        picture = pictures[label]
        left = places.randrange(picture.width - PHOTO_PIXELS)
        top = places.randrange(picture.height - PHOTO_PIXELS)
        photo = picture.crop((left, top, left + PHOTO_PIXELS, top + PHOTO_PIXELS))
        photo.save(folder / f"{label}-{number:05d}.jpg", quality=90)


class Photos(Dataset):
    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        photo = Image.open(path).convert("RGB")
        # A random cutting of the photograph, between half its side and all of it.
        side = random.randint(PHOTO_PIXELS // 2, PHOTO_PIXELS)
        left = random.randint(0, photo.width - side)
        top = random.randint(0, photo.height - side)
        box = (left, top, left + side, top + side)
        photo = photo.resize((INPUT_PIXELS, INPUT_PIXELS), Image.Resampling.BICUBIC, box=box)
        if random.random() < 0.5:
            photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        photo = ImageEnhance.Brightness(photo).enhance(random.uniform(0.7, 1.3))
        photo = ImageEnhance.Contrast(photo).enhance(random.uniform(0.7, 1.3))
        photo = ImageEnhance.Color(photo).enhance(random.uniform(0.7, 1.3))
        pixels = torch.from_numpy(np.array(photo)).permute(2, 0, 1).float()
        return pixels / 127.5 - 1.0, int(path.name.split("-")[0])


class Block(nn.Module):
    """Two convolutions and a way round them."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.way_round = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.way_round(x))


class ResNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 20, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(Block(20, 20, 1), Block(20, 40, 2), Block(40, 80, 2))
        self.head = nn.Linear(80, classes)

    def forward(self, x):
        x = functional.max_pool2d(self.stem(x), 2)
        return self.head(self.blocks(x).mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data" / "photos")
    parser.add_argument("--photos", type=int, default=1500, help="how many there must be")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    args = parser.parse_args()

    if len(list(args.data.glob("*.jpg"))) < args.photos:
        write_photos(args.data, args.photos)
    random.seed(0)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    dataset = Photos(args.data)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=2,
                        persistent_workers=True)
    model = ResNet(len(PICTURES)).to(device)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.9,
                                foreach=True)

    for epoch in range(args.epochs):
        started = time.perf_counter()
        total_loss = 0.0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                loss = functional.cross_entropy(model(images).float(), labels)
            loss.backward()
            optimizer.step()
            total_loss += loss.item() * len(labels)
        seconds = time.perf_counter() - started
        print(
            f"epoch {epoch + 1}: loss {total_loss / len(dataset):.3f}, "
            f"{len(dataset) / seconds:.0f} samples/s"
        )


if __name__ == "__main__":
    main()
