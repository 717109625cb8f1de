"""`tuned.toml`: the settings that won, for people to read and `Trainer.from_config` to take."""

from pathlib import Path

import tomli_w

from autotune.knobs.knob import Value
from autotune.outputs.wording import interval_text, moment, ratio
from autotune.outputs.writing import write_whole
from autotune.result import Result


def write_config(result: Result, path: Path) -> None:
    """Write the settings that won to the file at `path`; none where nothing was gained.

    Raises:
        UsageError: the file cannot be written.
    """
    loader = result.profile.seen.loader
    batch_size = loader.batch_size if loader and loader.batch_size else None
    program: dict[str, Value] = {
        "name": _writable(result.target.name),
        "kind": result.target.kind,
        "batch_size": batch_size or round(result.profile.seen.samples_per_step),
        "source_sha256": result.target.source_sha256,
    }
    config = dict(result.verdict.config) if result.verdict else {}
    tables = {"settings": config, "program": program}
    write_whole(path, f"{_header(result, path)}\n{tomli_w.dumps(tables)}")


def _header(result: Result, path: Path) -> str:
    version = result.profile.machine.versions.get("autotune", "")
    lines = [
        f"Tuned settings of {_writable(result.target.name)}",
        f"Found by autotune {version} on {moment(result.started_at)}".replace("  ", " "),
        _gain(result),
        "",
        f"autotune apply {_writable(str(path.parent))}",
        "    writes those that the patch has, if there is one, into the program's source",
        f"autotune run {_writable(str(path.parent))}",
        "    runs the program with them, its source untouched",
        f'Trainer.from_config("{_writable(path.name)}", ...)',
        "    trains a model of your own with them",
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _gain(result: Result) -> str:
    verdict = result.verdict
    if verdict is None or verdict.outcome != "faster" or verdict.speedup is None:
        return "Nothing was gained: the program's own settings stay"
    speedup = verdict.speedup
    return (
        f"{ratio(speedup.estimate)} as fast as the program as it was ({interval_text(speedup)}),"
        " measured in turns with it"
    )


def _writable(text: str) -> str:
    """`text` without what a TOML comment cannot hold: line ends, control characters."""
    return "".join(each if each.isprintable() else "?" for each in text)
