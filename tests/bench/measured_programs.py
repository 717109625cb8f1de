"""Small training programs with knobs of their own, for grids that are measured in full: what one
holds back differs from one to the next. Plain torch, without autotune.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A program: its data, model, loss of one (part of a) batch, and the values of its knobs, the
    user's own first. `build` is called once in a process, with `torch` untouched before.
    """

    knobs: Mapping[str, Sequence[Any]]
    batch: int
    data: Callable[[Config], Dataset[Any]]
    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Any], torch.Tensor]
    collate: Callable[[Any], Any] | None = None


OPTIMIZERS = ("forloop", "foreach", "fused")
SWITCH = (False, True)


class Scans(Dataset[Any]):
    """Pictures in memory that are turned and given noise in NumPy."""

    def __init__(self) -> None:
        self.pictures = np.random.default_rng(2).random((256, 3, 64, 64), dtype=np.float32)

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        picture = np.rot90(self.pictures[index % 256], index % 4, axes=(1, 2))
        noise = np.random.default_rng(index).normal(0, 0.1, picture.shape)
        picture = np.ascontiguousarray(picture + noise, dtype=np.float32)
        return torch.from_numpy(picture), torch.from_numpy((picture[:1] > 0.5).astype(np.float32))


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()
        )
        self.middle = nn.Sequential(
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 24, 3, padding=1), nn.ReLU()
        )
        self.up = nn.Conv2d(48, 1, 3, padding=1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        fine = self.down(pictures)
        coarse = self.middle(functional.max_pool2d(fine, 2))
        return self.up(torch.cat([fine, functional.interpolate(coarse, scale_factor=2)], 1))


class Calls(Dataset[Any]):
    """Sounds of which a spectrogram is computed in NumPy."""

    def __init__(self) -> None:
        self.sounds = np.random.default_rng(3).normal(size=(128, 16000)).astype(np.float32)
        self.window = np.hanning(400).astype(np.float32)

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sound = self.sounds[index % 128]
        frames = np.lib.stride_tricks.sliding_window_view(sound, 400)[::80] * self.window
        power = np.log1p(np.abs(np.fft.rfft(frames, axis=1)))
        return torch.from_numpy(power.T.astype(np.float32)[None, :64]), index % 5


class Listener(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5)),
        )


class Ratings(Dataset[Any]):
    """Rows of a table, which may be asked for one by one or as a batch."""

    def __init__(self) -> None:
        chance = np.random.default_rng(4)
        self.users, self.items = chance.integers(0, 20000, (2, 100000))
        self.marks = chance.random(100000, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.marks)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.users[index], self.items[index], self.marks[index]


class BatchedRatings(Ratings):
    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        rows = np.asarray(indices)
        return tuple(torch.from_numpy(each[rows]) for each in (self.users, self.items, self.marks))


def rows(samples: Any) -> tuple[torch.Tensor, ...]:
    if isinstance(samples, tuple):
        return samples
    return tuple(torch.as_tensor(np.array(column)) for column in zip(*samples, strict=True))


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(20000, 32), nn.Embedding(20000, 32)
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([self.user(users), self.item(items)], 1)).squeeze(1)


@cache
def programs() -> Mapping[str, Measured]:
    """All of them, by name."""
    return {
        "scans": Measured(
            knobs={"nw": (0, 1, 2), "mb": (16, 8), "thr": (2, 1), "cl": SWITCH, "amp": SWITCH}
            | {"opt": ("forloop", "fused")},
            batch=16,
            data=lambda _: Scans(),
            model=Segmenter,
            loss=lambda model, batch: functional.binary_cross_entropy_with_logits(
                model(batch[0]), batch[1]
            ),
        ),
        "calls": Measured(
            knobs={"nw": (0, 1, 2, 4), "pf": (2, 6), "thr": (2, 1), "cl": SWITCH, "amp": SWITCH}
            | {"opt": ("forloop", "fused")},
            batch=16,
            data=lambda _: Calls(),
            model=Listener,
            loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        ),
        "ratings": Measured(
            knobs={"nw": (0, 1, 2), "getitems": SWITCH, "opt": OPTIMIZERS, "thr": (2, 1)}
            | {"amp": SWITCH},
            batch=256,
            data=lambda config: BatchedRatings() if config["getitems"] else Ratings(),
            model=Ranker,
            loss=lambda model, batch: functional.mse_loss(model(*batch[:2]), batch[2]),
            collate=rows,
        ),
    }
