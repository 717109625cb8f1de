"""What looks at gradients between backward and step, and what ends the program by what it sees."""

import ast
import functools
from collections.abc import Iterator, Sequence

from autotune.source.loops.late_terms import FINITE
from autotune.source.places import Call
from autotune.source.program import Program
from autotune.source.reach import argument, functions_named, is_bound, reached
from autotune.source.script import (
    Function,
    Script,
    last_name,
    names_in,
    shared_names,
    stored_names,
    straight,
)

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
_LOOPS = ast.For | ast.While
_STRICT = "error_if_nonfinite"  # of torch.nn.utils.clip_grad_norm_


def may_see_gradients(node: ast.AST) -> bool:
    """Whether `node` is a call that may look at gradients, or a `.grad`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) not in _BLIND
    return _is_grad(node)


def fatal_check(program: Program, backward: Call, step: Call) -> ast.expr | ast.stmt | None:
    """What ends the program, or its loop, by gradients seen between `backward` and `step`."""
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
    computed = _computed(program, between)
    block = getattr(around, "body", script.tree.body)
    renewed = list(_renewed(program, script, block, computed, steps))
    for at in after:
        if at in between and (_is_strict(at) or _ends_inside(program, at, computed)):
            return at
        for test in _asked(script, at, loop, after):
            seen = sees if at in between else _is_grad
            anew = {name for given, name in renewed if given < script.start(at)}
            if _names(program, test) & (computed - anew) or any(map(seen, ast.walk(test))):
                return at
    return None


def _sees(program: Program, node: ast.AST) -> bool:
    """Whether `node` may look at gradients, itself or by an own function that it calls."""
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    own = [function for _, function in functions_named(program, called)]
    inside = (at for each in own for at in ast.walk(each))
    return any(map(may_see_gradients, inside)) if own else may_see_gradients(node)


def _computed(program: Program, nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that `nodes` give values which come from what may look at gradients."""
    given = [
        (at.value, _given(at))
        for at in nodes
        if isinstance(at, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and at.value
    ]
    given += [(at.iter, _given(at.target)) for at in nodes if isinstance(at, ast.For)]
    sees = functools.partial(_sees, program)
    found = set[str]().union(*(own for value, own in given if any(map(sees, ast.walk(value)))))
    parts = [(_names(program, value), own) for value, own in given]
    while more := {name for names, own in parts if names & found for name in own} - found:
        found |= more
    return found


def _given(node: ast.AST) -> set[str]:
    """The variables that `node` gives a value, whole or in part (`stats["norm"] = ...`)."""
    kinds = ast.Name | ast.Attribute | ast.Subscript
    targets = (at for at in ast.walk(node) if isinstance(at, kinds))
    return {_owner(at) for at in targets if isinstance(at.ctx, ast.Store)} - {""}


def _owner(target: ast.expr) -> str:
    """`stats` of `stats["norm"]`, and of `stats.norm`; `self.stats` of `self.stats["norm"]`."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute) and _is_self(target.value):
            return f"self.{target.attr}"
        target = target.value
    return last_name(target)


def _names(program: Program, node: ast.AST) -> set[str]:
    """The variables that `node` has, or a function of the program's reads that it comes to call."""
    found = _variables(node)
    for made in reached(program, [node]):
        found |= _read_in(made) if isinstance(made, Function) else set()
    return found


def _read_in(function: Function) -> set[str]:
    """The variables that `function` reads and does not have to itself."""
    given = {at.arg for at in ast.walk(function) if isinstance(at, ast.arg)}
    own = (stored_names(function) | given) - shared_names(function)
    return _variables(function) - own


def _variables(node: ast.AST) -> set[str]:
    """The variables in `node`, and as `self.norm` the attributes of the object it is a method's."""
    own = (at for at in ast.walk(node) if isinstance(at, ast.Attribute) and _is_self(at.value))
    return (names_in(node) - {"self"}) | {f"self.{at.attr}" for at in own}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _renewed(
    program: Program, script: Script, block: list[ast.stmt], computed: set[str], steps: int
) -> Iterator[tuple[int, str]]:
    """The `computed` variables that `block` always gives others after the step, and from where."""
    for at in straight(block):
        if isinstance(at, ast.Assign) and script.start(at) > steps:
            names = _names(program, at.value)
            seen = names & computed or any(map(_is_grad, ast.walk(at.value)))
            yield from ((script.end(at), name) for name in stored_names(at) if not seen)


def _ends_inside(program: Program, call: ast.AST, computed: set[str]) -> bool:
    """Whether `call` comes to an own function that ends it by what is `computed`, or not finite."""
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
        calls = (at for at in asked if isinstance(at, ast.Call))
        finite = (at for at in calls if last_name(at.func) in FINITE)
        read = computed & _read_in(made) if isinstance(made, Function) else set[str]()
        if any(_is_grad(at) or _variables(at) & read for at in asked) or not all(
            _is_given_here(program, call, made, at, computed) for at in finite
        ):
            return True
    return False


def _is_given_here(
    program: Program, call: ast.Call, made: ast.AST, asked: ast.AST, computed: set[str]
) -> bool:
    """Whether `asked`, in `made`, is of what `call` gives it, which comes from no gradients."""
    match asked:
        case ast.Call(args=[ast.Name(id=name)]) if name not in stored_names(made):
            for script, function in functions_named(program, last_name(call.func)):
                told = argument(call, function, name, bound=is_bound(script, function))
                if function is made and told is not None and told is not call:
                    seen = any(map(may_see_gradients, ast.walk(told)))
                    return not (seen or _names(program, told) & computed)
    return False


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_strict(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(
        each.arg == _STRICT and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for each in node.keywords
    )


def _asked(
    script: Script, node: ast.AST, loop: ast.AST | None, within: Sequence[ast.AST]
) -> Iterator[ast.expr]:
    """The tests by which `node` ends the program or leaves `loop`; none where it does not."""
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
