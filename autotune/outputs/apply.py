"""Applying `tuned.patch` to the user's source, and taking it back: exactly, or not at all."""

import errno
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import eq
from pathlib import Path

from autotune.errors import PatchError, UsageError
from autotune.outputs.document import read_document
from autotune.outputs.writing import write_draft
from autotune.result import TargetFacts
from autotune.source import FilePatch, parse_patch
from autotune.workload.program.target import Target, read_source

PATCH = "tuned.patch"
_APPLIED = "applied.patch"  # the same, kept: the next search may leave none
_TAKE_OUT = "Take an earlier one out with --reverse, or delete it, and apply this one then."
_BY_HAND = "Take its lines out by hand: {} has them."
_SEARCH_AGAIN = "Run `autotune search` again: it makes a patch for the source as it is now."
_PARTLY_IN = (
    "The source has lines of the patch already: take them out by hand, or run `autotune search`"
    " again, for what else can be gained."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The files that were changed; none where the source had the patch already, or where it is to
    be taken back, had it no more.
    """

    files: tuple[Path, ...]


def apply_patch(out: Path, *, reverse: bool = False) -> Applied:
    """Write what `tuned.patch` in the folder `out` says into the source, or take it out again.

    Either every file is changed or none is; where that was cut short between two files (a kill),
    the same again, or its reverse, changes the rest. Nothing is searched for: each line must stand
    where it stood when the patch was made.

    Raises:
        UsageError: there is no result in `out`, or it has no patch.
        PatchError: the source has changed since.
    """
    target = read_document(out / "result.json").target
    root = _root(target)
    if reverse:
        return _take_back(root, out)
    patches = _read_patch(out / PATCH)
    try:
        changed = _changed(root, patches)
    except PatchError as error:
        if error.advice != _SEARCH_AGAIN or partly_in(out) is None:
            raise
        raise PatchError(error.message, _PARTLY_IN) from error
    if changed:
        _refuse_another_source(target, root, patches)
    files = _write(changed)
    with suppress(OSError):  # the next search replaces the patch itself
        shutil.copyfile(out / PATCH, out / _APPLIED)
    return Applied(files=files)


def source_root(out: Path) -> Path:
    """The folder in which the program lies whose result is in the folder `out`.

    Raises:
        UsageError: there is no result in `out`.
    """
    return _root(read_document(out / "result.json").target)


def _root(target: TargetFacts) -> Path:
    own = Target(kind=target.kind, path=target.path, module=target.module)
    return Path(target.root or own.root)


def _take_back(root: Path, out: Path) -> Applied:
    """What was applied last, by whatever, and whatever was searched for since."""
    applied = out / _APPLIED
    patch = applied if applied.is_file() and not is_applied(out) else out / PATCH
    patches = _read_patch(patch)
    try:
        changed = _changed(root, [each.reversed() for each in patches])
    except PatchError as error:
        if patch is not applied and not any(_stands(root, each) for each in patches):
            return Applied(files=())  # it was never put in
        if error.advice != _SEARCH_AGAIN:
            raise
        raise PatchError(error.message, _BY_HAND.format(patch)) from error
    files = _write(changed)
    if applied.is_file() and applied.read_bytes() == patch.read_bytes():
        applied.unlink()
    return Applied(files=files)


def is_applied(out: Path) -> bool:
    """Whether the source has what `tuned.patch` in the folder `out` says; not where there is none.

    Raises:
        UsageError: there is no result in `out`, or what it has as a patch is none.
    """
    if not (out / PATCH).is_file():
        return False
    root = source_root(out)
    return all(_has(root, each) for each in _read_patch(out / PATCH))


def partly_in(out: Path) -> Path | None:
    """In a source that is not as `tuned.patch` in the folder `out` leaves it (`is_applied`), a file
    that has lines of that all the same; None where none has.

    Raises:
        UsageError: as `is_applied`.
    """
    if not (out / PATCH).is_file():
        return None
    root = source_root(out)
    for each in _read_patch(out / PATCH):
        path = root / each.before
        if path.is_file() and not _has(root, each.reversed()) and _stands(root, each):
            return path
    return None


def line_after(out: Path, path: str, line: int) -> int:
    """Where `line` of the file at `path` is, both counted from 1, once it has what `tuned.patch` in
    the folder `out` says.

    Raises:
        UsageError: as `is_applied`.
    """
    root = source_root(out)
    for each in _read_patch(out / PATCH):
        if (root / each.before).resolve() == Path(path).resolve():
            return each.new_line(line - 1) + 1
    return line


def changed_since(target: TargetFacts, patched: Collection[Path] = ()) -> Path | None:
    """The first file of the program that is not as it was searched, those `patched` aside; None
    where all are.
    """
    for name, digest in {target.path: target.source_sha256, **target.files}.items():
        path = Path(name)
        if path.resolve() in patched:
            continue
        if not path.is_file():
            return path
        now = Target(kind=target.kind, path=name, source=read_source(path))
        if now.source_sha256 != digest:
            return path
    return None


def _read_patch(path: Path) -> list[FilePatch]:
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise UsageError(
            f"{path} does not exist: there is nothing to apply.",
            "`autotune search` writes it where it finds a gain that the source can be given.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", _SEARCH_AGAIN) from error
    try:
        return parse_patch(text)
    except (ValueError, IndexError) as error:
        why = "it ends too soon" if isinstance(error, IndexError) else error
        raise UsageError(f"{path} is not a patch: {why}.", _SEARCH_AGAIN) from error


def _has(root: Path, patch: FilePatch) -> bool:
    """Whether the file of `patch` is as that leaves it."""
    try:
        _file_changed(root, patch.reversed())
    except PatchError:
        return False
    return True


def _stands(root: Path, patch: FilePatch) -> bool:
    """Whether half of the lines of a place that `patch` changes are in its file, wherever; or
    whether that is gone.
    """
    path = root / (patch.after or patch.before)
    if not path.is_file():
        return True
    lines = {line.strip() for line in read_source(path).splitlines()}
    old = {"", *(line.strip() for hunk in patch.hunks for line in hunk.old)}
    put_in = ({line.strip() for line in hunk.new} - old for hunk in patch.hunks)
    return any(each and 2 * len(lines & each) >= len(each) for each in put_in)


def _refuse_another_source(target: TargetFacts, root: Path, patches: Sequence[FilePatch]) -> None:
    """Raises PatchError where a file of the program is neither as it was searched nor patched."""
    patched = {(root / each.before).resolve() for each in patches if _has(root, each)}
    path = changed_since(target, patched)
    if path is None:
        return
    if not path.is_file():
        raise PatchError(f"{path} is no longer there.", _SEARCH_AGAIN)
    raise PatchError(f"{path} has changed since it was searched.", _SEARCH_AGAIN)


def _changed(root: Path, patches: Sequence[FilePatch]) -> dict[Path, str | None]:
    """The text that each file will have that is not as the patch leaves it, None for one that will
    not be there.

    Raises:
        PatchError: a file is neither as the patch expects it, nor as it leaves it.
    """
    changed = {}
    for patch in patches:
        try:
            path, text = _file_changed(root, patch)
        except PatchError:
            if not _has(root, patch):
                raise
        else:
            changed[path] = text
    return changed


def _file_changed(root: Path, patch: FilePatch) -> tuple[Path, str | None]:
    path = (root / (patch.before or patch.after)).resolve()
    if not path.is_relative_to(root.resolve()):
        raise PatchError(f"{path} lies outside {root}.", "Write its lines by hand.")
    if patch.before and not path.is_file():
        raise PatchError(f"{path} is no longer there.", _SEARCH_AGAIN)
    if not patch.before and path.exists():
        raise PatchError(f"{path} is there already.", _TAKE_OUT)
    lines = read_source(path).split("\n") if patch.before else [""]
    texts = [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
    for hunk in reversed(patch.hunks):
        end = hunk.line + len(hunk.old)
        stands = tuple(texts[hunk.line : end])
        if stands != hunk.old:
            same = [*map(eq, stands, hunk.old), False].index(False)
            raise PatchError(
                f"{path} has changed since: line {hunk.line + same + 1} is not what the patch"
                " expects.",
                _SEARCH_AGAIN,
            )
        texts[hunk.line : end] = hunk.new
    if not patch.after and texts:
        raise PatchError(f"{path} has been added to since.", "Delete it yourself if it can go.")
    return path, "".join(texts) if patch.after else None


def _write(texts: Mapping[Path, str | None]) -> tuple[Path, ...]:
    """Put every text in its file: all drafts are written before the first file is replaced.

    Raises:
        PatchError: a file cannot be written; none has been changed.
    """
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}.draft") for path in texts}
    try:
        for path, text in texts.items():
            if text is not None:
                write_draft(drafts[path], text, like=path)
        for path, text in texts.items():
            if text is None:
                path.unlink()
            else:
                drafts[path].replace(path)
    except OSError as error:
        of_drafts = {str(draft): str(path) for path, draft in drafts.items()}
        where = of_drafts.get(str(error.filename), error.filename)
        where = where or " and ".join(map(str, texts))
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise PatchError(
            f"{where} cannot be written: {error.strerror}.",
            "Free some space." if full else "Make it writable.",
        ) from error
    finally:
        for draft in drafts.values():
            with suppress(OSError):  # on a disk that can only be read there is none
                draft.unlink()
    return tuple(texts)
