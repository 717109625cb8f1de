"""Searches a lot of programs, one after another, and times the patches that come of it.

    python -m tests.bench.lot LIST.tsv --out FOLDER [--budget 120s] [--python PYTHON] [--only NAME]
        [--timed]

LIST has a line for each program, with tabs between: its name, the folder that it is started in,
what follows `python` (a script, or -m and a module, and its arguments), and for a public one its
`owner/repository@commit`. Each has its search in `FOLDER/NAME`, what that printed in
`FOLDER/NAME.txt`, and a row as in `reports/programs`: in `FOLDER/searches.tsv`, or, where it is of
no repository, in `FOLDER/scripts_with_traps.tsv`; one that is handed back faster has another in
`delivered.tsv`. Each file of its folder that is not as it was before has one in `changed.tsv`. A
program that has a row already is passed over.

With --timed each patch is timed in turns with its program (`tests.bench.patched`) after the
searches, in two pairs. Nothing else may run meanwhile.
"""

import argparse
import csv
import hashlib
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIGURES = ("estimate", "low", "high", "search_seconds")
PUBLIC = ("program", "repository@commit", "arguments", "bottleneck", "outcome", *FIGURES, "reason")
TRAPPED = (
    *("script", "search", "bottleneck", "outcome", *FIGURES),
    *("settings", "left_out", "reason"),
)
DELIVERED = ("program", "settings", "handed_back", "low", "high", "not_in_the_patch")
CHANGED = ("program", "file", "what")
IN_TURNS = "steps_in_turns.tsv"
LONGEST_SEARCH = 600.0  # seconds; one that takes longer hangs
LONGEST_TIMING = 900.0


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of the list."""

    name: str
    folder: Path
    command: tuple[str, ...]
    repository: str = ""

    @property
    def target(self) -> list[str]:
        """What `autotune search` is told of it, before its options and after them."""
        return list(self.command[:2] if self.command[0] == "-m" else self.command[:1])

    @property
    def arguments(self) -> list[str]:
        """What the program itself is told."""
        return list(self.command[len(self.target) :])


def listed(path: Path) -> list[Listed]:
    """The programs of a list.

    Raises:
        ValueError: a line has fewer than three columns.
    """
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        name, *others = line.split("\t")
        if len(others) < 2:
            raise ValueError(f"{path}:{number}: a name, a folder and a command, with tabs between")
        command = tuple(shlex.split(others[1]))
        found.append(Listed(name, Path(others[0]), command, *others[2:3]))
    return found


def hashes(folder: Path) -> dict[str, str]:
    """The hash of each file below `folder`, by its path; of what may be had without opening it, for
    what is no file.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            kind = path.readlink() if path.is_symlink() else "folder"
            found[str(path.relative_to(folder))] = str(kind)
        else:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = digest
    return found


def changed(name: str, before: dict[str, str], after: dict[str, str]) -> Iterator[Sequence[str]]:
    """A row for each file that is not as it was."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            what = "removed" if path not in after else "changed" if path in before else "added"
            yield name, path, what


def search(program: Listed, out: Path, budget: str, python: str) -> float:
    """Search one; how many seconds it took."""
    command = [python, "-m", "autotune", "search", *program.target, "--budget", budget, "--fresh"]
    command += ["--out", str(out / program.name), "--", *program.arguments]
    began = time.monotonic()
    with (out / f"{program.name}.txt").open("w") as printed:
        try:
            subprocess.run(
                command,
                cwd=program.folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_SEARCH,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"\nended after {LONGEST_SEARCH:.0f} s", file=printed)
    return time.monotonic() - began


def _figures(gain: dict[str, float] | None) -> list[str]:
    return [f"{gain[each]:.4g}" if gain else "" for each in FIGURES[:3]]


def left_out(result: dict[str, Any]) -> str:
    """What was refused, and what a place in the program's text rules out."""
    skipped = (result.get("space") or {}).get("skipped", [])
    told = [each for each in skipped if each["refused"] or re.search(r"\.py:\d", each["reason"])]
    return "; ".join(f"{each['knob']}: {each['reason']}" for each in told)


