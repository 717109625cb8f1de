"""What looks at gradients between backward and step, and what ends the program by what it sees."""

import ast
from collections.abc import Iterator

from autotune.source.loss import names_in
from autotune.source.places import Call
from autotune.source.script import last_name

# Calls between backward and step that look at no gradients: they note, print and count, or tell
# what is finite, which scaled ones are where unscaled ones are.
# fmt: off
_BLIND = frozenset({
    "add_scalar", "append", "cpu", "debug", "detach", "float", "format", "info", "int",
    "isfinite", "isinf", "isinstance", "isnan", "item", "len", "log", "max", "mean", "min", "numpy",
    "perf_counter", "print", "range", "round", "set_description", "set_postfix", "size", "str",
    "sum", "time", "tolist",
})
# fmt: on
_ENDING = frozenset({"_exit", "abort", "exit", "quit"})
_STRICT = "error_if_nonfinite"  # of torch.nn.utils.clip_grad_norm_


def may_see_gradients(node: ast.AST) -> bool:
    """Whether `node` is a call that may look at gradients, or a `.grad`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) not in _BLIND
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def fatal_check(backward: Call, step: Call) -> ast.expr | ast.stmt | None:
    """What, between `backward` and `step`, ends the program by what it sees of the gradients, or
    by what is computed there of them.
    """
    script = backward.script
    begins, ends = script.end(backward.node), script.start(step.node)
    between = [
        at
        for at in ast.walk(script.function(backward.node) or script.tree)
        if isinstance(at, ast.expr | ast.stmt) and begins < script.start(at) < ends
    ]
    names = (at for at in between if isinstance(at, ast.Name))
    computed = {at.id for at in names if isinstance(at.ctx, ast.Store)}
    for at in between:
        above = (up.test for up in script.ancestors(at) if isinstance(up, ast.If) and up in between)
        asked = list(_asked(at, above))
        seen = (node for test in asked for node in ast.walk(test))
        by_gradients = any(names_in(test) & computed for test in asked)
        if _is_strict(at) or by_gradients or any(map(may_see_gradients, seen)):
            return at
    return None


def _is_strict(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(
        each.arg == _STRICT and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for each in node.keywords
    )


def _asked(node: ast.AST, above: Iterator[ast.expr]) -> Iterator[ast.expr]:
    """The tests by which `node` ends the program, `above` or its own; none where it does not."""
    if isinstance(node, ast.Assert):
        yield node.test
    ends = isinstance(node, ast.Call) and last_name(node.func) in _ENDING
    if ends or isinstance(node, ast.Assert | ast.Raise):
        yield from above
