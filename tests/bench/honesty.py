"""Is a difference claimed where there is none, and found where there is one? Live programs, judged
as `search` judges them.

    python -m tests.bench.honesty [--comparisons 100] [--out reports/bench/honesty.jsonl]

Two contestants are programs that differ by a planted amount of work: none (A/A), 10 %, 20 %, in
either direction; and none while a neighbour burns a core half of the time. A whole search of a
program that is good already must find nothing to gain. What the plan of turns promises in theory is
in `tests.bench.simulation`.

One of two contestants is always stopped, so a comparison of programs of one thread needs one core:
each core makes comparisons of its own ("lanes"), but for the neighbour's and the search, which have
the machine to themselves. Each comparison is a line of `--out`, with every turn; the same command
goes on where it stopped, Ctrl-C or not, and `--tally` says what there is.
"""

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

from autotune.flow import Options, search
from autotune.machine import usable_cores
from autotune.measurement.interleaved.turns import take_turns
from autotune.measurement.ratios import LOOKS
from autotune.measurement.workbench import Workbench
from autotune.profiling.probes import bf16_speedup
from autotune.verdict import BASELINE, TUNED, Verdict, decide, is_decided
from autotune.workload.program.target import load_target
from tests.bench.stopwatch import stolen_seconds

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
WARM_SECONDS = 2.4  # what a budget of a minute gives
# A search's turns take 0.4 s. These scatter more, so what is found here is found there; 100
# comparisons of identical programs take about half an hour on two quiet cores.
TURN_SECONDS = 0.2
BURN_SECONDS = 0.05

GOOD = "already good program"
FUSED = ("lr=args.learning_rate)", "lr=args.learning_rate, fused=True)")
IN_BF16 = (
    "        logits = model(tokens)\n",
    (
        "        with torch.autocast('cpu', torch.bfloat16):\n"
        "            logits = model(tokens)\n"
        "        logits = logits.float()\n"
    ),
)
UNMEASURED = "not measured"

# A step is this many units of work and little else: 3 to 7 ms. All else is about a twentieth of it,
# so 53 more units make it 10 % longer; the mean estimate of a case says by how much it was. Work of
# all threads is what a neighbour slows down many times over.
UNITS, UNITS_10_LONGER, UNITS_20_LONGER = 500, 553, 606
WORK, WORK_OF_ALL_THREADS = "torch.sort(x[unit % 32])", "torch.mm(wide, wide)"
UNITS_OF_ALL_THREADS = 6
PROGRAM = """\
import torch
from torch import nn

UNITS = 500
wide = torch.randn(256, 256)
inputs = torch.randn(4096, 64)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    for x in inputs.split(32):
        for unit in range(UNITS):
            torch.sort(x[unit % 32])
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is compared, and what should be said of it.

    Attributes:
        name: of the case.
        units: of `work` in a step of the program as it is, and `tuned_units` in the other's.
        right: the claims that are right.
        bar: the share of comparisons in which it must be made.
        share: of the comparisons asked for, how many are made.
        alone: whether it needs the machine to itself, and `neighbour`, whether it has one.
    """

    name: str
    units: int = UNITS
    tuned_units: int = UNITS
    work: str = WORK
    right: tuple[str, ...] = ("nothing",)
    bar: float = 0.95
    share: float = 1.0
    neighbour: bool = False
    alone: bool = False


CASES = (
    Case(name="A/A"),
    Case(name="10 % faster", units=UNITS_10_LONGER, right=("faster",), bar=0.80, share=0.25),
    Case(name="10 % slower", tuned_units=UNITS_10_LONGER, right=("slower",), bar=0.80, share=0.25),
    Case(name="20 % faster", units=UNITS_20_LONGER, right=("faster",), bar=0.99, share=0.25),
    Case(name="20 % slower", tuned_units=UNITS_20_LONGER, right=("slower",), bar=0.99, share=0.25),
    Case(
        name="A/A, half a core taken",
        units=UNITS_OF_ALL_THREADS,
        tuned_units=UNITS_OF_ALL_THREADS,
        work=WORK_OF_ALL_THREADS,
        right=("nothing", "slower", UNMEASURED),
        bar=1.0,
        share=0.2,
        neighbour=True,
        alone=True,
    ),
    Case(name=GOOD, bar=1.0, share=0.03, alone=True),
)


