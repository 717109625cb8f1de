"""What looks at gradients between backward and step, and what ends the program by what it sees."""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence

from autotune.source.loops.loss import names_in, stored_names
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import argument, functions_named, is_bound, reached
from autotune.source.script import Function, Script, last_name, straight

# Calls between backward and step that look at no gradients: they note, print and count, choose
# among what a model gives, ask for the time or a file, or tell what is finite, which scaled
# gradients are where unscaled ones are.
# fmt: off
_BLIND = frozenset({
    "add_scalar", "all", "any", "append", "argmax", "cpu", "debug", "detach", "eq", "exists",
    "expand_as", "float", "format", "get_last_lr", "get_rank", "inference_mode", "info", "int",
    "is_file", "is_set", "isfile", "isfinite", "isinf", "isinstance", "isnan", "item", "len",
    "log", "max", "mean", "min", "monotonic", "mul_", "no_grad", "numpy", "perf_counter", "print",
    "range", "reshape", "round", "set_description", "set_postfix", "sigmoid", "size", "softmax",
    "str", "sum", "t", "time", "tolist", "topk", "view",
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
    sees = functools.partial(_sees, program)
    computed = _computed(between, sees)
    renewed = list(_renewed(script, getattr(around, "body", script.tree.body), computed, steps))
    for at in after:
        if at in between and (_is_strict(at) or _ends_inside(program, at, computed)):
            return at
        for test in _asked(script, at, loop, after):
            seen = sees if at in between else _is_grad
            anew = {name for given, name in renewed if given < script.start(at)}
            if names_in(test) & (computed - anew) or any(map(seen, ast.walk(test))):
                return at
    return None


def _sees(program: Program, node: ast.AST) -> bool:
    """Whether `node` may look at gradients: not where it calls a function of the program's in which
    nothing does.
    """
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    own = [function for _, function in functions_named(program, called)]
    inside = (at for each in own for at in ast.walk(each))
    return any(map(may_see_gradients, inside)) if own else may_see_gradients(node)


def _computed(nodes: Sequence[ast.AST], sees: Callable[[ast.AST], bool]) -> set[str]:
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
        if names - found and (names_in(value) & found or any(map(sees, ast.walk(value))))
    ]:
        found = found.union(*more)
    return found


def _renewed(
    script: Script, block: list[ast.stmt], computed: set[str], steps: int
) -> Iterator[tuple[int, str]]:
    """The variables of those `computed` to which `block` gives other values after the step, always,
    and where in the text it has done so.
    """
    for at in straight(block):
        if isinstance(at, ast.Assign) and script.start(at) > steps:
            seen = names_in(at.value) & computed or any(map(_is_grad, ast.walk(at.value)))
            yield from ((script.end(at), name) for name in stored_names(at) if not seen)


def _ends_inside(program: Program, call: ast.AST, computed: set[str]) -> bool:
    """Whether `call` comes to a function of the program's that ends it by what is not finite, other
    than what it is given here, which comes from no gradients.
    """
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
        asked = [at for test in tests for at in ast.walk(test)]
        finite = (at for at in asked if _is_finite(at))
        if any(map(_is_grad, asked)) or not all(
            _is_given_here(program, call, made, at, computed) for at in finite
        ):
            return True
    return False


def _is_given_here(
    program: Program, call: ast.Call, made: ast.AST, asked: ast.AST, computed: set[str]
) -> bool:
    """Whether `asked`, in the function `made`, is of what `call` of that gives it, and this comes
    from nothing that may look at gradients.
    """
    match asked:
        case ast.Call(args=[ast.Name(id=name)]) if name not in stored_names(made):
            for script, function in functions_named(program, last_name(call.func)):
                told = argument(call, function, name, bound=is_bound(script, function))
                if function is made and told is not None and told is not call:
                    seen = any(map(may_see_gradients, ast.walk(told)))
                    return not (seen or names_in(told) & computed)
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
