"""Where a program views, saves or reads tensors as only the usual order of dimensions allows."""

import ast
from collections.abc import Iterator, Sequence, Set

from autotune.source.loops.around_training import own_loops, running
from autotune.source.loops.stages import later_stages
from autotune.source.program import Program, first_of
from autotune.source.reach import calls_in
from autotune.source.refusals.gathering import is_merged
from autotune.source.script import Function, Script, given_to, last_name, names_in, stored_names

_SAFETENSORS = ("safetensors.torch.save", "safetensors.torch.save_file")
_STORAGES = ("untyped_storage", "storage")
_ORDERED = ("stride", "contiguous")
_AMOUNTS = ("nbytes", "size", "data_ptr")
# What views weights, or their gradients, as if they lay in the usual order: torch's own.
_FLATTENING = frozenset(
    (
        *("parameters_to_vector", "LBFGS", "l1_unstructured", "random_unstructured"),
        *("ln_structured", "random_structured", "global_unstructured"),
    )
)
# What goes over weights, and what hands on the same memory.
_WEIGHTS = ("parameters", "named_parameters", "state_dict")
_SAME = ("data", "grad", "detach", "cpu", "clone", "abs", "float")


def viewed_later(program: Program) -> str:
    """Where weights are viewed merged, or a model's class does so out of the steps that came."""
    loops, _ = own_loops(program)
    if not loops:
        return ""
    ran = running(program, loops)
    outputs = program.places.outputs
    flat = bool(outputs) and not any(each.images for each in outputs)
    for script in program.scripts.values():
        weights = _named_weights(script)
        for call in script.calls:
            if call in ran and not _is_left_out(script, call):
                continue
            if flat and _is_of_the_outcome(script, call):
                continue
            if _is_of_weights(call, weights) or (
                is_merged(call) and _is_of_model(script, call, ran)
            ):
                return script.at(call)
    return next(_viewed_in_stages(program, loops), "")


def _viewed_in_stages(program: Program, loops: Sequence[ast.AST]) -> Iterator[str]:
    """Where only a later stage of the training does that, but to what its loops are given."""
    given = {name for at in loops if isinstance(at, ast.For) for name in stored_names(at.target)}
    for _, stage in later_stages(program):
        blocks = [*stage.body, *stage.orelse] if isinstance(stage, ast.If) else []
        inside = {node for block in blocks for node in ast.walk(block)}
        others = [call for loop in loops for call in calls_in(loop) if call not in inside]
        only_there = running(program, [*blocks]) - (running(program, [*others]) - inside)
        for script in program.scripts.values():
            for call in (at for at in script.calls if at in only_there and is_merged(at)):
                if not (
                    isinstance(call.func, ast.Attribute) and last_name(call.func.value) in given
                ):
                    yield script.at(call)


def saved_in_order(program: Program) -> str:
    """Where tensors are saved with safetensors that were not put in order in the same call."""
    return first_of(
        (script, call)
        for script, call in program.calls()
        if script.qualified(call.func) in _SAFETENSORS and not _is_put_in_order(script, call)
    )


def _is_put_in_order(script: Script, call: ast.Call) -> bool:
    """Whether what `call` saves is put in order in it, or where its name is given."""
    values: list[ast.AST] = [call]
    match call.args:
        case [ast.Name(id=name), *_]:
            values += script.binds(name, beside=call)
    return any(last_name(each.func) == "contiguous" for at in values for each in calls_in(at))


def read_as_it_lies(program: Program) -> str:
    """Where the memory of tensors is read in whatever order, or by strides that are made up."""
    loops, _ = own_loops(program)
    ran = running(program, loops)
    return first_of(
        (script, call)
        for script, call in program.calls()
        if _is_read(script, call)
        or (
            last_name(call.func) == "as_strided"
            and script.qualified(call.func).partition(".")[0] != "numpy"
            and (call not in ran or _makes_up(script, call))
        )
    )


