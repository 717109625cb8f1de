"""Where making samples writes into a file opened before, of which each worker has a copy."""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.refusals.rewritten_files import making
from autotune.source.script import last_name, stored_names

_WRITING = frozenset(("write", "writelines", "writerow", "writerows"))
# What writes at once, and to no file of the program's.
_TELLING = frozenset(("stdout", "stderr", "tqdm", "trange", "pbar", "bar", "progress"))


def written_by_samples(program: Program) -> str:
    """File and line of the first such place, "" where none is seen."""
    makers = making(program)
    for script, function in program.functions():
        if function not in makers:
            continue
        own = stored_names(ast.Module(function.body, []))
        for call in calls_in(function):
            if any(_is_kept(each, own) for each in _written(call)):
                return script.at(call)
    return ""


def _written(call: ast.Call) -> Iterator[ast.expr]:
    """The files that `call` writes into."""
    match call.func:
        case ast.Attribute(value=of, attr=name) if name in _WRITING:
            yield of
        case ast.Name(id="print"):
            yield from (each.value for each in call.keywords if each.arg == "file")
        case ast.Attribute(attr="dump"):
            yield from call.args[1:2]


def _is_kept(file: ast.expr, own: set[str]) -> bool:
    """Whether it is an attribute, or a variable that the function does not set itself."""
    if not isinstance(file, ast.Attribute | ast.Name) or last_name(file) in _TELLING:
        return False
    return isinstance(file, ast.Attribute) or file.id not in own
