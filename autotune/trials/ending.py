"""When more searching is worth less than the time it takes, in sentences."""

from autotune.knobs.knob import Config, Value
from autotune.trials.planner import Planner, Proposal
from autotune.trials.trial import CEILING, EXHAUSTED, PATIENCE, Ending, Trial

# Patience is counted in seconds for each of these, of expected gain.
ONE_PERCENT = 0.01
NOTHING = 0.0005  # an expected gain that would be told as 0.0 %


def ending(
    planner: Planner, trials: list[Trial], proposal: Proposal | None, patience_seconds: float
) -> Ending | None:
    """Why the search ends after these `trials`, None where `proposal` is worth trying, the best of
    what is left; `patience_seconds` are what one percent of expected gain may take.
    """
    if proposal is not None and proposal.gain_per_second * patience_seconds >= ONE_PERCENT:
        return None
    fed = planner.at_ceiling(trials)
    if fed is not None and fed.config:
        return Ending(
            why=CEILING,
            reason=f"With {_said(fed.config)} the program trains about as fast as with loading in "
            "no time: faster loading gains next to nothing more.",
        )
    dear = too_dear(planner, trials)
    if proposal is None:
        return Ending(why=EXHAUSTED, reason=f"Nothing is left to try that promises enough.{dear}")
    expected = f"Too little is expected of what is left (--patience): {_said(proposal.config)} may "
    expected += f"gain {100 * proposal.expected_gain:.1f} % in a trial of {proposal.seconds:.0f} s."
    if proposal.expected_gain < NOTHING:
        expected = "Nothing is expected of what is left."
    return Ending(why=PATIENCE, reason=f"{expected}{dear}")


def too_dear(planner: Planner, trials: list[Trial]) -> str:
    """What was not tried because it takes long, in sentences; "" where there is nothing."""
    return "".join(
        f" {name} was not tried: a trial of it takes about {seconds:.0f} s."
        for name, seconds in planner.too_dear(trials).items()
    )


def _said(config: Config) -> str:
    words = (f"{name} {_worded(value)}" for name, value in config.items())
    return ", ".join(words) or "the program as it is"


def _worded(value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
