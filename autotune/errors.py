"""The errors that autotune raises: one tree, each saying what happened and what to do about it."""


class AutotuneError(Exception):
    """Any failure that autotune reports to its user; `cli` turns it into a message and an exit
    code.

    Args:
        message: what happened, and where.
        advice: what the user can do about it; empty when nothing can be done.
    """

    exit_code = 4

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        if advice:
            self.add_note(advice)  # a traceback has it too


class UsageError(AutotuneError):
    """The command, the target or an argument is not one that autotune can take."""

    exit_code = 2


class ProgramError(AutotuneError):
    """The user's own program failed; `output` is the end of what it printed, its traceback
    included.
    """

    exit_code = 1

    def __init__(self, message: str, advice: str = "", *, output: str = "") -> None:
        super().__init__(message, advice)
        self.output = output


class MeasurementError(AutotuneError):
    """Nothing could be measured: no training step was seen, or the machine was too busy."""


class PatchError(AutotuneError):
    """The user's source is no longer the one that the patch was made from, or cannot be edited."""

    exit_code = 2