def _makes_up(script: Script, call: ast.Call) -> bool:
    """Whether `call` is given no strides that a tensor was asked for, nor a tensor in order."""
    given = [call.func, *given_to(call)]
    names = set[str]().union(*map(names_in, given))
    given += _values(script.function(call) or script.tree, names)
    return not any(last_name(each.func) in _ORDERED for at in given for each in calls_in(at))


def _values(around: ast.AST, names: Set[str]) -> list[ast.expr]:
    """What is assigned `around` to what has one of `names` in it."""
    given = (at for at in ast.walk(around) if isinstance(at, ast.Assign))
    return [at.value for at in given if names & set[str]().union(*map(names_in, at.targets))]


def _is_read(script: Script, call: ast.Call) -> bool:
    """Whether it asks for the memory of a tensor, and for more than how much that is."""
    if call.args or call.keywords:
        return False
    if last_name(call.func) == "data_ptr":  # which mostly only tells tensors apart
        return any(name.partition(".")[0] == "ctypes" for name in script.imports.values())
    above = next(script.ancestors(call))
    counted = isinstance(above, ast.Attribute) and above.attr in _AMOUNTS
    return last_name(call.func) in _STORAGES and not counted


def _is_of_weights(call: ast.Call, weights: set[ast.AST]) -> bool:
    if last_name(call.func) in _FLATTENING:
        others = [each for at in call.args[:1] if isinstance(at, ast.List) for each in at.elts]
        return not (others and all(isinstance(each, ast.Name) for each in others))
    if not is_merged(call) or not isinstance(call.func, ast.Attribute):
        return False
    at = call.func.value
    while True:
        match at:
            case ast.Attribute(value=inner, attr=name) if name in _SAME:
                at = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SAME:
                at = inner
            case ast.Attribute(attr=name):
                return name == "weight"
            case _:
                return at in weights


def _named_weights(script: Script) -> set[ast.AST]:
    """Where a weight has the name that a loop over weights, or a `map`, gives it."""
    found = set[ast.AST]()
    for node in script.nodes:
        inside: ast.AST = node
        match node:
            case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(args=given), over]):
                names = {each.arg for each in given.args}
            case ast.For(target=target, iter=over):
                names = names_in(target)
            case ast.comprehension(target=target, iter=over):
                inside, names = next(script.ancestors(node)), names_in(target)
            case _:
                continue
        if any(last_name(call.func) in _WEIGHTS for call in calls_in(over)):
            uses = (at for at in ast.walk(inside) if isinstance(at, ast.Name))
            found.update(at for at in uses if at.id in names)
    return found


def _is_of_model(script: Script, call: ast.Call, ran: set[ast.AST]) -> bool:
    """Whether `call` stands in a class whose forward pass is among what `ran`."""
    around = script.class_round(call)
    methods = [at for at in around.body if isinstance(at, Function)] if around else []
    own = script.function(call)
    return any(at.name == "forward" and at in ran for at in methods) and (
        own is not None and own.name != "__init__"
    )


def _is_of_the_outcome(script: Script, call: ast.Call) -> bool:
    """Whether `call` is of what a model gives as a whole (`self(x)`), or of what that becomes."""
    function = script.function(call)
    if function is None or not isinstance(call.func, ast.Attribute):
        return False
    given = _values(function, names_in(call.func.value))
    made = (each for at in (call.func.value, *given) for each in calls_in(at))
    return any(ast.unparse(each.func) in ("self", "self.forward") for each in made)


def _is_left_out(script: Script, node: ast.expr) -> bool:
    """Whether `node` stands in a branch that only an evaluation takes."""
    below: ast.AST = node
    for at in script.ancestors(node):
        if isinstance(at, ast.If) and (training := _asks(at.test)) is not None:
            if below in (at.orelse if training else at.body):
                return True
        elif isinstance(at, Function):
            return any(
                isinstance(each, ast.If)
                and _asks(each.test) is True
                and isinstance(each.body[-1], ast.Return)
                and script.last_line(each) < node.lineno
                for each in at.body
            )
        below = at
    return False


def _asks(test: ast.expr) -> bool | None:
    """True where `test` asks whether a module trains, False whether it does not, else None."""
    match test:
        case ast.Attribute(attr="training"):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="training")):
            return False
    return None
