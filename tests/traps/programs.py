"""Training programs, each with another trap in its dataset or its loss."""

PLAIN = "return X[index], Y[index]"

LOOP = """
from torch import nn

loader = DataLoader(dataset, {options})
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1000):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""

HEAD = """\
import os
import random
import sqlite3
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

X = torch.randn(640, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(640) * 7 // 5 % 2

"""


def stream(body: str, options: str = "batch_size=16") -> str:
    """A program over an IterableDataset whose `__iter__` is `body`."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    dataset = f"class Stream(IterableDataset):\n    def __iter__(self):\n{lines}\n"
    return HEAD + dataset + "dataset = Stream()\n" + LOOP.format(options=options)


def table(
    item: str, prepare: str = "pass", options: str = "batch_size=16, shuffle=True", size: int = 640
) -> str:
    """A program over a map-style dataset that prepares itself and gives an item as said."""
    body = "".join(f"        {line}\n" for line in item.splitlines())
    ready = "".join(f"        {line}\n" for line in prepare.splitlines())
    dataset = (
        f"class Table(Dataset):\n    def __init__(self):\n{ready}\n"
        f"    def __len__(self):\n        return {size}\n\n"
        f"    def __getitem__(self, index):\n{body}\n"
    )
    return HEAD + dataset + "dataset = Table()\n" + LOOP.format(options=options)


def step(loss: str, model: str, batch: str = "x, y") -> str:
    """A program with another model and another loss."""
    return f"""\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(120, 6)
Y = torch.randint(0, 3, (120,))
loader = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True)
model = {model}
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(1000):
    for {batch} in loader:
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
"""
