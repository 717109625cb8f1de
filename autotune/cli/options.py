"""Arguments and flags that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

OUT_FOLDER = Path("autotune-out")

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="A training script, or a recipe module.", show_default=False
    ),
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
    """Where a run of `target` writes."""
    return out if out is not None else OUT_FOLDER / Path(target).stem


def result_file(path: Path) -> Path:
    """The `result.json` that is meant by its own path or by its folder's."""
    return path / "result.json" if path.is_dir() or not path.suffix else path
