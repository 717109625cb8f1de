"""Any sequence of file operations ends, in a sandbox, as it ends outside of one."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.measurement.programs import contents
from tests.measurement.sandboxed import VARIANTS, Arena, arena, in_child
from tests.trees import tree_hash

NAMES = ("a", "b", "folder", "folder/a", "folder/b", "folder/inner", "link", "link/a")
Operation = tuple[str, str, str]

ACTIONS = (
    *("write", "append", "update", "create", "truncate", "chmod", "read", "exists"),
    *("mkdir", "rmdir", "rmtree", "list", "scan", "chdir"),
    *("remove", "rename", "replace", "symlink", "link"),
)
operations = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=8
)


@pytest.fixture(scope="module", params=["overlay", "overlay of an ordinary user", "redirect"])
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    assert request.param in VARIANTS
    with arena(request.param) as built:
        (built.project / "a").write_text("a")
        (built.project / "folder").mkdir()
        (built.project / "folder" / "a").write_text("folder/a")
        (built.project / "link").symlink_to("folder")
        yield built


@settings(suppress_health_check=list(HealthCheck))
@given(steps=operations)
def test_operations_do_what_they_do_unprotected(place: Arena, steps: list[Operation]) -> None:
    project = place.project
    twin = project.parent / "twin"
    shutil.rmtree(twin, ignore_errors=True)
    shutil.copytree(project, twin, symlinks=True)
    before = tree_hash([project])
    expected = in_child(lambda: (outcomes(twin, steps), contents(twin)))
    assert place.run(lambda: (outcomes(project, steps), contents(project))) == expected
    assert tree_hash([project]) == before


def outcomes(project: Path, steps: list[Operation]) -> list[object]:
    """What each step returns, or its error, which names no file."""
    os.chdir(project)
    found: list[object] = []
    for step in steps:
        try:
            found.append(_do(project, *step))
        except OSError as error:
            number = error.errno
            if step[0] in {"rename", "replace", "link"} and number == errno.ENOTDIR:
                number = errno.ENOENT  # of two bad paths, either may be named first
            found.append(number)
    os.chdir(project)
    return found


def _do(project: Path, action: str, name: str, other: str) -> object:
    path, target = project / name, project / other
    actions = {
        "write": lambda: path.write_text("written"),
        "append": lambda: _write(path, "a"),
        "update": lambda: _write(path, "r+"),
        "create": lambda: _write(path, "x"),
        "mkdir": path.mkdir,
        "remove": path.unlink,
        "rmdir": path.rmdir,
        "rmtree": lambda: shutil.rmtree(path),
        "rename": lambda: path.rename(target) and None,
        "replace": lambda: path.replace(target) and None,
        "symlink": lambda: path.symlink_to(other),
        "link": lambda: path.hardlink_to(target),
        "chmod": lambda: path.chmod(0o751),
        "truncate": lambda: os.truncate(path, 1),
        "read": path.read_text,
        "list": lambda: sorted(found.name for found in path.iterdir()),
        "scan": lambda: sorted((e.name, e.is_dir(follow_symlinks=False)) for e in os.scandir(name)),
        "exists": lambda: (path.exists(), path.is_dir(), os.access(name, os.R_OK)),
        "chdir": lambda: os.chdir(name),
    }
    return actions[action]()


def _write(path: Path, mode: str) -> None:
    with path.open(mode) as file:
        file.write("+")
