"""Where a forward pass puts a layer's outcome into another tensor, in a branch seldom taken."""

import ast
from collections.abc import Collection, Iterator, Set
from itertools import pairwise

from autotune.source.calls.writes import given_values
from autotune.source.loops.kinds import with_bases
from autotune.source.named import functions_by_name
from autotune.source.program import Program
from autotune.source.reach import calls_in
from autotune.source.refusals.kept_inside import OTHER_FORMAT, forward_methods
from autotune.source.script import Function, Script, is_method, is_none, last_name, names_in

# Methods that put their last argument into their tensor, both of one format.
_PUTTING = frozenset(("index_add_", "index_copy_", "index_put_", "masked_scatter_", "scatter_"))
# What gives another format, or that of another tensor.
_CASTS = OTHER_FORMAT | {"to", "type", "type_as", "bfloat16"}
_FLOAT32 = frozenset(("Embedding", "EmbeddingBag"))  # what these layers give under autocast
_PLAIN = ("int", "str")
_COUNTING = frozenset(("int", "len", "round"))  # as builtins: methods of tensors give tensors
_CONTAINERS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp)
_MAKING = frozenset(("dict", "list", "OrderedDict", "defaultdict"))
_DEEP = 3  # so many variables, or methods, a tensor is followed through to what it was made from


def put_in_a_branch(program: Program) -> str:
    """Where that is: file and line, "" where it is not seen."""
    for script in program.scripts.values():
        for method in forward_methods(script):
            numbers = _numbers(method)
            for node in ast.walk(method):
                for into, value in _put(node, numbers):
                    in_a_branch = _in_a_branch(script, node, method)
                    short = in_a_branch and _is_short(script, method, value)
                    tensor = short and not _takes_all(script, method, into)
                    if tensor and not _is_of_a_layer(script, method, into):
                        return script.at(node)
    return ""


def _numbers(method: Function) -> set[str]:
    """The variables of `method` that are numbers or texts: counted, annotated, or taken out."""
    given = method.args
    told = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    found = {at.arg for at in told if at.annotation and ast.unparse(at.annotation) in _PLAIN}
    for node in ast.walk(method):
        match node:
            case ast.For(target=ast.Name(id=name), iter=source):
                found |= {name for call in calls_in(source) if last_name(call.func) == "range"}
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=by)):
                found |= {name} if last_name(by) == "enumerate" else set()
            case ast.AugAssign(target=ast.Name(id=name), value=ast.Constant()):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found |= {name} if all(map(_is_number, _made(method, [name]))) else set()
    return found


def _is_number(value: ast.expr) -> bool:
    """Whether `value` is one, by itself, or a text."""
    match value:
        case ast.Constant(value=constant):
            return isinstance(constant, int | str) and not isinstance(constant, bool)
        case ast.Call(func=ast.Name(id=name)):
            return name in _COUNTING
    return is_method(value, "item")


def _put(node: ast.AST, numbers: Set[str]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Into what `node` puts which value, at places that a tensor says, and not these `numbers`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=into, slice=key)], value=value):
            parts = key.elts if isinstance(key, ast.Tuple) else [key]
            if any(
                isinstance(at, ast.Name | ast.Attribute | ast.Call | ast.Compare)
                and ast.unparse(at) not in numbers
                and not _is_number(at)
                for at in parts
            ):
                yield into, value
        case ast.Call(func=ast.Attribute(value=into, attr=name), args=[*_, value]) if (
            name in _PUTTING
        ):
            yield into, value


def _in_a_branch(script: Script, node: ast.AST, method: Function) -> bool:
    """Whether `node` stands in a branch of `method`, other than that of all steps that train."""
    for inner, above in pairwise((node, *script.ancestors(node))):
        if above is method:
            return False
        if isinstance(above, ast.If):
            in_each_step = ast.unparse(above.test) == "self.training" and inner in above.body
            if not in_each_step:
                return True
    return False


def _is_short(script: Script, method: Function, value: ast.expr) -> bool:
    """Whether `value` is what a layer gives, uncast, or a variable that is given nothing else."""
    if isinstance(value, ast.Name):
        made = list(_made(method, [value.id]))
        calls = [at for at in made if isinstance(at, ast.Call) and _is_short(script, method, at)]
        return made == calls != []
    if isinstance(value, ast.Call) and last_name(value.func) in _CASTS:
        return False
    return any(_is_a_layers(script, call) for call in calls_in(value))


def _is_a_layers(script: Script, call: ast.Call, deep: int = _DEEP) -> bool:
    """Whether it is `self.imputed(x)` or `self.heads[kind](x)`: a layer, or a method with one."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            functions = functions_by_name(script).get(name, ())
            kind = script.class_round(call)
            if methods := [each for each in functions if script.class_round(each) is kind]:
                inside = (at for each in methods for at in calls_in(each))
                return deep > 0 and any(_is_a_layers(script, at, deep - 1) for at in inside)
            return not _is_float32(script, call, name)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"))):
            return True
    return False


def _is_float32(script: Script, call: ast.Call, name: str) -> bool:
    """Whether the layer `name`, which `call` calls, is one that autocast leaves in float32."""
    layers = _kept_as(script, call, name)
    made = (isinstance(at, ast.Call) and last_name(at.func) in _FLOAT32 for at in layers)
    return bool(layers) and all(made)


def _kept_as(script: Script, node: ast.AST, name: str) -> list[ast.expr]:
    """What the class round `node`, or its bases, gives its attribute `name`, besides None."""
    classes = [at for at in script.nodes if isinstance(at, ast.ClassDef)]
    kind = script.class_round(node)
    parts = [part for at in with_bases(classes, kind) for part in ast.walk(at)] if kind else []
    given = [each for part in parts for each in (*given_values(part), *_registered(part))]
    values = (value for target, value in given if ast.unparse(target) == f"self.{name}")
    return [at for at in values if not is_none(at)]


def _registered(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The attribute that `node` makes a buffer, with `node`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=owner, attr="register_buffer"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield ast.Attribute(value=owner, attr=name, ctx=ast.Store()), node


def _takes_all(script: Script, method: Function, into: ast.expr) -> bool:
    """Whether `into` is a dict or a list, which takes tensors of any format."""
    match into:
        case ast.Name(id=name):
            made = list(_made(method, [name]))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            made = _kept_as(script, method, name)
        case _:
            return False
    return bool(made) and all(
        isinstance(at, _CONTAINERS) or (isinstance(at, ast.Call) and last_name(at.func) in _MAKING)
        for at in made
    )


def _is_of_a_layer(script: Script, method: Function, into: ast.expr, deep: int = _DEEP) -> bool:
    """Whether `into` comes from what a layer gives, too."""
    if any(_is_a_layers(script, call) for call in calls_in(into)):
        return True
    names = names_in(into) - {"self", "torch"}
    made = _made(method, names) if deep else ()
    return any(_is_of_a_layer(script, method, value, deep - 1) for value in made)


def _made(method: Function, names: Collection[str]) -> Iterator[ast.expr]:
    """What `method` gives the variables `names`."""
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from [value] if any(last_name(at) in names for at in targets) else []
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from [value] if last_name(target) in names else []
