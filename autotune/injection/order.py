"""What the processes of a tuned program are told, in an environment variable."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autotune.knobs.knob import Config
from autotune.workload.seen import LoaderKey

_VARIABLE = "AUTOTUNE_RUN"
_STARTUP = str(Path(__file__).with_name("startup"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The settings to put in, the DataLoader that those of the loader are for, and how many
    training loops of the program come before the one that was measured.
    """

    settings: Config
    loader: LoaderKey | None = None
    passed_loops: int = 0


def environment(order: Order, own: Mapping[str, str]) -> dict[str, str]:
    """The environment `own` as the processes of a tuned program need it."""
    path = [_STARTUP, *filter(None, [own.get("PYTHONPATH")])]
    return {**own, "PYTHONPATH": os.pathsep.join(path), _VARIABLE: json.dumps(asdict(order))}


def given_order() -> Order | None:
    """What this process was told, None where it was told nothing."""
    text = os.environ.get(_VARIABLE)
    if not text:
        return None
    told = json.loads(text)
    loader = told["loader"]
    return Order(
        settings=told["settings"],
        loader=LoaderKey(**loader) if loader else None,
        passed_loops=told["passed_loops"],
    )
