"""Does the program that is handed back run as fast as its result says, by a stopwatch that knows
nothing of autotune, and faster than what loadtune makes of the same program?

    python -m tests.bench.delivered [--out reports/bench/delivered.json] [EXAMPLE...]

For each example: `autotune search` as a user would run it, its patch applied with `git apply` to a
copy; loadtune 0.3.0 from its published package on another copy (see `tests.bench.rival`); then the
original and both results as whole fresh processes in turns (see `tests.bench.stopwatch`), until the
stopwatch itself knows the gain to 4 %. Two figures are taken: the steady rate (samples per second,
without start, first epoch and validation) and the wall of the whole process. Every mark is kept;
what there is is written after each example.
"""

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autotune.machine import detect
from autotune.workload.program.target import load_target
from tests.bench import rival
from tests.bench.contestants import EXAMPLES, Example
from tests.bench.stopwatch import Timing, mean_and_reach, time_program

ROOT = Path(__file__).parents[2]
EXAMPLES_FOLDER = ROOT / "examples"
ORIGINAL, TUNED, RIVAL = "original", "autotune", "loadtune"
NOTHING_DELIVERED = "nothing delivered"  # the outcome of a search that is faster without a patch
NEEDED = ("PIL", "skimage", "sklearn")  # by the examples
AGREEMENT = 0.05  # the claimed speed-up may be off by so much
PRECISE = 0.04  # half of the stopwatch's own interval, as a share: then it has timed enough
MOST_ROUNDS = 4  # times as many as `--rounds`, where the machine does not let it be so precise
QUIET_CORES = 0.1  # that other programs may use while the stopwatch runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What `result.json` says: the speed-up of what is handed back, 1 where that is nothing, its
    interval, and the search's whole cost in seconds.
    """

    outcome: str
    reason: str
    speedup: float
    interval: tuple[float, float]
    settings: Mapping[str, object]
    cost_seconds: float
    break_even_steps: int | None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> "Claim":
        """The claim of a `result.json`."""
        verdict, cost = result["verdict"], result["cost"]
        told = (verdict["delivered"] or {}).get("speedup") or verdict["speedup"]
        found = verdict["outcome"] == "faster"
        return cls(
            outcome=verdict["outcome"],
            reason=verdict["reason"],
            speedup=told["estimate"] if found else 1.0,
            interval=(told["low"], told["high"]) if found else (1.0, 1.0),
            settings=verdict["config"],
            cost_seconds=cost["seconds"],
            break_even_steps=cost["break_even_steps"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times as fast one contestant is as another: the geometric mean over rounds, its 95 %
    interval (none of a single round), and each round's.
    """

    estimate: float
    interval: tuple[float, float] | None
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, faster: Sequence[float], slower: Sequence[float]) -> "Gain":
        """Of rates round by round."""
        ratios = tuple(a / b for a, b in zip(faster, slower, strict=True))
        mean, reach = mean_and_reach([math.log(ratio) for ratio in ratios])
        interval = None if reach is None else (math.exp(mean - reach), math.exp(mean + reach))
        return cls(estimate=math.exp(mean), interval=interval, rounds=ratios)

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.estimate:.2f}x"
        low, high = self.interval
        return f"{self.estimate:.2f}x ({low:.2f} to {high:.2f})"


def prepare(example: Example, work: Path) -> Path:
    """A copy of the examples under version control, with the original to time and its data."""
    root = work / ORIGINAL
    shutil.copytree(
        EXAMPLES_FOLDER, root / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    under_version_control(root)
    folder = root / "examples"
    if example.recipe:
        text = load_target(folder / f"{example.name}.py").program_source
        (folder / example.original).write_text(text)
    if example.name == "photos":  # it writes its data when it first runs
        subprocess.run(
            [sys.executable, "examples/photos.py", "--epochs", "0"], check=True, cwd=root
        )
    return root


def under_version_control(root: Path) -> None:
    """`git init`, which only the patch needs, where there is git."""
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(root)], check=True)


def search(example: Example, root: Path, budget: str) -> Claim:
    """Run `autotune search` as a user would, and apply its patch to a copy of its own; where there
    is none, nothing was delivered and no gain is claimed of it. Without git the tuned program that
    lies beside the patch is taken.
    """
    out = root.parent / "out"
    given = str(ROOT), os.environ.get("PYTHONPATH", "")  # this autotune, and what it finds
    command = ["search", f"examples/{example.name}.py", "--budget", budget, "--out", str(out)]
    subprocess.run(
        [sys.executable, "-m", "autotune", *command],
        check=True,
        cwd=root,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, given))},
    )
    claim, patch = Claim.of(json.loads((out / "result.json").read_text())), out / "tuned.patch"
    if claim.outcome != "faster":
        return claim
    if not patch.exists():
        return replace(claim, outcome=NOTHING_DELIVERED, speedup=1.0, interval=(1.0, 1.0))
    copy = copy_of(root, TUNED)
    if shutil.which("git"):
        subprocess.run(["git", "apply", str(patch)], check=True, cwd=copy)
    else:
        shutil.copy(out / f"{example.name}_tuned.py", copy / "examples" / example.tuned)
    return claim


