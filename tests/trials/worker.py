"""One of several searches that share a study, in a process of its own; its speeds are made up.

    python -m tests.trials.worker ADDRESS [elsewhere] [TRIALS]

It says each trial on a line as it begins. With TRIALS it begins one more, and never ends it. One
that is elsewhere cannot be seen to die by others: nothing is heard of it any more.
"""

import json
import sys
import time
from types import SimpleNamespace
from typing import Any

from autotune.flow import Options, trying
from autotune.knobs.knob import Config
from autotune.listener import Listener
from autotune.measurement.measurement import Measurement
from autotune.trials.study import Study, storage
from autotune.trials.trial import Trial
from tests import builders
from tests.flow.device import Device
from tests.trials.test_study import SPACE, joint, measured

NEVER = 10_000
TRIAL_SECONDS = 0.05


class Saying(Listener):
    """Says the trials, and takes the time that they would take."""

    def __init__(self, trials: int) -> None:
        self._left = trials

    def trial_begins(
        self, number: int, config: Config, seconds_left: float, best: Trial | None
    ) -> None:
        print(json.dumps({"number": number, "config": dict(config)}), flush=True)
        time.sleep(TRIAL_SECONDS if self._left else NEVER)
        self._left -= 1


def made_up(_context: Any, _profiled: Any, _baseline: Any, config: Config, _: Any) -> Measurement:
    return measured(joint(config))


def work(study: Study, trials: int) -> None:
    ends = time.monotonic() + NEVER
    context: Any = SimpleNamespace(
        options=Options(),
        listener=Saying(trials),
        device=Device(),
        deadline=ends,
        trials_deadline=ends,
    )
    trying.measured = made_up
    ending = trying._try_all(context, builders.profile(), SPACE, measured(joint({})), study)
    print(json.dumps({"ending": ending.why}), flush=True)


if __name__ == "__main__":
    address, *words = sys.argv[1:]
    # Of the dead is heard soon here, or else never, so that a test need not wait for it.
    storage.HEARTBEAT_SECONDS, storage.SILENT_SECONDS = 1, NEVER
    if "elsewhere" in words:
        words.remove("elsewhere")
        storage.SILENT_SECONDS = 10
        storage.this_process = lambda: "another-machine 1 0.0"
    trials = int(words[0]) if words else NEVER
    with Study(
        SPACE, builders.profile(), key="program", storage=address, patience_seconds=1e9
    ) as shared:
        work(shared, trials)
