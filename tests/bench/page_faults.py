"""What memory that is taken from the system again and again costs a program, and what is left of
that with `keep_freed_memory`: page faults and the length of a step, each setting in fresh processes
one after another, in rounds.

    python -m tests.bench.page_faults [--rounds 4] [--out FILE.tsv] PROGRAM [ARGUMENT...]

Says for each pair of settings that differ in nothing else, by the medians of their rounds, how many
times as fast a step is with the memory kept, and how many seconds of it a fault takes. Needs a
quiet machine.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from autotune.knobs.knob import Config
from autotune.measurement.workbench import Workbench
from autotune.workload.program.target import load_target

KEPT: Config = {"keep_freed_memory": True}
PLAIN: tuple[Config, ...] = ({}, {"precision": "bf16"})
WARM_SECONDS, SECONDS = 4.0, 6.0

Timing = tuple[float, float]  # faults a second, seconds of a step


def main() -> None:
    """Time them, round by round."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    timings: dict[str, list[Timing]] = {}
    lines = ["round\tsettings\tpage_faults_per_second\tstep_ms"]
    with Workbench(load_target(given.program, given.arguments)) as bench:
        bench.warm_up()
        bench.observe().kill()
        for number in range(given.rounds):
            for config in (each | kept for each in map(dict, PLAIN) for kept in ({}, dict(KEPT))):
                faults, seconds = timing = timed(bench, config)
                timings.setdefault(named(config), []).append(timing)
                lines.append(f"{number}\t{named(config)}\t{faults:.0f}\t{1e3 * seconds:.2f}")
                print(lines[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n")
    for plain in PLAIN:
        print(said(named(plain), timings))


def named(config: Config) -> str:
    """The settings, in a word for each."""
    return " ".join(f"{name}={value}" for name, value in config.items()) or "as it is"


def timed(bench: Workbench, config: Config) -> Timing:
    """What a fresh process with `config` does in a stretch of its training."""
    run = bench.start(config)
    try:
        run.window(WARM_SECONDS)
        window = run.window(SECONDS)
    finally:
        run.kill()
    return (window.page_faults or 0) / window.seconds, window.seconds / window.steps


def said(plain: str, timings: Mapping[str, Sequence[Timing]]) -> str:
    """What keeping memory gains beside the settings `plain`."""
    kept = named(KEPT) if plain == named({}) else f"{plain} {named(KEPT)}"
    (faults, seconds), (left, kept_seconds) = (
        (median(each[0] for each in timings[name]), median(each[1] for each in timings[name]))
        for name in (plain, kept)
    )
    fewer = (faults - left) * seconds  # in a step
    cost = f", {1e6 * (seconds - kept_seconds) / fewer:.1f} us a fault" if fewer > 0 else ""
    return (
        f"{plain}: {faults:,.0f} faults a second, {1e3 * seconds:.1f} ms a step; kept "
        f"{left:,.0f} and {1e3 * kept_seconds:.1f} ms, {seconds / kept_seconds:.2f} times as fast"
        f"{cost}"
    )


if __name__ == "__main__":
    main()
