import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import PatchError, UsageError
from autotune.outputs import apply
from autotune.outputs.apply import apply_patch, is_applied
from autotune.outputs.document import write_document
from autotune.outputs.patch import Emission, write_patch
from autotune.outputs.writing import write_draft
from autotune.source import unified_patch
from autotune.workload.program.target import RECIPE, SCRIPT, Target
from tests import builders

BEFORE = "import torch\n\n\nloader = DataLoader(photos)\n\nfor batch in loader:\n    train(batch)\n"
AFTER = BEFORE.replace("(photos)", "(photos, num_workers=4)").replace(
    "import torch\n", "import torch\n\ntorch.set_num_threads(1)\n"
)


def searched(
    project: Path,
    changes: Mapping[str, tuple[str | None, str]],
    *,
    kind: str = SCRIPT,
    module: str = "",
) -> Path:
    """Outputs in `project` whose patch makes `changes`: before and after, by file name."""
    project.mkdir(exist_ok=True)
    main = project / next(iter(changes))
    for name, (before, _) in changes.items():
        if before is not None:
            (project / name).parent.mkdir(exist_ok=True)
            (project / name).write_bytes(before.encode())
    if kind == RECIPE:
        main = project / "recipe.py"
        main.write_text("def build_model(): ...\n")
    before = {str(project / name): text for name, (text, _) in changes.items() if text is not None}
    after = {str(project / name): text for name, (_, text) in changes.items()}
    target = Target(kind=kind, path=str(main), source=main.read_bytes().decode())
    hashed = target.source_sha256
    facts = builders.target(
        kind=kind,
        path=str(main),
        source_sha256=hashed,
        module=module,
        root=str(project),
        files={
            path: hashlib.sha256(text.encode()).hexdigest()
            for path, text in before.items()
            if path != str(main)
        },
    )
    out = project / "out"
    write_document(builders.search_result(target=facts), out / "result.json")
    (out / "tuned.patch").write_bytes(unified_patch(before, after, str(project)).encode())
    return out


def test_the_source_becomes_the_tuned_one_and_back(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"

    applied = apply_patch(out)
    assert applied.files == (script,)
    assert script.read_text() == AFTER

    taken_back = apply_patch(out, reverse=True)
    assert taken_back.files == (script,)
    assert script.read_text() == BEFORE


def test_a_name_that_would_end_its_line_is_found(tmp_path: Path) -> None:
    name = 'my\n"best".py'
    out = searched(tmp_path / "project", {name: (BEFORE, AFTER)})

    apply_patch(out)
    assert (tmp_path / "project" / name).read_text() == AFTER

    apply_patch(out, reverse=True)
    assert (tmp_path / "project" / name).read_text() == BEFORE


def test_a_project_that_is_put_under_version_control_stays_the_same(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    (tmp_path / ".git").mkdir()

    apply_patch(out)

    assert (tmp_path / "project" / "train.py").read_text() == AFTER
    assert is_applied(out)


def test_applying_twice_is_applying_once(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    apply_patch(out)

    assert apply_patch(out).files == ()
    assert (tmp_path / "project" / "train.py").read_text() == AFTER


@pytest.mark.parametrize("more", ["# a remark\n", "\n", " "])
def test_a_source_that_has_changed_since_is_refused_and_left_alone(
    tmp_path: Path, more: str
) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    script.write_text(BEFORE + more)

    with pytest.raises(PatchError, match=r"train\.py has changed since it was searched"):
        apply_patch(out)

    assert script.read_text() == BEFORE + more


def test_a_source_that_is_gone_is_refused(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    (tmp_path / "project" / "train.py").unlink()

    with pytest.raises(PatchError, match="no longer there"):
        apply_patch(out)


def test_what_is_not_there_cannot_be_taken_back(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})

    assert apply_patch(out, reverse=True).files == ()

    assert (tmp_path / "project" / "train.py").read_text() == BEFORE


def test_what_was_never_put_in_is_not_to_be_taken_out_of_a_changed_file(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    script.write_text("# another loader\n" + BEFORE.replace("photos", "pictures"))

    assert apply_patch(out, reverse=True).files == ()

    apart = script.read_text() + "\nif slow:\n    torch.set_num_threads(1)\n"  # by hand, or git
    script.write_text(apart)
    with pytest.raises(PatchError, match="has changed since"):
        apply_patch(out, reverse=True)
    assert script.read_text() == apart


def test_later_work_elsewhere_in_the_file_survives_taking_back(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE + "\n" * 9, AFTER + "\n" * 9)})
    script = tmp_path / "project" / "train.py"
    apply_patch(out)
    script.write_text(script.read_text() + "print('more')\n")

    apply_patch(out, reverse=True)

    assert script.read_text() == BEFORE + "\n" * 9 + "print('more')\n"


def test_lines_that_have_changed_since_are_to_be_taken_out_by_hand(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    apply_patch(out)
    edited = script.read_text().replace("num_workers=4", "num_workers=8")
    script.write_text(edited)
    with pytest.raises(PatchError, match="has changed since") as refused:
        apply_patch(out, reverse=True)
    assert refused.value.advice == f"Take its lines out by hand: {out / 'applied.patch'} has them."
    assert script.read_text() == edited


def test_all_files_are_changed_or_none(tmp_path: Path) -> None:
    changes = {"train.py": (BEFORE, AFTER), "data.py": ("workers = 0\n", "workers = 4\n")}
    out = searched(tmp_path / "project", changes)
    (tmp_path / "project" / "data.py").write_text("workers = 1\n")

    with pytest.raises(PatchError, match=r"data\.py has changed since"):
        apply_patch(out)
    assert (tmp_path / "project" / "train.py").read_text() == BEFORE

    (tmp_path / "project" / "data.py").write_text("workers = 0\n")
    assert len(apply_patch(out).files) == 2
    assert (tmp_path / "project" / "data.py").read_text() == "workers = 4\n"


@pytest.mark.parametrize("patched", ["train.py", "data.py"])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_was_cut_short_between_two_files_is_gone_on_with(
    tmp_path: Path, patched: str, reverse: bool
) -> None:
    changes = {"train.py": (BEFORE, AFTER), "data.py": (BEFORE, AFTER)}
    out = searched(tmp_path / "project", changes)
    (tmp_path / "project" / patched).write_text(AFTER)  # where a kill left it
    assert not is_applied(out)
    applied = apply_patch(out, reverse=reverse)
    [changed] = applied.files
    assert (changed.name == patched) is reverse
    texts = [(tmp_path / "project" / name).read_text() for name in changes]
    assert texts == 2 * [BEFORE if reverse else AFTER]
    assert apply_patch(out, reverse=reverse).files == ()


def test_a_program_that_has_changed_is_refused_though_the_patch_leaves_it_alone(
    tmp_path: Path,
) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, BEFORE), "data.py": (BEFORE, AFTER)})
    (tmp_path / "project" / "train.py").write_text(BEFORE + "print('more')\n")
    with pytest.raises(PatchError, match=r"train\.py has changed since"):
        apply_patch(out)


