"""The directories outside a project that its own texts name: its modules, its settings, its
manifests.
"""

import glob
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from urllib.parse import unquote

from autotune.measurement.sandbox.territory import SYSTEM, is_in

# What may name where a program writes; of data only so many a folder are read, after all else.
SETTINGS = (
    *(".py", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".gin", ".sh"),
    ".jsonnet",
)
DATA = (".json", ".txt", ".xml", ".csv")
DATA_PER_FOLDER = 20
MOST_ENTRIES_PER_FOLDER = 1000
MOST_ENTRIES = 20_000
MOST_TEXTS = 1000
MOST_BYTES_PER_TEXT = 1 << 20
MOST_BYTES = 16 << 20
# Folders of one directory, each named for itself (a list of samples), count as that directory.
MOST_OF_A_DIRECTORY = 8
MOST_OF_A_TEXT = 100  # paths: of more, their folders
INSTALLED = ("site-packages", "dist-packages", "node_modules", ".git", "__pycache__")
# Where links lead to programs (a virtual environment's python), not to files that training writes.
PROGRAMS = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/nix")
SHARED = ("/", "/tmp", "/var/tmp", "/var")  # noqa: S108
_SHORTEST_VARIABLE = 3

_QUOTED = re.compile(r"""["'](?=([^"'\n]*/[^"'\n]*|\.\.)["'])""")
# Put together from parts: Path("/tmp") / "cache", os.path.join("/tmp", "cache").
_JOINED = re.compile(r"""["']((?:/var)?/tmp)/?["']\s*(?:\)\s*/|,)\s*[rRfF]?["']([^"'\n]+)["']""")
_FILLED_IN = re.compile(r"\{[^{}]*\}")
MOST_FILLED_IN = 20
_BETWEEN = re.compile(r"""[\s"'=,;#<>|&()\[\]]+|:(?=/(?!/))""")


def named_directories(root: Path, files: Iterable[Path]) -> list[Path]:
    """The directories that the texts below `root`, and `files`, name by paths that may lead out of
    the project, from the working directory or from their own, or by a variable of the environment;
    of shared ones (`/tmp`) the files that they name right in these.
    """
    named: set[str] = set()
    for file, text, paths in _texts_read([*files, *islice(_texts(root), MOST_TEXTS)]):
        values = [os.environ[name] for name in os.environ if _has_word(text, name)]
        away = {place for path in (*paths, *filter(leads_out, values)) if (place := placed(path))}
        away.update(place for path in tuple(away) for place in _there(path))
        if len(away) > MOST_OF_A_TEXT:  # samples
            away = {os.path.dirname(path) for path in away}
        bases = (os.getcwd(), str(file.parent))
        named.update(os.path.join(base, path) for path in away for base in bases)
    found = dict.fromkeys(map(nearest_directory, map(Path, sorted(named))))
    elsewhere = (*PROGRAMS, *SYSTEM)
    kept = [each for each in found if not (str(each) in SHARED or is_in(elsewhere, str(each)))]
    return [*_together(each for each in kept if each != Path.cwd()), *shared_files(sorted(named))]


def _texts_read(files: Iterable[Path]) -> Iterator[tuple[Path, str, list[str]]]:
    """For each of `files` that is a text: what it says, and the paths in it that may lead out."""
    left = MOST_BYTES
    for file in dict.fromkeys(files):
        text = _read(file)
        left -= len(text)
        if left < 0:
            return
        found = [*_QUOTED.findall(text), *map("/".join, _JOINED.findall(text))]
        found += [] if file.suffix == ".py" else words(text)
        yield file, text, list(dict.fromkeys(filter(leads_out, found)))


def _there(path: str) -> list[str]:
    """What there is in a folder that all share of the name of `path`, whose `{...}` only the
    program knows.
    """
    pattern = _FILLED_IN.sub("*", path)
    if pattern == path or not path.startswith(tuple(f"{at}/" for at in SHARED if at != "/")):
        return []
    return list(islice(glob.iglob(pattern), MOST_FILLED_IN))


def words(text: str) -> list[str]:
    """What stands between the signs of a settings file, a shell script or an argument."""
    found = _BETWEEN.split(text)
    return [each if "{" in each else each.rstrip("}") for each in found if each]


def leads_out(path: str) -> bool:
    """Whether `path` may lead out of the folder that it is used in."""
    return path.startswith(("/", "~", "../", "file:/")) or "/.." in path or path == os.pardir


def placed(path: str) -> str:
    """`path` without its scheme and without a beginning that only the program knows (`{ROOT}/../x`
    is taken from its folder); "" where it names no place.
    """
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:").removeprefix("//"))
    if "\0" in path or "://" in path:
        return ""
    first, _, rest = path.partition("/")
    path = rest if {"{", "$"} & set(first) else os.path.expanduser(path)
    return path if len(path) < os.pathconf("/", "PC_PATH_MAX") else ""


def nearest_directory(path: Path) -> Path:
    """`path` or the directory above it that exists, without links; the working directory in place
    of "/", or of one where nothing can be made.
    """
    path = Path(os.path.realpath(path))
    found = next(folder for folder in (path, *path.parents) if os.path.isdir(folder))
    is_there = os.path.lexists(path)
    return found if found != Path("/") and (is_there or os.access(found, os.W_OK)) else Path.cwd()


def shared_files(paths: Iterable[str]) -> list[Path]:
    """Those of `paths` that are files right in a shared directory (`/tmp/best.pt`)."""
    real = dict.fromkeys(map(os.path.realpath, paths))
    return [Path(path) for path in real if os.path.dirname(path) in SHARED and _is_file(path)]


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _has_word(text: str, name: str) -> bool:
    if len(name) < _SHORTEST_VARIABLE or name not in text:
        return False
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _together(directories: Iterable[Path]) -> list[Path]:
    """`directories`, those in many folders of one as that one."""
    found = list(directories)
    beside = Counter(
        above
        for above, _ in {
            pair for each in found for pair in pairwise((*reversed(each.parents), each))
        }
    )
    many = {above for above, count in beside.items() if count > MOST_OF_A_DIRECTORY}
    many -= set(map(Path, SHARED))
    tops = (next((above for above in each.parents if above in many), each) for each in found)
    together = list(dict.fromkeys(tops))
    return together if together == found else _together(together)


def _texts(top: Path) -> Iterator[Path]:
    """Texts below `top`, those near it first, and data after all others; none of libraries."""
    waiting, left = deque([top]), MOST_ENTRIES
    data: list[Path] = []
    while waiting and left > 0:
        here = entries(waiting.popleft(), MOST_ENTRIES_PER_FOLDER)
        left -= len(here)
        if any(entry.name == "pyvenv.cfg" for entry in here):
            continue
        yield from (Path(entry.path) for entry in here if entry.name.endswith(SETTINGS))
        beside = (Path(entry.path) for entry in here if entry.name.endswith(DATA))
        data += islice(beside, DATA_PER_FOLDER)
        folders = (entry for entry in here if entry.is_dir(follow_symlinks=False))
        waiting.extend(Path(entry.path) for entry in folders if entry.name not in INSTALLED)
    yield from data


def _read(file: Path) -> str:
    """The text of `file`; "" of what is data, no file, or cannot be read."""
    try:
        found = file.stat() if file.name.endswith((*SETTINGS, *DATA)) else None
        if found and stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES_PER_TEXT:
            return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        pass
    return ""


def entries(directory: Path, most: int) -> list[os.DirEntry[str]]:
    """At most so many of a directory's entries; none of one that cannot be read."""
    try:
        with os.scandir(directory) as found:
            return list(islice(found, most))
    except OSError:
        return []
