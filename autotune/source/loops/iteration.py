"""What a loop goes over: a loader, inside enumerate() and progress bars."""

import ast

from autotune.source.places import refusal
from autotune.source.program import Program
from autotune.source.script import Script, last_name

# Functions that give what they are given first, as it comes; `log_every` is that of torchvision's
# references, which many programs have a copy of.
WRAPPERS = (
    *("enumerate", "tqdm", "track", "progress_bar", "progressbar", "auto_tqdm"),
    "log_every",
)


def loader_of(
    script: Script, node: ast.For, source: ast.expr, hand_step: str, *, built: bool = False
) -> ast.expr:
    """The loader that `node` goes over, inside enumerate() and progress bars; one that is `built`
    there as well.

    Raises:
        Refusal: it goes over something else.
    """
    call = _within(script, node, source)
    if call is not None:
        return loader_of(script, node, call.args[0], hand_step, built=built)
    if isinstance(source, ast.Name | ast.Attribute | ast.Subscript):
        return source
    if built and isinstance(source, ast.Call) and last_name(source.func) == "DataLoader":
        return source
    reason = f"the loop goes over {script.code(source)}, not over a loader itself"
    raise refusal(script, node.lineno, reason, hand_step)


def enumerate_of(script: Script, node: ast.For, source: ast.expr) -> ast.Call | None:
    """The enumerate() that `node` goes over, in or round progress bars, None without one."""
    found = _within(script, node, source)
    while found is not None and last_name(found.func) != "enumerate":
        found = _within(script, node, found.args[0])
    return found


def _within(script: Script, node: ast.For, source: ast.expr) -> ast.Call | None:
    """The call of enumerate() or of a progress bar that `source` is, or is a name for."""
    match source:
        case ast.Call(func=function, args=[_, *_]) if last_name(function) in WRAPPERS:
            return source
        case ast.Name(id=name):
            values = script.binds(name, beside=node) + _entered(script, node, name)
            own = any(at is source for each in values for at in ast.walk(each))
            if len(values) == 1 and not own and isinstance(values[0], ast.Call):
                return _within(script, node, values[0])
    return None


def _entered(script: Script, node: ast.For, name: str) -> list[ast.expr]:
    """What the `with` statements round `node` enter as `name`."""
    around = (at for at in script.ancestors(node) if isinstance(at, ast.With))
    items = (item for at in around for item in at.items)
    return [
        at.context_expr for at in items if at.optional_vars and last_name(at.optional_vars) == name
    ]


def loop_that_trains(program: Program) -> tuple[Script, ast.For] | None:
    """The innermost `for` that backward stands in, with its file; None where it is in none."""
    place = program.places.backward
    script = program.scripts.get(place.path) if place else None
    if place is None or script is None:
        return None
    loops = (at for at in script.nodes if isinstance(at, ast.For) and at.lineno < place.line)
    around = [at for at in loops if place.line <= script.last_line(at)]
    return (script, around[-1]) if around else None
