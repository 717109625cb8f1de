"""`autotune compare`: two results side by side; a gate for CI."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import Json, result_file

if TYPE_CHECKING:
    from autotune.cli.console import Console, Line
    from autotune.outputs.compare import Comparison

SLOWER = 3  # the exit code of a regression
_CAVEAT = "Measured apart, not in turns: what else the machine did then and now counts too."
_NOT_HELD = "Not held to --fail-slower: one of them lacked processors."
_MACHINES = "Measured on different machines or cores: the ratio is of program and machine together."

Before = Annotated[
    Path,
    typer.Argument(metavar="A", help="A folder of results, or a result.json.", show_default=False),
]
After = Annotated[
    Path, typer.Argument(metavar="B", help="The same, to be judged against A.", show_default=False)
]
FailSlower = Annotated[
    float | None,
    typer.Option(
        metavar="PCT",
        min=0,
        max=100,
        help="Exit with 3 where B is slower by more than PCT %, by its whole interval.",
        show_default=False,
    ),
]


def compare(
    before: Before, after: After, fail_slower: FailSlower = None, as_json: Json = False
) -> None:
    """Show two results side by side, B against A."""
    from autotune.cli.console import Console
    from autotune.outputs.compare import compare_results
    from autotune.outputs.document import read_document
    from autotune.outputs.plain import plain

    comparison = compare_results(*(read_document(result_file(path)) for path in (before, after)))
    slower = fail_slower is not None and comparison.is_slower(fail_slower)
    if as_json:
        print(json.dumps({**plain(comparison), "slower": slower}), flush=True)
    else:
        _show(Console(), comparison)
        if slower:
            Console().say((f"Slower by more than {fail_slower:g} %, by the whole interval.", "bad"))
        elif fail_slower is not None and comparison.disturbed:
            Console().say((_NOT_HELD, "warn"))
    if slower:
        raise typer.Exit(SLOWER)


def _show(console: "Console", comparison: "Comparison") -> None:
    console.say((_sentence(comparison), "strong"))
    console.say((_compared(comparison), "quiet"))
    console.say((_CAVEAT, "quiet") if comparison.same_machine else (_MACHINES, "warn"))
    console.gap()
    rows: list[list[Line]] = [[(name, "quiet"), *rest] for name, *rest in _rows(comparison)]
    console.rows(rows, indent=0)
    if comparison.differences:
        console.heading("The speeds may also differ because of")
        for difference in comparison.differences:
            console.say((difference, "warn"), indent=2, hang=2)


def _compared(comparison: "Comparison") -> str:
    if comparison.compared == "tuned":
        return "Compared are the faster programs that the two searches handed back."
    sides = {"A": comparison.before, "B": comparison.after}
    without = [name for name, side in sides.items() if side.tuned_samples_per_second is None]
    who = "neither result has" if len(without) > 1 else f"{without[0]} does not have"
    return f"Compared are the programs as they are: {who} a faster one."


def _rows(comparison: "Comparison") -> list[list[str]]:
    from autotune.outputs.wording import duration, ratio, significant, size

    sides = (comparison.before, comparison.after)
    rows = [
        ["", "A", "B"],
        ["samples/s as it is", *(significant(side.samples_per_second) for side in sides)],
        ["one step", *(duration(side.step_seconds) for side in sides)],
    ]
    for pair in comparison.phases:
        seconds = (pair.before_seconds, pair.after_seconds)
        rows.append([f"  {pair.phase}", *(duration(each) for each in seconds)])
    rows.append(["peak memory", *(size(side.peak_bytes) for side in sides)])
    tuned = [side.tuned for side in sides]
    speeds = [side.tuned_samples_per_second for side in sides]
    if any(speeds):
        rows.append(["samples/s tuned", *(significant(each) if each else "" for each in speeds)])
    if any(tuned):
        rows.append(["tuned, in turns", *(ratio(each.estimate) if each else "" for each in tuned)])
    return rows


def _sentence(comparison: "Comparison") -> str:
    from autotune.outputs import wording

    speedup = comparison.speedup
    interval = wording.interval_text(speedup)
    if speedup.low <= 1 <= speedup.high:
        answer = "No difference was shown"
    else:
        answer = f"B is {'faster' if speedup.estimate > 1 else 'slower'}"
    return f"{answer}: {wording.ratio(speedup.estimate)} the speed of A ({interval})"
