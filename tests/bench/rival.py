"""loadtune 0.3.0 (https://pypi.org/project/loadtune/), used as its README says: a workload file is
written for the program, `loadtune tune --apply` is run on it, and what it writes is taken up.

By default it measures each configuration once, with 100 steps, in one round (`DEFAULTS`). With
`OPTIONS` it does so three times with 60 steps, of which it takes the median, and in a second round
from the best of the first, where it also tries what it only tries beside workers: the best that its
options allow on a CPU.
"""

import json
import subprocess
import sysconfig
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.bench.contestants import Example
from tests.bench.stopwatch import ended, finding

PACKAGE = "loadtune==0.3.0"
DEFAULTS = ("--no-plots", "--apply")
OPTIONS = ("--steps", "60", "--repeats", "3", "--max-rounds", "2", *DEFAULTS)
SNIPPET = "loadtune_apply.py"
LIMIT_SECONDS = 1800
_LINES_KEPT = 12

# It asks in a comment that the training step be put into autocast, as its own trials do; this does.
_AUTOCAST = """
if torch.cuda.is_available():
    torch.autocast("cuda").__enter__()
else:
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What loadtune came to in so many seconds: whether it has `found` settings that it measured as
    faster, which they are in its own words, and the speed-up that it `claimed`; the end of what it
    `said`, and what it said of the program `unmodified`; all that it measured, `raw`.
    """

    found: bool
    settings: str = ""
    claimed: float | None = None
    seconds: float = 0.0
    said: str = ""
    unmodified: str = ""
    raw: dict[str, Any] = field(default_factory=dict)


def install(folder: Path) -> Path:
    """Its published package in an environment of its own, above the torch of this one.

    Raises:
        subprocess.CalledProcessError: it could not be installed.
    """
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    (Path(place.stdout.strip()) / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", PACKAGE],
        check=True,
        capture_output=True,
        text=True,
    )
    return python


def tune(
    python: Path,
    example: Example,
    root: Path,
    *,
    options: Sequence[str] = OPTIONS,
    limit_seconds: float = LIMIT_SECONDS,
) -> Answer:
    """Let loadtune tune `example` in the copy `root`, and write its answer into the copy; what
    takes longer than `limit_seconds` finds nothing.
    """
    folder = root / "examples"
    words = [str(folder / example.original), "--steps", "1"]
    refusal = _loadtune(python, root, words, limit_seconds)
    unmodified = refusal[0].strip().splitlines()[-1] if refusal[1] else "accepted"
    workload, raw = folder / f"{example.name}_workload.py", root / "loadtune.json"
    workload.write_text(example.workload)
    words = [str(workload), *options, "--save-raw", str(raw)]
    said, failed, seconds = _loadtune(python, root, words, limit_seconds)
    facts = json.loads(raw.read_text()) if raw.exists() else {}
    snippet = folder / SNIPPET
    answer = Answer(
        found=not failed and snippet.exists(),
        seconds=seconds,
        said="\n".join(said.splitlines()[-_LINES_KEPT:]),
        unmodified=unmodified,
        raw=facts,
    )
    return adopted(answer, example, folder) if answer.found else answer


def _loadtune(
    python: Path, root: Path, words: list[str], limit_seconds: float
) -> tuple[str, bool, float]:
    """What it printed, whether it failed, and the seconds that it took."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [python, "-m", "loadtune.cli", "tune", *words, "--out", str(root / "report.md")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root,
        start_new_session=True,
        env=finding(),
    )
    with ended(process):
        try:
            said, _ = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")
            return f"{said}\ntook longer than {limit_seconds:.0f} s", True, limit_seconds
    return said, bool(process.returncode), time.perf_counter() - began


def adopted(answer: Answer, example: Example, folder: Path) -> Answer:
    """Write what loadtune recommends into the program, as the snippet that it wrote asks for."""
    program = folder / example.original
    text = program.read_text()
    if "[AMP] active" in (folder / SNIPPET).read_text():
        text = text.replace("\n\ndef main()", f"{_AUTOCAST}\n\ndef main()", 1)
    for old, new in example.adoption:
        if old not in text:
            raise ValueError(f"{program.name} has no {old!r} for loadtune's settings to be put in")
        text = text.replace(old, new, 1)
    program.write_text(text)
    last = next(line for line in reversed(answer.said.splitlines()) if "best overall: " in line)
    settings, _, claimed = last.partition("best overall: ")[2].partition(" — ")
    return replace(answer, settings=settings, claimed=float(claimed.split("x")[0]))
