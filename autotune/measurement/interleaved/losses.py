"""How many losses of two trainings are compared, and how long they are waited for."""

from dataclasses import dataclass

# Losses of few steps say little of a training: what the turns did not give is run on, not timed.
LOSSES_NEEDED, LOSSES_WANTED = 40, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSeconds:
    """How long each contestant may run on for losses to compare: for as many as it takes to say
    anything, and for more of them.
    """

    needed: float = 10.0
    wanted: float = 4.0

    def want_more(self, count: int, seconds: float) -> bool:
        """Whether a contestant with `count` losses, that ran on for `seconds`, is to go on."""
        needed = count < LOSSES_NEEDED and seconds < self.needed
        return needed or (count < LOSSES_WANTED and seconds < self.wanted)
