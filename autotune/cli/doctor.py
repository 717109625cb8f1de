"""`autotune doctor`: what this machine can measure, and what is missing for more."""

import json

from autotune.cli.options import Device, Json


def doctor(device: Device = None, as_json: Json = False) -> None:
    """Say what this machine can measure, and what it lacks."""
    from autotune.cli.console import Console
    from autotune.cli.profile_screen import machine_line
    from autotune.machine import abilities, detect
    from autotune.outputs.plain import plain

    machine = detect(device)
    found = abilities(machine)
    if as_json:
        print(json.dumps({"machine": plain(machine), "abilities": plain(found)}))
        return
    console = Console()
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
