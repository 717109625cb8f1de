"""A lot of programs is searched from a list, and what came of it written down."""

import json
import sys
from pathlib import Path

import pytest

from tests.bench.lot import (
    CHANGED,
    DELIVERED,
    PUBLIC,
    TRAPPED,
    Listed,
    append,
    changed,
    delivered,
    hashes,
    listed,
    row,
    taken,
)

PHOTOS = Path(__file__).parents[2] / "reports/photos/result.json"


def test_a_list_has_scripts_and_modules_with_their_arguments(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text(
        "pots\t/data/pots\ttrain.py --lr 0.1\n"
        "gpt\t/data/gpt\t-m gpt.train 'a b'\towner/gpt@0123456789\n"
    )
    pots, gpt = listed(path)
    assert (pots.target, pots.arguments, pots.repository) == (["train.py"], ["--lr", "0.1"], "")
    assert (gpt.target, gpt.arguments) == (["-m", "gpt.train"], ["a b"])
    assert gpt.repository == "owner/gpt@0123456789"


def test_a_line_without_a_command_says_which(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("pots\t/data/pots\ttrain.py\ngpt\t/data/gpt\n")
    with pytest.raises(ValueError, match=r"list.tsv:2"):
        listed(path)


def test_files_that_are_not_as_they_were_are_told(tmp_path: Path) -> None:
    for name in ("kept", "written", "gone"):
        (tmp_path / name).write_text(name)
    before = hashes(tmp_path)
    (tmp_path / "written").write_text("otherwise")
    (tmp_path / "gone").unlink()
    (tmp_path / "more").mkdir()
    found = {path: what for _, path, what in changed("pots", before, hashes(tmp_path))}
    assert found == {"written": "changed", "gone": "removed", "more": "added"}


def test_rows_are_those_of_the_reports() -> None:
    result = json.loads(PHOTOS.read_text())
    script = Listed("photos", Path("/x"), ("photos.py",))
    public = Listed("photos", Path("/x"), ("photos.py", "--n", "3"), "owner/photos@0123456789")
    assert len(row(script, result, 84.5)) == len(TRAPPED)
    told = dict(zip(PUBLIC, row(public, result, 84.5), strict=True))
    assert told["repository@commit"] == "owner/photos@0123456"
    assert told["arguments"] == "photos.py --n 3"
    gain = f"{result['verdict']['speedup']['estimate']:.4g}"
    assert (told["outcome"], told["estimate"], told["search_seconds"]) == ("faster", gain, "84.5")
    back = dict(zip(DELIVERED, delivered(script, result), strict=True))
    assert back["handed_back"] == gain
    assert "precision=bf16" in back["settings"]
    assert back["not_in_the_patch"] == ""


def test_a_program_that_cannot_be_searched_has_a_row_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "train.py").write_text("raise SystemExit(3)\n")
    out = tmp_path / "out"
    out.mkdir()
    taken(Listed("pots", program, ("train.py",)), out, "20s", sys.executable)
    lines = (out / "scripts_with_traps.tsv").read_text().splitlines()
    assert lines[0].split("\t") == list(TRAPPED)
    assert lines[1].split("\t")[3] == "failed"
    assert (out / "pots.txt").read_text()
    assert (out / "changed.tsv").read_text().splitlines() == ["\t".join(CHANGED)]


def test_a_table_begins_with_its_columns_once(tmp_path: Path) -> None:
    for number in ("1", "2"):
        append(tmp_path / "table.tsv", ("a", "b"), (number, "x"))
    assert (tmp_path / "table.tsv").read_text() == "a\tb\n1\tx\n2\tx\n"
