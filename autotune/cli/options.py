"""Arguments and flags that several commands take."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from autotune.errors import UsageError

OUT_FOLDER = Path("autotune-out")

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A training script, a module's dotted name, or a recipe module.",
        show_default=False,
    ),
]
Module = Annotated[
    bool,
    typer.Option("-m", help="TARGET is a module's name, as python -m takes it."),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGS", help="What the program is called with, after --.", show_default=False
    ),
]
OutFlag = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where to write. Default: autotune-out/<name>.",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Argument(
        metavar="OUT", help="The folder that search or profile wrote.", show_default=False
    ),
]
Searched = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="The folder that a search wrote.", show_default=False),
]
Budget = Annotated[str, typer.Option(metavar="TIME", help="Time for all of it: 90s, 5m, 1h.")]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="cpu or cuda. Default: the best there is.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(help="Of what the program leaves unseeded, and of the search.")]
Json = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer, no progress.")]


def out_folder(out: Path | None, target: str) -> Path:
    """Where a run of `target`, a file or a module's dotted name, writes."""
    return next(default_folders(target)) if out is None else out


def default_folder(target: str) -> Path:
    """The folder that is named after `target`."""
    is_file = target.endswith(".py") or os.sep in target
    return OUT_FOLDER / (Path(target).stem if is_file else target.rpartition(".")[2])


def default_folders(target: str) -> Iterator[Path]:
    """That folder, and the next ones by their number, without those that have the results of
    another program of this name.
    """
    from autotune.workload.program.target import load_target

    first, path = default_folder(target), ""
    with suppress(UsageError):  # the run will say so
        path = load_target(target).path
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not path or _program_of(folder) in ("", path):
            yield folder


def _program_of(folder: Path) -> str:
    """The program whose results are in `folder`; "" where there are none, or it is gone."""
    from autotune.outputs.document import read_document

    with suppress(UsageError):
        path = read_document(folder / "result.json").target.path
        return path if Path(path).is_file() else ""
    return ""


@contextmanager
def unseen_by_git() -> Iterator[None]:
    """Where what runs makes the default folder, version control does not see it."""
    was_there = OUT_FOLDER.exists()
    try:
        yield
    finally:
        if not was_there and OUT_FOLDER.is_dir():
            with suppress(OSError):  # a full disk: what matters was written, or has said so
                (OUT_FOLDER / ".gitignore").write_text("*\n")


def result_file(path: Path) -> Path:
    """The `result.json` that is meant by its own path, its folder's, or that of a file beside it.

    Raises:
        UsageError: it is another file, or a folder of folders with results.
    """
    if path.suffix == ".json" and not path.is_dir():
        return path
    if path.is_file():
        beside = path.with_name("result.json")
        if beside.exists():
            return beside
        default = f"by default {OUT_FOLDER / path.stem}"
        raise UsageError(
            f"{path} is a file.", f"Name the folder that a search wrote to, {default}."
        )
    own = path / "result.json"
    below = ("*/result.json", str(OUT_FOLDER / "*" / "result.json"))
    found = {each.parent for name in below for each in path.glob(name)}
    if inner := [] if own.exists() else sorted(found):
        raise UsageError(
            f"{path} holds no result itself, but folders that do.",
            f"Name one of them: {', '.join(map(str, inner))}.",
        )
    return own
