"""All that one profile or search found out; `result.json` is this, in the public format (schema
1).
"""

from dataclasses import dataclass

from autotune.diagnosis import Finding
from autotune.profiling.profile import Profile
from autotune.source.edits import EditOutcome
from autotune.trials.space import Space
from autotune.trials.trial import Trial
from autotune.verdict import Verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the search itself cost; `break_even_steps` of training pay for it, None where nothing
    was gained.
    """

    seconds: float
    trials: int
    break_even_steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What the user named: `kind` is "script", "recipe" or "objects"; `path` is absolute ("" for
    objects).
    """

    kind: str
    name: str
    path: str
    arguments: tuple[str, ...]
    source_sha256: str


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
    edits: tuple[EditOutcome, ...] = ()
    patch: str = ""
    protection: str = ""  # what kept the user's files untouched
    command: tuple[str, ...] = ()
    started_at: str = ""  # ISO 8601, UTC
    seed: int = 0
