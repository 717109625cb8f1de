"""`unified_patch`: what it makes, `git apply` and `patch` take, byte for byte."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.errors import PatchError
from autotune.source import parse_patch, unified_patch

CASES = {
    "a changed line": ("a\nb\nc\n", "a\nB\nc\n"),
    "no line end before": ("a\nb", "a\nb\n"),
    "no line end after": ("a\nb\n", "a\nb\nc"),
    "no line end in both": ("a\nb", "x\nb"),
    "carriage returns": ("a\r\nb\r\n", "a\r\nB\r\nc\r\n"),
    "one carriage return inside": ("a\rb\nc\n", "a\rb\nd\n"),
    "a form feed": ("a\n\x0cb\n", "a\n\x0cc\n"),
    "from nothing": ("", "a\n"),
    "letters beyond ASCII": ("größe = 1\n", "größe = 2\n"),
    "two places": (
        "".join(f"{i}\n" for i in range(30)),
        "x\n" + "".join(f"{i}\n" for i in range(29)),
    ),
}
TOOLS = {
    "git": ["git", "apply", "--whitespace=nowarn", "tuned.patch"],
    "patch": ["patch", "-p1", "--no-backup-if-mismatch", "-s", "-i", "tuned.patch"],
}


def _applied(folder: Path, tool: str, before: dict[str, str], after: dict[str, str]) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    for name, text in before.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    old = {str(folder / name): text for name, text in before.items()}
    new = {str(folder / name): text for name, text in after.items()}
    (folder / "tuned.patch").write_bytes(unified_patch(old, new, str(folder)).encode())
    subprocess.run(TOOLS[tool], cwd=folder, check=True, capture_output=True)
    for name, text in after.items():
        assert (folder / name).read_bytes() == text.encode()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_the_patch_gives_the_new_text(tmp_path: Path, tool: str, before: str, after: str) -> None:
    _applied(tmp_path, tool, {"src/train.py": before}, {"src/train.py": after})


@pytest.mark.parametrize("tool", TOOLS)
def test_several_files_a_new_one_and_names_with_spaces(tmp_path: Path, tool: str) -> None:
    _applied(
        tmp_path,
        tool,
        {"my train.py": "a\n", "same.py": "s\n", "lib/data.py": "d\n"},
        {"my train.py": "b\n", "same.py": "s\n", "lib/data.py": "e\n", "new/tuned.py": "n\nm"},
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_names_that_would_end_their_line(tmp_path: Path, tool: str) -> None:
    names = ["a\nline.py", 'a\ttab \x01 "quoted".py', "back\\slash é.py", '"all".py']
    before, after = dict.fromkeys(names, "a\n"), dict.fromkeys(names, "b\n")

    _applied(tmp_path, tool, before, after)

    text = (tmp_path / "tuned.patch").read_text()
    assert [(each.before, each.after) for each in parse_patch(text)] == [(n, n) for n in names]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["a\n", "b\r\n", "\n", "c\n"]), max_size=9),
    st.lists(st.sampled_from(["a\n", "b\r\n", "\n", "d"]), min_size=1, max_size=9),
)
def test_any_two_texts(tmp_path: Path, before: list[str], after: list[str]) -> None:
    if before != after:
        _applied(tmp_path, "git", {"a.py": "".join(before)}, {"a.py": "".join(after)})


def test_a_line_is_found_again_where_the_patch_has_moved_it() -> None:
    old = [f"line {number} of all\n" for number in range(40)]
    new = [*old[:2], "import more\n", *old[2:12], *old[13:30], "more()\n", "line 30 of it\n"]
    new += old[31:]
    text = unified_patch({"/p/a.py": "".join(old)}, {"/p/a.py": "".join(new)}, "/p")
    [patch] = parse_patch(text)
    found = [new[patch.new_line(number)] for number in range(40)]
    assert found[:12] + found[13:30] + found[31:] == old[:12] + old[13:30] + old[31:]
    assert found[30] == "line 30 of it\n"


def test_equal_sources_make_no_patch() -> None:
    assert unified_patch({"/p/a.py": "a"}, {"/p/a.py": "a"}, "/p") == ""


def test_a_file_outside_the_root_is_refused() -> None:
    with pytest.raises(PatchError, match="outside"):
        unified_patch({"/p/a.py": "a"}, {"/p/a.py": "b"}, "/q")
