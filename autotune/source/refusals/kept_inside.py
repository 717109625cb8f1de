"""What modules keep of their forward pass in attributes, in the number format of autocast."""

import ast
from collections.abc import Iterator, Set

from autotune.source.calls.writes import given_values
from autotune.source.loops.loss import GATHERING
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.refusals.gathering import SAME_FORMAT
from autotune.source.script import Function, Script, last_name

FORWARD = "forward"
# fmt: off
# Calls whose outcome autocast leaves in another number format, or that give no tensor.
OTHER_FORMAT = frozenset({
    "argmax", "argmin", "argsort", "bool", "dim", "double", "float", "half", "int", "item", "len",
    "long", "named_parameters", "numel", "parameters", "size", "state_dict", "str", "tolist",
})
_NEW = frozenset({"arange", "eye", "full", "ones", "rand", "randn", "tensor", "zeros"})
_FLOAT32_ON_A_GPU = frozenset({"exp", "log_softmax", "norm", "softmax", "softmin", "sum"})
_NO_TENSORS = frozenset({"device", "dtype", "ndim", "requires_grad", "shape", "training"})
# What gives numbers and, second, the places of these, in int64.
_WITH_PLACES = frozenset({
    "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "sort", "topk",
})
_LIKE_IT = SAME_FORMAT | {"amax", "amin", "chunk", "dropout", "max", "mean", "min"}
# fmt: on


def kept_attributes(program: Program, *, on_a_gpu: bool) -> set[str]:
    """The attributes in which modules keep what autocast may have made shorter in forward."""
    found: set[str] = set()
    for script in program.scripts.values():
        for method in forward_methods(script):
            for attribute, value in kept_in(method):
                if may_be_short(method, value, on_a_gpu):
                    found.add(attribute)
    return found


def forward_methods(script: Script) -> list[Function]:
    """The forward passes of modules in `script` (classes with a base), and what these call."""
    found: list[Function] = []
    kinds = [at for at in script.nodes if isinstance(at, ast.ClassDef)]
    bases = {last_name(base) for kind in kinds for base in kind.bases}
    for kind in (at for at in kinds if at.bases or at.name in bases):
        methods = {at.name: at for at in kind.body if isinstance(at, Function)}
        waiting = [FORWARD]
        while waiting:
            if method := methods.pop(waiting.pop(), None):
                found.append(method)
                waiting += [last_name(call.func) for call in calls_in(method)]
    return found


def kept_in(method: Function) -> Iterator[tuple[str, ast.expr]]:
    """The attributes of its object that `method` gives values or adds to, each with the value."""
    for node in ast.walk(method):
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr=name), args=values) if (
                name in GATHERING
            ):
                pairs = [(target, value) for value in values]
            case _:
                pairs = list(given_values(node))
        yield from ((name, value) for target, value in pairs if (name := _own_attribute(target)))


def _own_attribute(target: ast.expr) -> str:
    """`maps` of `self.maps` and `self.maps["first"]`."""
    while isinstance(target, ast.Subscript):
        target = target.value
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def may_be_short(
    method: Function, value: ast.expr, on_a_gpu: bool, known: Set[str] = frozenset()
) -> bool:
    """Whether `value`, in `method`, may be a tensor that autocast has made shorter, or hold one."""
    if isinstance(value, ast.Name):
        if value.id in known:
            return False
        known = known | {value.id}
        parts = _given_to(method, value.id)
    elif isinstance(value, ast.Call):
        parts = _made_from(value, on_a_gpu)
    else:
        parts = _held(value)
    return parts is None or any(may_be_short(method, at, on_a_gpu, known) for at in parts)


def _given_to(method: Function, name: str) -> list[ast.expr] | None:
    """What `method` gives the variable `name`, but places of numbers; None if it is not told."""
    values, places = list[ast.expr](), 0
    for node in ast.walk(method):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[_, ast.Name(id=second)])], value=ast.Call(func=by)
            ) if second == name:
                places += last_name(by) in _WITH_PLACES
            case ast.Assign(targets=targets, value=value):
                if name in [target.id for target in targets if isinstance(target, ast.Name)]:
                    values.append(value)
    stores = [
        at
        for at in ast.walk(method)
        if isinstance(at, ast.Name) and at.id == name and isinstance(at.ctx, ast.Store)
    ]
    return values if len(values) + places == len(stores) > 0 else None


def _held(value: ast.expr) -> list[ast.expr] | None:
    """What `value`, no call, is of the same format as; None where that cannot be told."""
    match value:
        case ast.Constant() | ast.Compare() | ast.JoinedStr():
            return []
        case ast.Attribute(attr=name) if name in _NO_TENSORS:
            return []
        case (
            ast.Subscript(value=whole)
            | ast.UnaryOp(operand=whole)
            | ast.Attribute(value=whole, attr="data" | "T" | "mT")
        ):
            return [whole]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
        case ast.BinOp(left=one, op=op, right=other) if not isinstance(op, ast.MatMult):
            # What a module has besides is a number, or float32.
            return [at for at in (one, other) if not _own_attribute(at)] or None
    return None


def _made_from(call: ast.Call, on_a_gpu: bool) -> list[ast.expr] | None:
    """What `call` gives is of the same format as; None where that cannot be told."""
    name = last_name(call.func)
    other = name in OTHER_FORMAT | _NEW or (on_a_gpu and name in _FLOAT32_ON_A_GPU)
    if other or is_widening(call):
        return []
    if isinstance(call.func, ast.Name) and name in ("max", "min"):
        return call.args
    if name not in _LIKE_IT or not isinstance(call.func, ast.Attribute):
        return None
    owner = call.func.value
    return call.args[:1] if last_name(owner) in ("self", "torch", "F", "functional") else [owner]


def is_widening(call: ast.Call) -> bool:
    """Whether `call` is `x.to(torch.float32)`."""
    given = (*call.args, *call.keywords)
    return last_name(call.func) == "to" and any("float32" in ast.unparse(at) for at in given)