def copy_of(root: Path, name: str) -> Path:
    """All of `root`, beside it."""
    return Path(shutil.copytree(root, root.parent / name, symlinks=True))


def contest(
    example: Example,
    work: Path,
    *,
    rounds: int,
    budget: str,
    loadtune: Path | None,
    most_rounds: int | None = None,
) -> dict[str, Any]:
    """Tune `example` with each tool, time what comes out, and say how it went."""
    root = prepare(example, work)
    _say(f"{example.name}: autotune search --budget {budget}")
    began = time.perf_counter()
    claim = search(example, root, budget)
    search_seconds = time.perf_counter() - began
    if loadtune:
        _say(f"{example.name}: loadtune tune")
    answer = rival.tune(loadtune, example, copy_of(root, RIVAL)) if loadtune else None
    programs = {ORIGINAL: root / "examples" / example.original}
    if claim.outcome == "faster":
        programs[TUNED] = work / TUNED / "examples" / example.tuned
    if answer and answer.found:
        programs[RIVAL] = work / RIVAL / "examples" / example.original
    timings = take_turns(example, programs, rounds, work, most_rounds)
    return {
        "claim": asdict(claim),
        "search_wall_seconds": search_seconds,
        "loadtune": asdict(answer) if answer else None,
        **compare(example, claim, answer, timings),
    }


def take_turns(
    example: Example,
    programs: Mapping[str, Path],
    rounds: int,
    work: Path,
    most_rounds: int | None = None,
) -> dict[str, list[Timing]]:
    """Whole runs of `programs` in turns, the order moved on by one each round: `rounds`, and more
    while the gain is not known well enough, up to `most_rounds`.
    """
    empty = work / "empty"
    empty.mkdir(exist_ok=True)
    timings: dict[str, list[Timing]] = {name: [] for name in programs}
    names = list(programs)
    for number in range(most_rounds or MOST_ROUNDS * rounds):
        if number >= rounds and _is_precise(timings, example.lines.warm_samples):
            break
        start = number % len(names)
        for name in names[start:] + names[:start]:
            _say(f"  {example.name}: round {number + 1}, {name}")
            timings[name].append(
                time_program(programs[name], example.arguments, example.lines, empty)
            )
    return timings


def raw_of(timings: Mapping[str, Sequence[Timing]], warm: int) -> dict[str, Any]:
    """What each contestant made a second, run by run, and every mark."""
    return {
        "samples_per_second": {
            name: [run.rate(warm) for run in runs] for name, runs in timings.items()
        },
        "runs": {name: [asdict(run) for run in runs] for name, runs in timings.items()},
    }


def _is_precise(timings: Mapping[str, Sequence[Timing]], warm: int) -> bool:
    """Whether the gain's interval is narrow enough; so it is where nothing was handed back."""
    if TUNED not in timings:
        return True
    tuned, original = ([run.rate(warm) for run in timings[name]] for name in (TUNED, ORIGINAL))
    low, high = Gain.of(tuned, original).interval or (0.0, math.inf)
    return high <= low * (1 + PRECISE) ** 2


def compare(
    example: Example,
    claim: Claim,
    answer: rival.Answer | None,
    timings: Mapping[str, Sequence[Timing]],
) -> dict[str, Any]:
    """The stopwatch's figures, and what they say of the claim, where a gain is claimed, and of the
    rival.

    Who hands nothing back, or recommends nothing, is timed as the original.
    """
    warm = example.lines.warm_samples
    rates = {name: [run.rate(warm) for run in runs] for name, runs in timings.items()}
    walls = {name: [1 / run.wall_seconds for run in runs] for name, runs in timings.items()}
    tuned = TUNED if TUNED in rates else ORIGINAL
    gain = Gain.of(rates[tuned], rates[ORIGINAL])
    off = claim.speedup / gain.estimate - 1
    facts: dict[str, Any] = {
        **raw_of(timings, warm),
        "speedup": asdict(gain),
        "wall_speedup": asdict(Gain.of(walls[tuned], walls[ORIGINAL])),
        "claim_off_by": off,
        "claim_holds": abs(off) <= AGREEMENT if claim.outcome == "faster" else None,
        # Of training, by the program as it is: then the search was worth its cost.
        "pays_after_seconds": claim.cost_seconds / (1 - 1 / gain.estimate)
        if gain.estimate > 1
        else None,
        "other_cores": max(run.other_cores for runs in timings.values() for run in runs),
        "stolen_cores": max(run.stolen_cores for runs in timings.values() for run in runs),
    }
    if answer:
        other = RIVAL if RIVAL in rates else ORIGINAL
        its_gain = Gain.of(rates[other], rates[ORIGINAL])
        facts["loadtune_speedup"] = asdict(its_gain)
        facts["loadtune_wall_speedup"] = asdict(Gain.of(walls[other], walls[ORIGINAL]))
        facts["autotune_over_loadtune"] = asdict(Gain.of(rates[tuned], rates[other]))
    return facts


