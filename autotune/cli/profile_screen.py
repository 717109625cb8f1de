"""A profile in words: the bottleneck, the step's phases, the ceilings, memory, machine."""

from pathlib import Path

from autotune.cli.console import Console, Line
from autotune.cli.typed import retyped, shown_path
from autotune.diagnosis.largest import said_of_largest
from autotune.machine import Machine
from autotune.outputs import bounds, wording
from autotune.outputs.device import device_rows
from autotune.outputs.speeds import counted_by_shape
from autotune.profiling.profile import (
    Memory,
    Profile,
)
from autotune.result import Result
from autotune.workload.window import PHASES


def show_profile(console: Console, result: Result, folder: Path, *, brief: bool = False) -> None:
    """The whole screen of `autotune profile`; only its first sentences where `brief`."""
    profile, first = result.profile, result.diagnosis[0]
    show_cautions(console, profile)
    console.say((wording.finding(profile, first.headline), "strong"))
    if brief:
        return
    console.say(first.evidence)
    if result.by_hand:
        console.say(result.by_hand)
    _show_step(console, profile)
    _show_ceilings(console, profile)
    if profile.gpu is not None:
        console.heading("The device")
        rows = device_rows(profile.gpu)
        console.rows([[(name, "quiet"), text] for name, text in rows.items()])
    console.gap()
    show_facts(console, profile, result.protection)
    if result.diagnosis[1:]:
        console.heading("Also seen")
        for finding in result.diagnosis[1:]:
            console.say([finding.headline, (f" {finding.evidence}", "quiet")], indent=2)
    show_files(console, folder, ("result.json", "report.html"))
    console.gap()
    console.say("Next: search for settings that gain it")
    console.command(retyped(result.command, as_command="search"))


def show_cautions(console: Console, profile: Profile) -> None:
    """What comes before any figure of `profile`."""
    for caution, evidence in wording.cautions(profile):
        console.say([(caution, "warn"), (f" {evidence}", "quiet")])


def show_facts(console: Console, profile: Profile, protection: str) -> None:
    """What the figures leave out, memory, machine, and how the user's files were kept."""
    facts = {
        "Not counted": wording.outside(profile),
        "Doubts": " ".join(
            f"{doubt.evidence} {doubt.advice}".strip() for doubt in wording.further_doubts(profile)
        ),
        "Samples": counted_by_shape(profile),
        "Memory": _memory(profile.memory),
        "Largest batch": said_of_largest(profile.memory),
        "Machine": machine_line(profile.machine),
        "Your files": protection,
    }
    console.rows([[(name, "quiet"), text] for name, text in facts.items() if text], indent=0)


def show_files(console: Console, folder: Path, names: tuple[str, ...]) -> None:
    """Those of the files `names` that are in `folder`."""
    written = [name for name in names if (folder / name).is_file()]
    if written:
        where: Line = [("Written to ", "quiet"), f"{shown_path(folder)}/"]
        console.gap()
        console.rows([[where, ", ".join(written)]], indent=0)


def machine_line(machine: Machine) -> str:
    """A machine on one line."""
    versions = (
        f"{name} {machine.versions[name]}"
        for name in ("python", "torch", "cuda")
        if machine.versions.get(name)
    )
    parts = [
        machine.device_name,
        wording.counted(machine.cores, "core"),
        wording.size(machine.memory_bytes),
        *versions,
    ]
    return ", ".join(parts)


def _show_step(console: Console, profile: Profile) -> None:
    low, high = (wording.significant(each) for each in profile.interval)
    speed = f"{wording.rate(profile.samples_per_second)} ({low} to {high})"
    console.heading(f"A step takes {wording.duration(profile.step_seconds)}", speed)
    most = max(profile.phases.values(), default=0.0)
    names = [*PHASES, *(name for name in profile.phases if name not in PHASES)]
    shares = {name: profile.phases[name] for name in names if name in profile.phases}
    console.bars(
        [
            (
                name,
                share,
                "accent" if share == most else "quiet",
                f"{wording.percent(share):>6}  {wording.duration(share * profile.step_seconds):>7}",
            )
            for name, share in shares.items()
        ]
    )
    width = max(map(len, names))
    for name, reason in bounds.unmeasured(profile).items():
        console.rows([[(name.ljust(width), "quiet"), (f"not measured: {reason}", "quiet")]])


def _show_ceilings(console: Console, profile: Profile) -> None:
    rows: list[list[Line]] = []
    ceilings = bounds.distinct(profile)
    rates = [wording.rate(ceiling.samples_per_second) for ceiling in ceilings]
    width = max(map(len, rates), default=0)
    for ceiling, rate in zip(ceilings, rates, strict=True):
        said: Line = f"{rate:<{width}}  {wording.ceiling(ceiling.max_gain)}"
        if ceiling.max_gain is None:
            said = (f"not measured: {ceiling.reason}", "quiet")
        rows.append([f"with {bounds.if_free(ceiling.name, profile.machine.device)}", said])
    if rows:
        console.heading("Ceilings")
        console.rows(rows)


def _memory(memory: Memory) -> str:
    parts = {
        "parameters": memory.parameter_bytes,
        "gradients": memory.gradient_bytes,
        "optimizer": memory.optimizer_bytes,
        "activations": memory.activation_bytes,
        "workspace": memory.workspace_bytes,
    }
    known = ", ".join(f"{name} {wording.size(count)}" for name, count in parts.items() if count)
    return (
        f"{wording.size(memory.peak_bytes)} of {wording.size(memory.capacity_bytes)} at the peak"
        f"{f' ({known})' if known else ''}"
    )
