"""A program that fails by itself is told what helps."""

import pytest

from autotune.flow.mending import cure


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("ModuleNotFoundError: No module named 'loggers'", "Install what it imports"),
        ("ModuleNotFoundError: No module named 'torch._old'", "another version"),
        ("AssertionError: Torch not compiled with CUDA enabled", "finds none here"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "finds none here"),
        ("ValueError: ... environment variable RANK expected, but not set", "RANK=0 LOCAL_RANK=0"),
        ("KeyError: 'LOCAL_RANK'", "RANK=0 LOCAL_RANK=0"),
        ("urllib.error.URLError: <urlopen error [Errno -2]>", "from the network"),
        ("FileNotFoundError: [Errno 2] 'data/train.bin'", "in the folder in which you start"),
        ("ValueError: no such model", "Mend the program first"),
    ],
)
def test_the_last_words_of_a_program_say_what_helps(reason: str, advice: str) -> None:
    assert advice in cure(reason, "")
