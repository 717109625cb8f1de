"""The user's functions are told from Python's, a library's and ours."""

import functools
import os
import random

from torch import nn

import autotune
from autotune.workload import places
from autotune.workload.samples import asked
from autotune.workload.samples.asked import files_of, of_the_users
from autotune.workload.samples.delivery import changed


def step(model: nn.Module, batch: object) -> object:
    return model(batch)


def test_the_files_of_objects_are_those_of_the_users_code_in_them() -> None:
    class Own(nn.Linear):
        def forward(self, x: object) -> object:
            return x

    assert __file__ in files_of([functools.partial(step, batch=1)])
    assert __file__ in files_of([Own(1, 1)])
    others = set(files_of([nn.Linear(1, 1), random.random, changed, None, 1]))
    assert others == set(files_of([]))  # of the main module


def test_classes_modules_and_functions_are_the_users_or_not() -> None:
    assert of_the_users(step)
    assert not any(map(of_the_users, (random, random.Random, nn, nn.Linear, changed, 1)))


def test_a_file_beside_ours_is_the_users() -> None:
    folder = os.path.dirname(autotune.__file__)
    for is_users in (asked.is_users, places.is_users):
        assert is_users(f"{folder}_examples/train.py")
        assert not is_users(f"{folder}/workload/samples/asked.py")
