"""What looks at gradients between backward and step, and what ends the program by what it sees."""

import ast
from collections.abc import Iterator, Sequence

from autotune.source.loops.loss import names_in, stored_names
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import reached
from autotune.source.script import Function, Script, last_name

# Calls between backward and step that look at no gradients: they note, print and count, or tell
# what is finite, which scaled ones are where unscaled ones are.
# fmt: off
_BLIND = frozenset({
    "add_scalar", "all", "any", "append", "cpu", "debug", "detach", "float", "format", "info",
    "int", "isfinite", "isinf", "isinstance", "isnan", "item", "len", "log", "max", "mean", "min",
    "numpy", "perf_counter", "print", "range", "round", "set_description", "set_postfix", "size",
    "str", "sum", "time", "tolist",
})
# fmt: on
_ENDING = frozenset({"_exit", "abort", "exit", "quit"})
_FINITE = frozenset({"isfinite", "isinf", "isnan"})
_LOOPS = ast.For | ast.While
_STRICT = "error_if_nonfinite"  # of torch.nn.utils.clip_grad_norm_


def may_see_gradients(node: ast.AST) -> bool:
    """Whether `node` is a call that may look at gradients, or a `.grad`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) not in _BLIND
    return _is_grad(node)


def fatal_check(program: Program, backward: Call, step: Call) -> ast.expr | ast.stmt | None:
    """What ends the program, or its loop, by what it sees of the gradients between `backward` and
    `step`, or later in that turn of the loop by what is computed there of them.
    """
    script = backward.script
    loop = next((at for at in script.ancestors(backward.node) if isinstance(at, _LOOPS)), None)
    function = script.function(backward.node)
    begins, steps = script.end(backward.node), script.start(step.node)
    around = loop or function
    ends = script.end(around) if around else len(script.text)
    parts = (at for at in ast.walk(function or script.tree) if isinstance(at, ast.expr | ast.stmt))
    after = [at for at in parts if begins < script.start(at) < ends]
    between = [at for at in after if script.start(at) < steps]
    computed = _computed(between)
    for at in after:
        if at in between and (_is_strict(at) or _ends_inside(program, at)):
            return at
        for test in _asked(script, at, loop, after):
            seen = may_see_gradients if at in between else _is_grad
            if names_in(test) & computed or any(map(seen, ast.walk(test))):
                return at
    return None


def _computed(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that `nodes` give values which come from what may look at gradients."""
    given = [
        (at.value, stored_names(at))
        for at in nodes
        if isinstance(at, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and at.value
    ]
    given += [(at.iter, stored_names(at.target)) for at in nodes if isinstance(at, ast.For)]
    found: set[str] = set()
    while more := [
        names
        for value, names in given
        if names - found
        and (names_in(value) & found or any(map(may_see_gradients, ast.walk(value))))
    ]:
        found = found.union(*more)
    return found


def _ends_inside(program: Program, call: ast.AST) -> bool:
    """Whether `call` comes to a function of the program's that ends it by what is not finite."""
    if not (isinstance(call, ast.Call) and may_see_gradients(call)):
        return False
    for made in reached(program, [call]):
        nodes = list(ast.walk(made)) if isinstance(made, Function) else []
        tests = (
            test
            for script in program.scripts.values()
            for at in nodes
            for test in _asked(script, at, None, nodes)
        )
        if any(_is_grad(at) or _is_finite(at) for test in tests for at in ast.walk(test)):
            return True
    return False


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_finite(node: ast.AST) -> bool:
    """Whether `node` asks whether something is finite."""
    return isinstance(node, ast.Call) and last_name(node.func) in _FINITE


def _is_strict(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(
        each.arg == _STRICT and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for each in node.keywords
    )


def _asked(
    script: Script, node: ast.AST, loop: ast.AST | None, within: Sequence[ast.AST]
) -> Iterator[ast.expr]:
    """The tests, its own or those `within` which it stands, by which `node` ends the program or
    leaves `loop`; none where it does not.
    """
    if isinstance(node, ast.Assert):
        yield node.test
    ends = isinstance(node, ast.Call) and last_name(node.func) in _ENDING
    if ends or isinstance(node, ast.Assert | ast.Raise) or _leaves(script, node, loop):
        above = (at for at in script.ancestors(node) if isinstance(at, ast.If) and at in within)
        yield from (at.test for at in above)


def _leaves(script: Script, node: ast.AST, loop: ast.AST | None) -> bool:
    """Whether `node` leaves `loop` for good."""
    around = script.ancestors(node)
    if isinstance(node, ast.Break):
        return loop is not None and next(at for at in around if isinstance(at, _LOOPS)) is loop
    return isinstance(node, ast.Return) and any(at is loop for at in around)