def summary(examples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Over all examples: how many claims hold, and autotune's speed over loadtune's."""
    timed = {name: facts for name, facts in examples.items() if "failed" not in facts}
    ratios = [
        facts["autotune_over_loadtune"]["estimate"]
        for facts in timed.values()
        if "autotune_over_loadtune" in facts
    ]
    claims = [facts["claim_holds"] for facts in timed.values()]
    return {
        "claims_that_hold": claims.count(True),
        "claims": len(claims) - claims.count(None),
        "autotune_over_loadtune": math.exp(sum(map(math.log, ratios)) / len(ratios))
        if ratios
        else None,
        "slower_than_loadtune": [
            name
            for name, facts in timed.items()
            if (facts.get("autotune_over_loadtune", {}).get("interval") or [0, 1])[1] < 1
        ],
    }


def _describe(name: str, facts: Mapping[str, Any]) -> None:
    if "failed" in facts:
        print(f"{name}: failed: {facts['failed']}", flush=True)
        return
    claim, gain = facts["claim"], Gain(**facts["speedup"])
    paid = facts["pays_after_seconds"]
    pays = f", worth it after {paid / 60:.0f} min of training" if paid else ""
    print(f"{name}: {claim['outcome']}. {claim['reason']}")
    if claim["outcome"] == "faster":
        print(f"  autotune  claims {claim['speedup']:.2f}x; stopwatch {gain}: off by", end=" ")
        print(f"{facts['claim_off_by']:+.1%}; whole runs {Gain(**facts['wall_speedup'])}")
    print(f"            the search took {claim['cost_seconds']:.0f} s{pays}")
    other = facts["loadtune"]
    if other:
        settings = other["settings"] or "recommends nothing"
        print(f"  loadtune  {settings}: stopwatch {Gain(**facts['loadtune_speedup'])}", end=" ")
        print(f"in {other['seconds']:.0f} s; of the program as it stands: {other['unmodified']}")
        print(f"  autotune over loadtune: {Gain(**facts['autotune_over_loadtune'])}", flush=True)
    if facts["other_cores"] + facts["stolen_cores"] > QUIET_CORES:
        busy = f"other programs used up to {facts['other_cores']:.1f} cores during a run, and the "
        busy += f"host took up to {facts['stolen_cores']:.1f}"
        print(f"  Not a quiet machine: {busy}; run it again before you quote it.", flush=True)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _install(work: Path) -> Path | None:
    try:
        return rival.install(work / "loadtune-venv")
    except (subprocess.CalledProcessError, OSError) as error:
        _say(f"{rival.PACKAGE} could not be installed, and is left out: {error}")
        _say(str(getattr(error, "stderr", "") or ""))
        return None


def _arguments() -> argparse.Namespace:
    names = [example.name for example in EXAMPLES]
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=5, help="runs of each contestant, at least")
    parser.add_argument("--budget", default="5m", help="of each search")
    parser.add_argument("--no-loadtune", action="store_true", help="time autotune's alone")
    parser.add_argument("--out", type=Path, help="write the document here, with all raw data")
    arguments = parser.parse_args()
    if unknown := set(arguments.examples) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(names)}")
    if not all(map(find_spec, NEEDED)):
        parser.error("the examples need more packages: pip install -e .[examples]")
    return arguments


def main() -> None:
    """Print what the stopwatch says of each example; `--out` keeps every mark."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no run is left behind
    machine = detect()
    document: dict[str, Any] = {
        "device": machine.device_name,
        "cores": machine.cores,
        "versions": dict(machine.versions),
        "budget": arguments.budget,
        "examples": {},
    }
    try:
        with tempfile.TemporaryDirectory(prefix="delivered-") as folder:
            _contests(arguments, Path(folder), document)
    except KeyboardInterrupt:
        _say("Interrupted; what was finished is kept.")
    print(json.dumps(document.get("summary")))


def _contests(arguments: argparse.Namespace, folder: Path, document: dict[str, Any]) -> None:
    """Add each example to `document`, and keep it; one that fails does not end the others."""
    loadtune = None if arguments.no_loadtune else _install(folder)
    for example in EXAMPLES:
        if arguments.examples and example.name not in arguments.examples:
            continue
        work = folder / example.name
        work.mkdir()
        rounds, budget = arguments.rounds, arguments.budget
        try:
            facts = contest(example, work, rounds=rounds, budget=budget, loadtune=loadtune)
        except (RuntimeError, ValueError, subprocess.CalledProcessError) as error:
            facts = {"failed": str(error)}
        document["examples"][example.name] = facts
        document["summary"] = summary(document["examples"])
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(document) + "\n")
        _describe(example.name, facts)


if __name__ == "__main__":
    main()
