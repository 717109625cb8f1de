"""Whether workers begin each epoch with the same random numbers is told by their worker_init_fn."""

import datetime as dt
import functools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

from autotune.workload.randomness.seeding import seeds_alike


def by_number(worker: int) -> None:
    np.random.seed(42 + worker)


def by_torch(worker: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def by_worker(_worker: int) -> None:
    np.random.seed(get_worker_info().seed % 2**32)


def by_its_number(_worker: int) -> None:
    np.random.seed(get_worker_info().id)


def of_the_parent(worker: int) -> None:
    np.random.seed(np.random.get_state()[1][0] + worker)


def shards(_worker: int) -> None:
    get_worker_info().dataset.shard = get_worker_info().id


def by_the_time(worker: int) -> None:
    np.random.seed(worker + int(time.time()))


def by_chance(_worker: int) -> None:
    np.random.seed()


def by_none(_worker: int) -> None:
    np.random.seed(None)


def by_zero(_worker: int) -> None:
    np.random.seed(0)


def by_what_is_drawn(worker: int) -> None:
    np.random.seed(np.random.randint(2**31) + worker)


def by_what_was_drawn(worker: int) -> None:
    drawn = int(torch.randint(2**31, ()).item())
    random.seed(drawn + worker)


def by_a_share(worker: int) -> None:
    np.random.seed(int(2**31 * random.random()) + worker)


def draws_afterwards(worker: int) -> None:
    np.random.seed(worker)
    random.seed(random.randrange(worker + 1))


def at_this_moment(_worker: int) -> None:
    np.random.seed(dt.datetime.now(dt.UTC).microsecond)


def gives_the_dataset_its_own(worker: int) -> None:
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(42 + worker)


def of_what_it_is_in(_worker: int) -> None:
    own = get_worker_info()
    own.dataset.rng = np.random.default_rng(own.seed)


def as_timm_does(worker_id: int) -> None:
    worker_info = get_worker_info()
    assert worker_info.id == worker_id
    np.random.seed(worker_info.seed % 2**32)


def of_its_own(worker: int) -> None:
    random.seed(random.Random(worker).random())


def by_another(worker: int) -> None:
    by_torch(worker)


class Seeding:
    def __call__(self, worker: int) -> None:
        torch.manual_seed(worker)

    def method(self, worker: int) -> None:
        self.rng = np.random.default_rng(worker)


class Inherited(Seeding):
    pass


@pytest.mark.parametrize(
    ("function", "alike"),
    [
        (None, False),
        (by_number, True),
        (by_torch, False),
        (by_worker, False),
        (by_its_number, True),
        (of_the_parent, True),
        (shards, False),
        (functools.partial(by_number), True),
        (functools.partial(by_torch), False),
        (Seeding(), True),
        (Seeding().method, True),
        (np.random.seed, True),
        (print, False),
        (by_the_time, False),
        (by_chance, False),
        (as_timm_does, False),
        (by_none, False),
        (by_zero, True),
        (by_what_is_drawn, False),
        (by_what_was_drawn, False),
        (by_a_share, False),
        (draws_afterwards, True),
        (at_this_moment, False),
        (gives_the_dataset_its_own, True),
        (of_what_it_is_in, False),
        (of_its_own, True),
        (by_another, False),
        (lambda worker: by_number(worker), True),  # noqa: PLW0108
        (Inherited(), True),
    ],
)
def test_its_code_tells(function: Callable[[int], Any] | None, alike: bool) -> None:
    assert seeds_alike(function) is alike