def test_a_module_that_has_changed_is_refused_though_the_patch_leaves_it_alone(
    tmp_path: Path,
) -> None:
    changes = {"train.py": (BEFORE, AFTER), "data.py": ("x = 1\n", "x = 1\n")}
    out = searched(tmp_path / "project", changes)
    script, module = (tmp_path / "project" / name for name in ("train.py", "data.py"))
    module.write_text("x = 2\n")
    with pytest.raises(PatchError, match=r"data\.py has changed since it was searched"):
        apply_patch(out)
    module.unlink()
    with pytest.raises(PatchError, match=r"data\.py is no longer there"):
        apply_patch(out)
    assert script.read_text() == BEFORE

    module.write_text("x = 1\n")
    assert apply_patch(out).files == (script,)


def test_lines_of_the_patch_that_have_moved_are_told_of(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    script.write_text("# mine\n" + AFTER)
    with pytest.raises(PatchError, match="has changed since") as refused:
        apply_patch(out)
    assert refused.value.advice.startswith("The source has lines of the patch already")

    script.write_text("# mine\n" + BEFORE)
    with pytest.raises(PatchError, match="has changed since") as refused:
        apply_patch(out)
    assert refused.value.advice.startswith("Run `autotune search` again")


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "Free some space."), (errno.EROFS, "Make it writable.")]
)
def test_a_disk_that_takes_nothing_is_told_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))  # as write(2) does: no file is named

    out = searched(tmp_path, {"train.py": (BEFORE, AFTER)})
    monkeypatch.setattr(apply, "write_draft", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PatchError, match=r"train\.py cannot be written: ") as refused:
        apply_patch(out)
    assert os.strerror(number) in refused.value.message and refused.value.advice == advice
    assert (tmp_path / "train.py").read_text() == BEFORE


def test_a_recipe_gets_its_program_beside_it(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"recipe_tuned.py": (None, AFTER)}, kind=RECIPE)
    program = tmp_path / "project" / "recipe_tuned.py"

    assert apply_patch(out).files == (program,)
    assert program.read_text() == AFTER
    assert apply_patch(out).files == ()

    apply_patch(out, reverse=True)
    assert not program.exists()
    assert (tmp_path / "project" / "recipe.py").exists()


def test_a_file_of_the_user_s_is_never_overwritten_or_deleted(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"recipe_tuned.py": (None, AFTER)}, kind=RECIPE)
    program = tmp_path / "project" / "recipe_tuned.py"

    program.write_text("mine\n")
    with pytest.raises(PatchError, match="is there already"):
        apply_patch(out)
    assert program.read_text() == "mine\n"

    program.write_text(AFTER + "mine\n")
    with pytest.raises(PatchError, match="added to since"):
        apply_patch(out, reverse=True)
    assert program.exists()


