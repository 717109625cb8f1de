"""The options that a program is run with, as they are seen."""

from pathlib import Path

from autotune.outputs.plain import build, plain
from autotune.workload.conversation import Tell
from autotune.workload.seen import Seen
from tests.workload.programs import PLAIN, run, seen_of, steps

_PARSES = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--mixup", action="store_true")
parser.add_argument("--rate", type=float, default=0.5)
parser.add_argument("--kind", choices=["a", "b"], default="b")
parser.add_argument("--token", default="".join(["q7x", "k9z"]))
parser.add_argument("--data", default="cifar")
parser.add_argument("--sizes", nargs="+", type=int, default=[1, 2])
args = parser.parse_args([])
other = argparse.ArgumentParser()
other.add_argument("--rate", type=float, default=0.1)
known, rest = other.parse_known_args([])
args.cuda = False
print(args.data == "cifar")
"""
    + PLAIN
)


def test_options_are_seen_as_they_are_when_it_trains_but_for_texts_it_does_not_have(
    tmp_path: Path,
) -> None:
    seen = seen_of(run(_PARSES, steps(3), Tell(), folder=tmp_path))
    assert seen.options == (*(("cuda", False), ("data", "cifar"), ("kind", "b"), ("mixup", False)),)
    assert build(Seen, plain(seen), "seen") == seen
    assert not seen_of(run(PLAIN, steps(3), Tell(), folder=tmp_path)).options
