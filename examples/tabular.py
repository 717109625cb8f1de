"""A recipe: learn one number from a table of ten columns, with a tiny network and small batches.

The table is Friedman's first regression problem (Multivariate Adaptive Regression Splines, 1991),
the one that scikit-learn makes with `make_friedman1`: five of the ten columns matter.
"""

import math

import torch
from torch import nn
from torch.utils.data import TensorDataset

BATCH_SIZE = 16
COLUMNS = 10


def table(rows, seed):
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, COLUMNS, generator=random)
    y = 10 * torch.sin(math.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    y += 10 * x[:, 3] + 5 * x[:, 4] + torch.randn(rows, generator=random)
    return TensorDataset(x, y.unsqueeze(1))


def build_dataset():
    return table(rows=20_000, seed=0)


def build_validation_dataset():
    return table(rows=2_000, seed=1)


def build_model():
    return nn.Sequential(
        nn.Linear(COLUMNS, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 1),
    )
