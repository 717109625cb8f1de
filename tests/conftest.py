"""Tests that need a device or a browser are skipped where there is none, saying so."""

import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not has_cuda():
        pytest.skip("there is no CUDA device")
    if item.get_closest_marker("browser") and not any(map(shutil.which, BROWSERS)):
        pytest.skip(f"there is no browser: none of {', '.join(BROWSERS)}")


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
