"""Where a loader's workers would run the whole program: each imports it anew, and nothing keeps the
training from what an import runs.
"""

import ast
import multiprocessing

from autotune.source.calls.building import Building
from autotune.source.calls.keywords import given_value
from autotune.source.calls.spreads import may_hide
from autotune.source.loops.around_training import running
from autotune.source.program import Program
from autotune.source.script import covers, is_guard, last_name

_SETS, _GETS = "set_start_method", "get_context"  # for all processes, for those begun by it
_FORK = "fork"
_CONTEXT = "multiprocessing_context"


def run_anew(program: Program, at: Building) -> bool:
    """Whether the workers of the loader built `at` are not forked, and the main script trains
    outside of `if __name__ == "__main__":`.
    """
    return _start_method(program, at) != _FORK and _trains_on_import(program)


def _start_method(program: Program, at: Building) -> str:
    """How its workers are started, as far as constants tell: the platform's way if they do not."""
    given = given_value(at.call, _CONTEXT, at.signature)
    methods = [given.value] if isinstance(given, ast.Constant) else []
    is_given = may_hide(at.call, _CONTEXT) if given is None else not methods
    says = {_SETS, _GETS} if is_given else {_SETS}
    nodes = [at for script in program.scripts.values() for at in script.nodes]
    for node in (*ast.walk(given or ast.Pass()), *nodes):
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(method)), *_]):
                methods += [method] if last_name(function) in says else []
    usual = multiprocessing.get_all_start_methods()[0]
    return next((each for each in methods if isinstance(each, str)), usual)


def _trains_on_import(program: Program) -> bool:
    """Whether importing the main script comes to the backward pass that was seen."""
    place = program.places.backward
    main, seen = program.scripts.get(program.main), program.scripts.get(place.path if place else "")
    if main is None or seen is None or place is None:
        return False
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    imported: list[ast.AST] = [
        at for at in main.tree.body if not isinstance(at, definitions) and not is_guard(at)
    ]
    passes = (at for at in seen.nodes if isinstance(at, ast.stmt))
    innermost = [at for at in passes if covers(at, place.line)][-1:]
    return not running(program, imported).isdisjoint(innermost)
