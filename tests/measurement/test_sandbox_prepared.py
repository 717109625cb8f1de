"""What the observed run wrote before its first step is there for later runs, as it was then."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.measurement.sandbox import Layer, Sandbox, prepared
from autotune.measurement.sandbox.view import View
from tests.measurement.programs import contents, furnish
from tests.measurement.sandboxed import VARIANTS, Arena, arena
from tests.trees import tree_hash


@pytest.fixture(params=list(VARIANTS))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with arena(request.param) as built:
        furnish(built.project)
        yield built


def observe(place: Arena, prepare: Callable[[], object], then: Callable[[], object]) -> Layer:
    """Run `prepare`, have it kept while the run waits, and run `then` in the same run."""
    ready, go = os.pipe(), os.pipe()

    def program() -> None:
        prepare()
        os.write(ready[1], b"!")
        os.read(go[0], 1)
        then()

    layer = place.layer()
    with place.started(program, layer) as (_, receive):
        assert os.read(ready[0], 1) == b"!"
        assert place.sandbox.keep_prepared(layer)
        os.write(go[1], b"!")
        receive()
    for end in ready + go:
        os.close(end)
    return layer


def test_caches_are_there_as_they_were_at_the_first_step(place: Arena) -> None:
    project = place.project
    before = tree_hash([project])

    def prepare() -> None:
        (project / "cache").mkdir()
        (project / "cache" / "images.bin").write_text("converted")
        (project / "notes.txt").write_text("prepared")
        (project / "model.pt").unlink()
        shutil.rmtree(project / "data")
        (project / "data").mkdir()
        (project / "data" / "fresh").write_text("fresh")
        (project / "old").rename(project / "renamed")

    def train() -> None:
        with (project / "cache" / "images.bin").open("r+") as file:
            file.write("CONVERTED in place")
        (project / "checkpoint").write_text("step 1")

    observed = observe(place, prepare, train)
    place.sandbox.discard(observed)
    found = place.run(lambda: contents(project))
    texts = {name: bytes.fromhex(text.split()[1]) for name, text in found.items() if _is_file(text)}
    assert texts.pop("table.npy")
    assert texts.pop("runs.db")
    assert texts == {
        "cache/images.bin": b"converted",
        "notes.txt": b"prepared",
        "data/fresh": b"fresh",
        "renamed/one": b"1",
    }
    assert not {"old", "data/raw"} & found.keys()
    assert tree_hash([project]) == before


def _is_file(text: str) -> bool:
    return text.startswith("100")


def test_a_run_above_the_prepared_layer_changes_neither_it_nor_the_files(place: Arena) -> None:
    project = place.project
    before = tree_hash([project])
    observe(place, lambda: (project / "cache").write_text("prepared"), lambda: None)

    def use() -> tuple[bool, str]:
        with (project / "cache").open("a") as file:
            file.write(" and used")
        read_back = (project / "cache").read_text()
        (project / "cache").unlink()
        return (project / "cache").exists(), read_back

    assert place.run(use) == (False, "prepared and used")
    assert place.run(use) == (False, "prepared and used")
    assert tree_hash([project]) == before


def test_an_empty_directory_is_not_kept_so_that_it_can_be_made_again(place: Arena) -> None:
    make = (place.project / "run-1").mkdir
    observe(place, make, lambda: None)
    place.run(make)


@pytest.mark.parametrize(
    ("write", "differs"), [("", False), ("run-1", False), ("cache.txt", True), ("gone", True)]
)
def test_reads_are_led_nowhere_where_nothing_was_prepared(write: str, differs: bool) -> None:
    with arena("redirect") as place:
        furnish(place.project)

        def prepare() -> None:
            if write == "run-1":
                (place.project / write).mkdir()
            elif write == "gone":
                (place.project / "notes.txt").unlink()
            elif write:
                (place.project / write).write_text("x")

        observe(place, prepare, lambda: None)
        layer = place.layer()
        for name in ("upper", "hidden"):
            (layer.root / name).mkdir()
        assert View(layer).differs is differs


def test_a_forgotten_layer_is_not_seen_again(place: Arena) -> None:
    observe(place, lambda: (place.project / "cache").write_text("x"), lambda: None)
    place.sandbox.forget_prepared()
    assert not place.run((place.project / "cache").exists)


def test_only_the_first_run_prepares(place: Arena) -> None:
    first = observe(place, lambda: None, lambda: None)
    assert not place.sandbox.keep_prepared(first)
    assert not place.sandbox.keep_prepared(place.layer())


def test_a_run_that_is_gone_prepares_nothing(tmp_path: Path) -> None:
    with Sandbox([], scratch_parent=tmp_path) as sandbox:
        assert not sandbox.keep_prepared(sandbox.layer())


def test_a_layer_that_would_fill_the_disk_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared, "FREE_SPACE_SHARE", 0.0)
    with arena("redirect") as place:
        layer = place.layer()
        place.run(lambda: (place.project / "cache").write_text("x"), layer)
        assert not place.sandbox.keep_prepared(layer)
        assert not list(place.sandbox.scratch.glob("prepared-*"))