def row(program: Listed, result: dict[str, Any], seconds: float) -> list[str]:
    """What its search found, as in `reports/programs`."""
    verdict = result.get("verdict") or {}
    diagnosis = (result.get("diagnosis") or [{}])[0]
    figures = [*_figures(verdict.get("speedup")), f"{seconds:.4g}"]
    outcome, reason = verdict.get("outcome", "failed"), verdict.get("reason", "")
    if program.repository:
        owner, _, commit = program.repository.partition("@")
        what = [program.name, f"{owner}@{commit[:7]}", shlex.join(program.command)]
        return [*what, diagnosis.get("bottleneck", ""), outcome, *figures, reason]
    settings = _settings(verdict)
    what = [program.name, "first", diagnosis.get("headline", ""), outcome]
    return [*what, *figures, settings, left_out(result), reason]


def _settings(verdict: dict[str, Any]) -> str:
    config = verdict.get("config") or {}
    chosen = verdict.get("outcome") == "faster"
    return ", ".join(f"{knob}={value}" for knob, value in sorted(config.items()) if chosen)


def delivered(program: Listed, result: dict[str, Any]) -> list[str]:
    """What was handed back faster, and how much of it is in the patch."""
    verdict = result["verdict"]
    patched = (verdict.get("delivered") or {}).get("speedup") if result.get("patch") else None
    left = [each["knob"] for each in result["edits"] if each["status"] not in ("done", "already")]
    kept = dict.fromkeys(each for each in left if each in (verdict.get("config") or {}))
    return [program.name, _settings(verdict), *_figures(patched), ", ".join(kept)]


def append(path: Path, columns: Sequence[str], *rows: Sequence[str]) -> None:
    """Add rows to a table, which begins with its columns' names."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([columns, *rows] if new else rows)


def taken(program: Listed, out: Path, budget: str, python: str) -> None:
    """Search one program and write down what came of it."""
    before = hashes(program.folder)
    seconds = search(program, out, budget, python)
    append(out / "changed.tsv", CHANGED, *changed(program.name, before, hashes(program.folder)))
    path = out / program.name / "result.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    written = row(program, result, seconds)
    if program.repository:
        append(out / "searches.tsv", PUBLIC, written)
    else:
        append(out / "scripts_with_traps.tsv", TRAPPED, written)
    if (result.get("verdict") or {}).get("outcome") == "faster":
        append(out / "delivered.tsv", DELIVERED, delivered(program, result))
    print(time.strftime("%H:%M:%S"), *written, sep=" | ", flush=True)


def timed(program: Listed, out: Path, python: str) -> None:
    """Time what its patch gains, in turns with the program as it is."""
    command = [sys.executable, "-m", "tests.bench.patched", str(out / program.name)]
    command += ["--start", str(program.folder)]
    command += ["--python", python, "--rounds", "6", "--out", str(out / IN_TURNS)]
    print(time.strftime("%H:%M:%S"), program.name, "timed in turns", flush=True)
    subprocess.run(command, timeout=LONGEST_TIMING, check=False)


def _first(path: Path) -> set[str]:
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    return {line.split("\t")[0] for line in lines}


def main() -> None:
    """Search all that are listed, and time them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("list", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", action="append", help="a name of the list; repeatable")
    parser.add_argument("--timed", action="store_true")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    lot = [each for each in listed(given.list) if not given.only or each.name in given.only]
    done = _first(out / "searches.tsv") | _first(out / "scripts_with_traps.tsv")
    for program in lot:
        if program.name not in done:
            taken(program, out, given.budget, given.python)
    in_turns = _first(out / IN_TURNS)
    for program in lot if given.timed else ():
        patch = out / program.name / "tuned.patch"
        if program.name not in in_turns and patch.exists() and patch.read_text().strip():
            timed(program, out, given.python)


if __name__ == "__main__":
    main()
