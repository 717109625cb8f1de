"""All that one profile or search found out; `result.json` is this, in the public format (schema
1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.diagnosis import Finding
from autotune.profiling.profile import Profile
from autotune.source.edits import EditOutcome
from autotune.trials.space import Space
from autotune.trials.trial import Ending, Trial
from autotune.verdict import Ratio, Verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the search itself cost, and by how much each later start of the tuned program is slower
    (it compiles, it starts workers): `break_even_steps` of training pay for the search and a start,
    None where nothing was gained.

    `earlier_trials` of the `trials`, and `earlier_seconds` of the `seconds`, are what this search
    has from one that was interrupted or took place beside it. Waiting for another to leave the
    device is no cost.
    """

    seconds: float
    trials: int
    break_even_steps: int | None
    start_seconds: float = 0.0
    earlier_trials: int = 0
    earlier_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What the user named: `kind` is "script", "recipe" or "objects"; `path` is absolute ("" for
    objects), `module` its dotted name where it is run as `python -m` runs it, `root` the project's
    directory. `files` has the hash of the text of each other file of the program, by its path.
    """

    kind: str
    name: str
    path: str
    arguments: tuple[str, ...]
    source_sha256: str
    module: str = ""
    root: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rematch:
    """The two best trials, by their numbers, measured once more in turns: how much faster the
    second came out, and which was `taken` (None where a result does not say so). There is no ratio
    where one `failed` there, or both, for a `reason`.
    """

    trials: tuple[int, int]
    ratio: Ratio | None = None
    taken: int | None = None
    failed: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFacts:
    """How a search went.

    Attributes:
        key: the same for the same program, arguments, data, machine, versions and wishes: a search
            with it is answered from a kept result.
        sampler: who proposed what to try.
        patience_seconds: what one percent of expected gain might take.
        memory_limit_bytes: what a configuration might need at its peak.
        ending: why it ended.
        rematch: of the two best, where they were too close to tell.
        energy: whether energy was to be set against speed too.
        front: numbers of the trials than which none is as good in speed and in what was to be set
            against it (memory, where nothing was), and better in one of them.
        answered_at: when a later search was answered with this result; "" for the search itself.
    """

    key: str
    sampler: str
    patience_seconds: float
    memory_limit_bytes: int | None = None
    energy: bool = False
    ending: Ending | None = None
    rematch: Rematch | None = None
    front: tuple[int, ...] = ()
    answered_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run. After `profile` alone, `space` and `verdict` are None and there are no
    trials.
    """

    target: TargetFacts
    profile: Profile
    diagnosis: tuple[Finding, ...]
    space: Space | None = None
    trials: tuple[Trial, ...] = ()
    verdict: Verdict | None = None
    cost: Cost | None = None
    search: SearchFacts | None = None
    edits: tuple[EditOutcome, ...] = ()
    patch: str = ""
    protection: str = ""  # what kept the user's files untouched
    by_hand: str = ""  # after `profile` alone: a line of the program's that may mend the first
    command: tuple[str, ...] = ()
    started_at: str = ""  # ISO 8601, UTC
    seed: int = 0
