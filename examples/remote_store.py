"""A recipe: learn handwritten digits that are read from a slow store, one request for each.

The store stands for images behind a network: a request waits 8 ms, about a round trip to another
region, and keeps no processor busy meanwhile. The digits are scikit-learn's, each also moved one
pixel to either side.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

BATCH_SIZE = 32
ROUND_TRIP_SECONDS = 0.008
HELD_OUT = 128


class RemoteDigits(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(ROUND_TRIP_SECONDS)
        image = torch.from_numpy(self.images[index]).unsqueeze(0)
        return image, int(self.labels[index])


def read_digits():
    """All digits in an order without meaning, 8 x 8 pixels between 0 and 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return digits.images[order].astype(np.float32) / 16, digits.target[order]


def build_dataset():
    images, labels = read_digits()
    images, labels = images[HELD_OUT:], labels[HELD_OUT:]
    moved = [images, np.roll(images, 1, axis=2), np.roll(images, -1, axis=2)]
    return RemoteDigits(np.concatenate(moved), np.tile(labels, len(moved)))


def build_validation_dataset():
    images, labels = read_digits()
    return RemoteDigits(images[:HELD_OUT], labels[:HELD_OUT])


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=2e-3)
