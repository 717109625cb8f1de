"""What is handed back, as files: the result, its report, the settings, the patch and the tuned
program.
"""

from collections.abc import Sequence
from pathlib import Path

from autotune.errors import UsageError
from autotune.interrupts import Interrupts
from autotune.outputs.config import write_config
from autotune.outputs.document import write_document
from autotune.outputs.patch import Emission, write_patch
from autotune.outputs.report import write_report
from autotune.result import Result
from autotune.workload.program.target import Target


class NotWrittenError(UsageError):
    """There is an answer, which could not be written down; `result` is the answer."""

    def __init__(self, error: UsageError, result: Result) -> None:
        super().__init__(error.message, error.advice)
        self.result = result


# Where a faster program goes that a search found before one that found none.
EARLIER = "earlier"


def write_outputs(
    result: Result, emission: Emission, target: Target, out: Path
) -> tuple[Path, ...]:
    """Write all that `result` gives below `out`, and remove what an earlier run left there and this
    one does not give; a faster program is kept below `EARLIER` where this one gives none.

    Returns:
        The files written.

    Raises:
        NotWrittenError: a file cannot be written.
    """
    try:
        with Interrupts() as interrupts, interrupts.held():  # no half of an answer
            return _write(result, emission, target, out)
    except UsageError as error:
        raise NotWrittenError(error, result) from error


def _write(result: Result, emission: Emission, target: Target, out: Path) -> tuple[Path, ...]:
    document, report = out / "result.json", out / "report.html"
    settings, patch, program = (
        out / "tuned.toml",
        out / "tuned.patch",
        out / f"{target.name}_tuned.py",
    )
    written = [document, report]
    if result.verdict is not None:  # whatever happens next, no old patch lies by a new answer
        if result.verdict.outcome != "faster" and settings.exists():
            _keep_earlier(out, (document, report, program, patch, settings))
        for stale in (program, patch, settings):
            stale.unlink(missing_ok=True)
    if result.verdict is not None and result.verdict.outcome == "faster":
        write_config(result, settings)
        written.append(settings)
        if emission.patch:
            write_patch(emission, patch, program)
            written += [patch, *[program] * bool(emission.program)]
    write_report(result, report)
    write_document(result, document)
    return tuple(written)


def _keep_earlier(out: Path, files: Sequence[Path]) -> None:
    earlier = out / EARLIER
    try:
        earlier.mkdir(exist_ok=True)
        for file in files:
            (earlier / file.name).unlink(missing_ok=True)
            if file.exists():
                file.replace(earlier / file.name)
    except OSError as error:
        raise UsageError(
            f"{earlier} cannot be written: {error.strerror}", "Free it, or name another --out."
        ) from error
