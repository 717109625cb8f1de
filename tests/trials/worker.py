"""One of several searches that share a study, in a process of its own; its speeds are made up.

    python -m tests.trials.worker ADDRESS SPEEDS [TRIALS]

It says each trial on a line as it begins. With TRIALS it begins one more, and never ends it.
"""

import json
import sys
import time

from autotune.knobs.knob import Config
from autotune.trials.study import Study, storage
from autotune.trials.trial import Trial
from tests import builders
from tests.trials.test_study import SPACE, joint, measured

# Of the dead is heard soon here, so that a test need not wait for it.
storage.HEARTBEAT_SECONDS, storage.SILENT_SECONDS = 1, 10
NEVER = 10_000
TRIAL_SECONDS = 0.05


def work(study: Study, trials: int) -> None:
    told = 0
    while (asked := study.ask()) is not None or _others_try(study):
        if asked is None:
            time.sleep(TRIAL_SECONDS)
            continue
        number, config = asked
        print(json.dumps({"number": number, "config": dict(config)}), flush=True)
        time.sleep(TRIAL_SECONDS if told < trials else NEVER)
        _tell(study, number, config)
        told += 1


def _others_try(study: Study) -> bool:
    return any(not each.state.is_finished() for each in study._found)


def _tell(study: Study, number: int, config: Config) -> None:
    outcome = measured(joint(config))
    study.tell(Trial(number=number, config=config, outcome=outcome, seconds=TRIAL_SECONDS))


if __name__ == "__main__":
    address, trials = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else NEVER
    with Study(
        SPACE, builders.profile(), key="program", storage=address, patience_seconds=1e9
    ) as shared:
        work(shared, trials)