def compare(bench: Workbench, path: Path, case: Case, cores: int) -> Verdict:
    """One comparison, as the last stage of a search makes it."""
    before, after = (
        PROGRAM.replace(f"UNITS = {UNITS}", f"UNITS = {units}").replace(WORK, case.work)
        for units in (case.units, case.tuned_units)
    )
    turns = take_turns(
        {
            BASELINE: lambda: bench.start(sources={str(path): before}),
            TUNED: lambda: bench.start(sources={str(path): after}),
        },
        rounds=LOOKS[-1],
        deadline=math.inf,
        turn_seconds=TURN_SECONDS,
        warm_seconds=WARM_SECONDS,
        after_round=lambda taken: is_decided(taken, cores=cores),
    )
    return decide(turns, {"threads": 1}, cores=cores, unobserved=lambda _: ())


def searched(folder: Path) -> Verdict:
    """What a search of a minute says of a program that is good already: one with a fused optimizer,
    and in bf16 where this machine is faster in it.
    """
    text = (EXAMPLES_FOLDER / "language_model.py").read_text()
    changes = (FUSED, IN_BF16) if bf16_speedup() > 1 else (FUSED,)
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    program = folder / "language_model.py"
    program.write_text(text)
    result = search(program, ("--steps", "1000000"), options=Options(budget_seconds=60.0))
    assert result.verdict is not None
    return result.verdict


def claim(verdict: Verdict) -> str:
    """What a user would be told: "faster", "slower", "nothing", or that nothing was measured."""
    if verdict.outcome == "failed":
        return UNMEASURED
    if verdict.speedup is not None and verdict.speedup.high < 1:
        return "slower"
    return "faster" if verdict.outcome == "faster" else "nothing"


def _burn() -> None:
    while True:
        ends = time.perf_counter() + BURN_SECONDS
        while time.perf_counter() < ends:
            pass
        time.sleep(BURN_SECONDS)


