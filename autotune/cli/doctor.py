"""`autotune doctor`: what this machine can measure, and what is missing for more."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import Device, Json

if TYPE_CHECKING:
    from autotune.cli.console import Console
    from autotune.machine import Ability, Machine
    from autotune.measurement.interleaved.calibration import Calibration


def doctor(
    device: Device = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Measure this machine's noise: how small a gain it tells."
        ),
    ] = False,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time to calibrate in.")] = "60s",
    as_json: Json = False,
) -> None:
    """Say what this machine can measure, and what it lacks."""
    from autotune.cli.console import Console
    from autotune.durations import parse_duration
    from autotune.machine import abilities, detect
    from autotune.outputs.plain import plain

    seconds = parse_duration(budget)
    machine = detect(device)
    found = abilities(machine)
    console = Console()
    if not as_json:
        _show_abilities(console, machine, found)
    noise = _calibrated(seconds, machine, None if as_json else console) if calibrate else None
    if as_json:
        facts = {"machine": plain(machine), "abilities": plain(found)}
        print(json.dumps({**facts, "calibration": plain(noise)} if noise else facts), flush=True)
    elif noise:
        _show_noise(console, noise)


def _show_abilities(console: "Console", machine: "Machine", found: "tuple[Ability, ...]") -> None:
    from autotune.cli.profile_screen import machine_line

    console.say([(machine_line(machine), "strong")])
    console.say((machine.system, "quiet"))
    console.gap()
    console.rows(
        [
            [
                ("yes", "good") if ability.can else ("no", "warn"),
                ability.name,
                (ability.note, "quiet"),
            ]
            for ability in found
        ],
        indent=0,
    )


def _calibrated(
    budget_seconds: float, machine: "Machine", console: "Console | None"
) -> "Calibration":
    """What the calibration gave; on `console`, a live line says how far it is."""
    import time
    from contextlib import nullcontext

    from autotune.measurement.interleaved.calibration import calibrate

    began = time.monotonic()
    rounds = 0

    def line() -> str:
        spent = time.monotonic() - began
        return f"Timing a small program against itself: {rounds} rounds, {spent:.0f} s"

    def after_round(count: int) -> None:
        nonlocal rounds
        rounds = count

    if console is not None:
        console.gap()
    with console.live(line) if console is not None else nullcontext():
        return calibrate(budget_seconds, cores=machine.cores, after_round=after_round)


def _show_noise(console: "Console", noise: "Calibration") -> None:
    from autotune.diagnosis.finding import ends

    ratio = noise.ratio
    console.say(("Noise", "strong"))
    console.say(
        f"A small program, timed against itself in {noise.rounds} pairs of processes, came out "
        f"{ratio.estimate:.2f}× (95 % interval {ends(ratio.low, ratio.high)}). Neighbouring "
        f"turns differ by {100 * noise.turn_scatter:.1f} %, processes by "
        f"{100 * noise.pair_scatter:.1f} %.",
        indent=2,
    )
    if noise.left_out:
        turns = "1 turn was" if noise.left_out == 1 else f"{noise.left_out} turns were"
        console.say((f"{turns} left out: the processors were taken away.", "warn"), indent=2)
    console.heading("Gains", "told in 80 of 100 searches, after so much judging")
    console.rows(
        [
            [
                f"{100 * each.gain:.0f} %",
                f"{each.seconds:.0f} s",
                ("", "plain") if each.within_a_search else ("longer than a search judges", "warn"),
            ]
            for each in noise.tellable
        ],
        right="01",
    )
    console.gap()
    console.say(
        f"The smallest gain that a search here tells as often is {100 * noise.smallest_gain:.1f} %."
    )