def test_a_tuned_program_is_in_the_encoding_that_it_declares(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\nname = 'Übung'\n"
    emission = Emission(program=text, patch="", edits=(), sources={})
    write_patch(emission, tmp_path / "tuned.patch", tmp_path / "tuned.py")
    assert (tmp_path / "tuned.py").read_bytes() == text.encode("latin-1")


def test_a_source_that_its_encoding_does_not_give_back_is_left_alone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    own = b"# -*- coding: iso2022_jp -*-\nname = '\x1b$B$\"\x1b(B\x1b$B$$\x1b(B'\nrate = 1\n"
    script.write_bytes(own)
    with pytest.raises(PatchError, match="several ways to write"):
        write_draft(tmp_path / "draft", own.decode("iso2022_jp"), like=script)
    assert script.read_bytes() == own


def test_encoding_line_ends_and_permissions_stay(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    before, after = (
        "# -*- coding: latin-1 -*-\r\n# Übung\r\n" + text.replace("\n", "\r\n")
        for text in (BEFORE, AFTER)
    )
    searched(tmp_path / "project", {"train.py": (before, after)})
    script.write_bytes(before.encode("latin-1"))
    script.chmod(0o755)

    apply_patch(out)

    assert script.read_bytes() == after.encode("latin-1")
    assert script.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in script.parent.iterdir()) == ["out", "train.py"]


def test_a_patch_that_leads_out_of_the_project_is_refused(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    (tmp_path / "victim.py").write_text("x = 1\n")
    (out / "tuned.patch").write_text(
        "--- a/../victim.py\n+++ b/../victim.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    )

    with pytest.raises(PatchError, match="lies outside"):
        apply_patch(out)

    assert (tmp_path / "victim.py").read_text() == "x = 1\n"


def test_without_a_patch_there_is_nothing_to_apply(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    (out / "tuned.patch").unlink()

    with pytest.raises(UsageError, match="there is nothing to apply"):
        apply_patch(out)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "--- a/train.py\n",
        "--- a/train.py\n+++ b/train.py\n@@ -1,3 +1,3 @@\n x\n",
        "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n*x\n",
        "--- train.py\n+++ train.py\n@@ -1 +1 @@\n-x\n+y\n",
    ],
)
def test_what_is_no_patch_is_refused(tmp_path: Path, text: str) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    (out / "tuned.patch").write_text(text)

    with pytest.raises(UsageError, match=r"is not a patch: (it|no file|.*line|hunk)"):
        apply_patch(out)


LINES = st.lists(
    st.sampled_from(["a", "b", "-- c", "++ d", "@@ e", "\\ f", "", "diff", "g\r"]), max_size=12
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(before=TEXTS, after=TEXTS)
def test_any_text_becomes_any_other_and_back(before: str, after: str) -> None:
    project = Path(tempfile.mkdtemp())
    try:
        out = searched(project, {"train.py": (before, after)})
        if before == after:
            return
        apply_patch(out)
        assert (project / "train.py").read_bytes() == after.encode()
        apply_patch(out, reverse=True)
        assert (project / "train.py").read_bytes() == before.encode()
    finally:
        shutil.rmtree(project)


def test_what_was_applied_is_taken_back_though_another_search_left_no_patch(
    tmp_path: Path,
) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    apply_patch(out)
    (out / "tuned.patch").unlink()

    assert apply_patch(out, reverse=True).files == (script,)
    assert script.read_text() == BEFORE
    assert not (out / "applied.patch").exists()


def test_what_git_applied_is_taken_back_before_what_was_applied_earlier(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    apply_patch(out)
    more = AFTER.replace("num_workers=4", "num_workers=4, pin_memory=True")
    patch = unified_patch({str(script): AFTER}, {str(script): more}, str(script.parent))
    (out / "tuned.patch").write_text(patch)
    script.write_text(more)

    apply_patch(out, reverse=True)
    assert script.read_text() == AFTER
    apply_patch(out, reverse=True)
    assert script.read_text() == BEFORE


def test_what_git_applied_is_kept_to_be_taken_back_once_apply_has_seen_it(tmp_path: Path) -> None:
    out = searched(tmp_path / "project", {"train.py": (BEFORE, AFTER)})
    script = tmp_path / "project" / "train.py"
    script.write_text(AFTER)
    assert apply_patch(out).files == ()
    (out / "tuned.patch").unlink()  # by another search

    assert apply_patch(out, reverse=True).files == (script,)
    assert script.read_text() == BEFORE


def test_a_program_that_was_named_as_a_module_is_found_in_its_package(tmp_path: Path) -> None:
    out = searched(tmp_path, {"pkg/train.py": (BEFORE, AFTER)}, module="pkg.train")
    apply_patch(out)
    assert (tmp_path / "pkg" / "train.py").read_text() == AFTER
    assert is_applied(out)


def test_a_new_program_is_written_in_the_encoding_that_it_declares(tmp_path: Path) -> None:
    draft, text = tmp_path / "draft", "# -*- coding: latin-1 -*-\nname = 'M\u00fcller'\n"
    write_draft(draft, text, like=tmp_path / "none.py")
    assert draft.read_bytes() == text.encode("latin-1")
