"""The trials of one program: what is remembered survives an interrupt, other searches on other
machines may share it, and Optuna's own tools can read it.
"""

import math
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from autotune.errors import UsageError
from autotune.knobs.knob import Config, Value
from autotune.measurement.measurement import Failure, Measurement
from autotune.profiling.profile import Profile
from autotune.trials.ending import ending, too_dear
from autotune.trials.keeping import PROFILE
from autotune.trials.knowledge import planner_for
from autotune.trials.planner import Proposal, Ranked
from autotune.trials.space import Space
from autotune.trials.study.records import (
    INTERRUPTED,
    REPEATS,
    begun,
    constraints_of,
    facts_of,
    first_facts,
    known_trials,
    open_configs,
)
from autotune.trials.study.sampler import sampler_called, suggest
from autotune.trials.study.storage import OVER, Heartbeat, Kept, await_turn, keeping, open_study
from autotune.trials.trial import REPEATED, Ending, Trial

# A sampler that gives so many in a row that were tried before knows nothing new.
_MOST_REPEATS = 50
# How often is looked for what others have found out meanwhile.
LOOK_SECONDS = 0.5

Asked = tuple[int, dict[str, Value]]


class Study:
    """The trials of one program on one kind of machine, which `key` names, in an Optuna storage (a
    journal file, a URL, or None for memory); a context manager, at whose end others may have what
    was begun.

    What other searches have tried comes to `space`, and their trials go on where they stopped; to
    begin `fresh`, only those of another such search that was interrupted do. One percent of
    expected gain may take `patience_seconds`; a trial usually takes `trial_seconds`, and may need
    `memory_limit_bytes` at its peak. `baseline` is the program as this search measured it as it is.

    Raises:
        UsageError: the storage cannot be read or written; `ask`, `tell` and `close` raise it too.
    """

    def __init__(
        self,
        space: Space,
        profile: Profile,
        *,
        key: str,
        storage: Path | str | None,
        fresh: bool = False,
        sampler: str = PROFILE,
        seed: int = 0,
        patience_seconds: float = 15.0,
        memory_limit_bytes: int | None = None,
        baseline: Measurement | None = None,
        trial_seconds: float = 1.0,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.ending: Ending | None = None
        self.awaited = ""
        self.trials: list[Trial] = []
        self._proposal: Proposal | None = None
        self._profile, self._place = profile, storage
        self._sampler, self._seed, self._trial_seconds = sampler, seed, trial_seconds
        self._patience_seconds = patience_seconds
        self._memory_limit_bytes, self._baseline = memory_limit_bytes, baseline
        self._mine: dict[int, Trial] = {}
        self._open: dict[int, tuple[optuna.Trial, Heartbeat]] = {}
        self._silent: set[int] = set()
        with keeping(self._place):
            self._kept = Kept(storage)
            self._study = open_study(key, self._kept.storage, fresh=fresh)
            self._search_in(space)
            self.look()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _search_in(self, space: Space) -> None:
        self.space = space
        self._planner = planner_for(
            space,
            self._profile,
            trial_seconds=self._trial_seconds,
            memory_limit_bytes=self._memory_limit_bytes,
        )
        self._study.sampler = sampler_called(
            self._sampler, space, self._profile, seed=self._seed, propose=lambda _: self._proposal
        )

    def look(self) -> None:
        """See what others have found out by now."""
        with keeping(self._place):
            self._kept.free_the_dead(self._study)
            self._refresh()

    @property
    def of_others(self) -> list[Trial]:
        """Trials that this search did not make itself."""
        return [trial for trial in self.trials if trial.number not in self._mine]

    def ask(self, seconds_left: float = math.inf) -> Asked | None:
        """A trial's number and the Config to try, None when more searching does not pay: then
        `ending` says why. None too where that hangs on what others are trying: then `awaited` says
        what that is, and whoever asks again after `await_others` knows more. What is known to take
        longer than `seconds_left` is not tried.
        """
        self.awaited = ""
        with keeping(self._place):
            for _ in range(_MOST_REPEATS):
                self._refresh()
                if self._is_over(seconds_left):
                    return None
                if (asked := self._claim(seconds_left)) is not None:
                    return asked
        self.ending = Ending(
            why=REPEATED, reason="The sampler proposes only what was tried already."
        )
        return None

    def await_others(self, seconds: float) -> None:
        """Wait until what others are trying is another, one of them having ended or died, where it
        is `awaited`; `seconds` at the most.
        """
        ends, before = time.monotonic() + seconds, self._tried_by_others()
        while self.awaited and self._tried_by_others() == before and time.monotonic() < ends:
            time.sleep(LOOK_SECONDS)
            self.look()

    def tell(self, trial: Trial) -> None:
        """What came of a trial that was asked for."""
        opened, heartbeat = self._open.pop(trial.number)
        heartbeat.stop()
        self._mine[trial.number] = trial
        constraints = dict(constraints_of(trial, self._memory_limit_bytes))
        with keeping(self._place):
            # Where nothing was heard of it for too long, another search tries the same by now.
            with suppress(UpdateFinishedTrialError):
                for name, fact in facts_of(trial, constraints).items():
                    opened.set_user_attr(name, fact)
                for name, amount in constraints.items():
                    opened.set_constraint(name, amount)
                self._end(opened, trial.outcome, pruned=bool(constraints))
            self._refresh()

    def _end(
        self, opened: optuna.Trial, outcome: Measurement | Failure, *, pruned: bool = False
    ) -> None:
        """Optuna's samplers learn of constraints from what was pruned, not from what failed."""
        if isinstance(outcome, Measurement):
            self._study.tell(opened, outcome.samples_per_second)
        else:
            self._study.tell(opened, state=TrialState.PRUNED if pruned else TrialState.FAIL)

    @property
    def ranked(self) -> list[Ranked]:
        """The measured trials that fit into memory and that this search may hand back, the one that
        is most likely fastest first.
        """
        return self._planner.ranked(self.trials)

    @property
    def too_dear(self) -> str:
        """What was not tried because it takes long, in sentences; "" where there is nothing."""
        return too_dear(self._planner, self.trials)

    @property
    def best(self) -> Trial | None:
        """The measured trial that is most likely fastest."""
        return next((each.trial for each in self.ranked), None)

    def conclude(self) -> None:
        """The search has come to its end: a fresh one begins another study, others go on here."""
        with suppress(UsageError), keeping(self._place):  # there is an answer in any case
            self._study.set_user_attr(OVER, True)

    def close(self) -> None:
        """Give up what was begun and not told, and let others have the storage."""
        with keeping(self._place):
            for opened, heartbeat in self._open.values():
                heartbeat.stop()
                opened.set_user_attr(INTERRUPTED, True)
                self._study.tell(opened, state=TrialState.FAIL)
            self._open.clear()
            self._kept.close()

    def _is_over(self, seconds_left: float) -> bool:
        """Whether nothing that is left is worth trying, or others' trials will tell; else the
        proposal is there.
        """
        waits = any(each.state == TrialState.WAITING for each in self._found)
        if not self._planner.can_propose(self.trials):
            if {} in self._tried_by_others().values():
                self.awaited = "another search's first trial"
            elif not waits:
                self._study.enqueue_trial(dict(self.space.own))
            return bool(self.awaited)
        self._propose(seconds_left)
        if waits:
            return False  # what a search that has died was trying
        ended = ending(self._planner, self.trials, self._proposal, self._patience_seconds)
        if ended and (others := len(self._tried_by_others())):
            self.awaited = f"{others} trial{'s' * (others > 1)} of other searches"
        else:
            self.ending = ended
        return ended is not None

    def _tried_by_others(self) -> dict[int, Config]:
        """What others are trying now."""
        return {each: config for each, config in begun(self._found) if each not in self._open}

    def _claim(self, seconds_left: float) -> Asked | None:
        """Begin a trial of what nobody has tried or is trying, None where somebody has."""
        opened, heartbeat = self._kept.begin(self._study)
        number, before = opened.number, self._found
        await_turn(self._study, number, self._silent)
        self._refresh()
        others = [each for each in self._found if each.number != number]
        if others != before and self._planner.can_propose(self.trials):
            self._propose(seconds_left)
        config = self.space.difference(suggest(opened, self.space))
        reason = self._refusal(number, config, seconds_left)
        if not reason:
            for name, fact in first_facts(config, self.space).items():
                opened.set_user_attr(name, fact)
            self._open[number] = opened, heartbeat
            return number, config
        heartbeat.stop()
        opened.set_user_attr(REPEATS, reason)
        self._study.tell(opened, state=TrialState.FAIL)
        return None

    def _refusal(self, number: int, config: Config, seconds_left: float) -> str:
        """Why `config` is not tried, "" where it is."""
        for trial in self.trials:
            if trial.config == config:
                return f"trial {trial.number}"
        for other, running in begun(self._found):
            if other != number and running == config:
                return f"trial {other}"
        if not self.space.admits(config):
            return "it is not among what this search may try"
        return "it takes too long" if self._planner.is_late(config, seconds_left) else ""

    def _propose(self, seconds_left: float) -> None:
        others = [config for _, config in begun(self._found)]
        self._proposal = self._planner.propose(self.trials, begun=others, seconds_left=seconds_left)

    def _refresh(self) -> None:
        """Read what there is; of this search's own trials more is known than is kept."""
        self._found = self._study.get_trials(deepcopy=False)
        known = {
            each.number: each if each.config else self._better(each)
            for each in known_trials(self._found, self.space, self._profile.seen)
        }
        self.trials = [trial for _, trial in sorted((known | self._mine).items())]
        wider = self.space.widened(open_configs(self._found, self.trials))
        if wider is not self.space:
            self._seed += 1  # one of Optuna's samplers would propose the same again
            self._search_in(wider)

    def _better(self, kept: Trial) -> Trial:
        """The program as it is: as it was kept, unless that was in a bad moment of the machine."""
        known, own = kept.outcome, self._baseline
        shaken = isinstance(known, Measurement) and known.is_shaken
        return replace(kept, outcome=own) if own and shaken and not own.is_shaken else kept