@contextmanager
def _neighbour() -> Iterator[None]:
    process = get_context("spawn").Process(target=_burn, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def work_through(cases: Iterable[Case], out: Path, core: int | None) -> None:
    """Make a comparison of each of `cases`, on one `core` alone or on all, and append it to
    `out`.
    """
    if core is not None:
        os.sched_setaffinity(0, {core})
    cores = usable_cores()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(PROGRAM)
        with Workbench(load_target(path)) as bench:
            for case in cases:
                began, stolen = time.monotonic(), stolen_seconds()
                if case.name == GOOD:
                    verdict = searched(Path(folder))
                else:
                    with _neighbour() if case.neighbour else nullcontext():
                        verdict = compare(bench, path, case, cores)
                seconds = time.monotonic() - began
                taken = (stolen_seconds() - stolen) / seconds
                _append(out, _line(case, verdict, cores, seconds, taken))


def _line(
    case: Case, verdict: Verdict, cores: int, seconds: float, stolen_cores: float
) -> dict[str, Any]:
    return {
        "case": case.name,
        "claim": claim(verdict),
        "reason": verdict.reason,
        "speedup": asdict(verdict.speedup) if verdict.speedup else None,
        "cores": cores,
        "seconds": round(seconds, 1),
        "stolen_cores": round(stolen_cores, 3),
        "load_average": os.getloadavg()[0],
        "rounds": verdict.rounds,
        "left_out": verdict.left_out,
        "turns": verdict.turns,
    }


def _append(out: Path, line: Mapping[str, Any]) -> None:
    """In one write, so that lanes do not cut into each other's lines."""
    handle = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(handle)
    print(f"{line['case']:24} {line['claim']:13} in {line['seconds']:.0f} s", file=sys.stderr)


def _lane(queue: "SimpleQueue[Case | None]", out: Path, core: int | None) -> None:
    with suppress(KeyboardInterrupt):  # what was in hand is made again by the same command
        work_through(iter(queue.get, None), out, core)


def in_lanes(cases: Sequence[Case], out: Path, cores: Sequence[int | None]) -> None:
    """Have `cases` worked through by a process for each of `cores`."""
    context = get_context("spawn")
    queue: SimpleQueue[Case | None] = context.SimpleQueue()
    lanes = [context.Process(target=_lane, args=(queue, out, core)) for core in cores]
    for lane in lanes:
        lane.start()
    try:
        for case in (*cases, *(None for _ in lanes)):
            queue.put(case)
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        for lane in lanes:
            if lane.pid and lane.is_alive():
                os.kill(lane.pid, signal.SIGINT)
        for lane in lanes:
            lane.join()
        raise


def made(out: Path) -> list[dict[str, Any]]:
    """The comparisons in `out` so far; a line that was cut off is none."""
    lines = out.read_text().splitlines() if out.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen `count` times in `of` (Wilson, JASA 22, 1927)."""
    z = 1.96
    middle, spread = count + z * z / 2, z * math.sqrt(count * (of - count) / of + z * z / 4)
    return (middle - spread) / (of + z * z), (middle + spread) / (of + z * z)


def tally(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By case: the claims, the share of right ones with its interval, and the mean estimate.

    A comparison that a busy machine spoilt says nothing of the others and is left out, but where
    that was the right answer; with more of them than others nothing is said of the bar.
    """
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        mine = [line for line in lines if line["case"] == case.name]
        if not mine:
            continue
        claims = [line["claim"] for line in mine]
        counted = [each for each in claims if each in case.right or each != UNMEASURED]
        right = sum(each in case.right for each in counted)
        share = right / len(counted) if counted else None
        told = 2 * len(counted) > len(mine)
        logs = [math.log(line["speedup"]["estimate"]) for line in mine if line["speedup"]]
        found[case.name] = {
            "comparisons": len(mine),
            "claims": {name: claims.count(name) for name in sorted(set(claims))},
            "counted": len(counted),
            "right": share,
            "right_interval": wilson(right, len(counted)) if counted else None,
            "bar": case.bar,
            "meets_bar": share >= case.bar if share is not None and told else None,
            "mean_estimate": math.exp(sum(logs) / len(logs)) if logs else None,
            "mean_seconds": sum(line["seconds"] for line in mine) / len(mine),
        }
    return found


def _show(found: Mapping[str, Mapping[str, Any]]) -> None:
    for name, facts in found.items():
        print(f"{name:22} {facts['claims']}, {facts['mean_seconds']:.0f} s each")
        if facts["right"] is None:
            continue
        low, high = facts["right_interval"]
        words = {True: "met", False: "NOT met", None: "machine too busy to say"}
        estimate = facts["mean_estimate"]
        print(
            f"{'':22} right in {facts['right']:.1%} of {facts['counted']} "
            f"({low:.1%} to {high:.1%}); "
            f"bar {facts['bar']:.0%}: {words[facts['meets_bar']]}"
            + (f"; mean estimate {estimate:.3f}x" if estimate else "")
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--comparisons", type=int, default=100, help="of A/A; fewer of the others")
    parser.add_argument("--case", action="append", help="only this case; repeatable")
    parser.add_argument("--lanes", type=int, help="processes that compare; default: one a core")
    parser.add_argument("--out", type=Path, default=Path("honesty.jsonl"))
    parser.add_argument("--tally", action="store_true", help="only say what there is")
    arguments = parser.parse_args()
    names = [case.name for case in CASES]
    if unknown := set(arguments.case or ()) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(names)}")
    return arguments


def main() -> None:
    """Compare, append each comparison to `--out`, and print how often the right claim was made."""
    arguments = _arguments()
    out: Path = arguments.out
    if not arguments.tally:
        out.parent.mkdir(parents=True, exist_ok=True)
        there = [line["case"] for line in made(out)]
        wanted = [
            case
            for case in CASES
            if not arguments.case or case.name in arguments.case
            for _ in range(math.ceil(case.share * arguments.comparisons) - there.count(case.name))
        ]
        own = sorted(os.sched_getaffinity(0))[: arguments.lanes]
        try:
            in_lanes([case for case in wanted if not case.alone], out, own)
            in_lanes([case for case in wanted if case.alone], out, [None])
        except KeyboardInterrupt:
            print("Interrupted; the same command goes on.", file=sys.stderr)
    _show(tally(made(out)))


if __name__ == "__main__":
    main()
