"""What a run needs is got ready while nobody else is timed."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from autotune import flow
from autotune.flow import Options
from autotune.listener import Listener
from tests.flow.device import Device


@pytest.mark.parametrize("storage", [None, "common.journal", "postgresql://db/tuning"])
def test_torch_is_loaded_while_one_has_the_device(
    monkeypatch: pytest.MonkeyPatch, storage: str | None
) -> None:
    device, warmed = Device(), []

    @contextmanager
    def bench(*_: Any) -> Any:
        yield SimpleNamespace(warm_up=lambda: warmed.append(device.is_held))

    def stages(_context: Any) -> Any:
        assert not device.is_held
        return None, None

    monkeypatch.setattr(flow, "DeviceLock", lambda *_, **__: device)
    monkeypatch.setattr(flow, "_bench", bench)
    options = Options(device="cpu", storage=storage)
    flow._on_a_bench(None, Listener(), options, stages)  # type: ignore[arg-type]
    assert warmed == [True]
