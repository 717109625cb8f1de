"""The framework that runs a loop is known by the files that the loop was seen in."""

import pytest

from autotune.source.edits import Place, Places
from autotune.workload.program.framework import (
    ACCELERATE,
    FABRIC,
    IGNITE,
    LIGHTNING,
    TRANSFORMERS,
    framework_of,
    is_installed,
    short_path,
)

PACKAGES = "/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("files", "framework"),
    [
        (["lightning/pytorch/core/module.py", "lightning/fabric/plugins/precision.py"], LIGHTNING),
        (["pytorch_lightning/core/module.py"], LIGHTNING),
        (["lightning/fabric/fabric.py"], FABRIC),
        (["accelerate/accelerator.py", "transformers/trainer.py"], TRANSFORMERS),
        (["accelerate/accelerator.py"], ACCELERATE),
        (["ignite/engine/__init__.py"], IGNITE),
        (["timm/data/loader.py"], ""),
    ],
)
def test_it_is_told_by_its_folder(files: list[str], framework: str) -> None:
    forward, *backward = (Place(path=f"{PACKAGES}/{file}", line=1) for file in files)
    places = Places(forward=forward, backward=backward[0] if backward else None)
    assert framework_of(places) == framework


def test_a_folder_of_the_users_that_is_called_like_one_is_not_one() -> None:
    own = Place(path="/home/ada/transformers/train.py", line=1)
    assert framework_of(Places(forward=own, backward=own)) == ""


def test_a_librarys_file_is_named_as_the_library_has_it() -> None:
    assert is_installed(f"{PACKAGES}/torch/utils/data/dataloader.py")
    assert short_path(f"{PACKAGES}/torch/utils/data/dataloader.py") == (
        "torch/utils/data/dataloader.py"
    )
    assert short_path("/usr/lib/python3/dist-packages/timm/data/loader.py") == "timm/data/loader.py"
    assert not is_installed("/home/ada/train.py")
    assert short_path("/home/ada/train.py") == "/home/ada/train.py"
