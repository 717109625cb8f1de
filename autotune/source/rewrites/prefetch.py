"""The training loop goes over its loader's batches as copied to the device, one of them ahead."""

import ast
import itertools
from collections.abc import Iterator

from autotune.source.insertions import defined_after_imports, imports_added, snippet
from autotune.source.loops.condition import code_in, given_code
from autotune.source.loops.iteration import loader_of
from autotune.source.places import Call, backward_call, copy_calls
from autotune.source.program import Forbidden, Program, Refusal, wrapping
from autotune.source.refusals.batch_uses import asks_kind, kept_on_the_host
from autotune.source.script import Function, Script, is_method, last_name, names_in

_NAME = "CopiedAhead"
_BY_HAND = (
    "side = torch.cuda.Stream() before the loop; for the batch after this one, "
    "with torch.cuda.stream(side): x = x.to(device, non_blocking=True); before that one is used, "
    "torch.cuda.current_stream().wait_stream(side); x.record_stream(torch.cuda.current_stream())"
)
_CLASS = f'''
class {_NAME}:
    """A loader's batches on the device, the next one copied meanwhile on a stream of its own."""

    sides = {{}}  # streams: memory that is free again stays with the one that it was for

    def __init__(self, loader, device):
        self.loader, self.device = loader, torch.device(device)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        if self.device.type != "cuda":
            yield from self.loader
            return
        if self.device not in self.sides:
            self.sides[self.device] = torch.cuda.Stream(self.device)
        side, waiting = self.sides[self.device], None
        for batch in self.loader:
            with torch.cuda.stream(side):
                moved = self.each(batch, lambda part: part.to(self.device, non_blocking=True))
                sent = moved, side.record_event()
            if waiting is not None:
                yield self.arrived(*waiting)
            waiting = sent
        if waiting is not None:
            yield self.arrived(*waiting)

    def arrived(self, batch, copied):
        training = torch.cuda.current_stream(self.device)
        training.wait_event(copied)
        self.each(batch, lambda part: part.record_stream(training))
        return batch

    def each(self, batch, do):
        if isinstance(batch, torch.Tensor):
            return do(batch)
        if type(batch) is dict:
            return {{name: self.each(part, do) for name, part in batch.items()}}
        if type(batch) in (list, tuple):
            return type(batch)(self.each(part, do) for part in batch)
        if hasattr(batch, "_fields") and not hasattr(batch, "to"):  # NamedTuple
            return type(batch)(*(self.each(part, do) for part in batch))
        is_user_dict = isinstance(getattr(batch, "data", None), dict) and hasattr(batch, "copy")
        if is_user_dict or hasattr(batch, "move_to_end"):  # or OrderedDict
            moved = batch.copy()
            for name, part in batch.items():
                moved[name] = self.each(part, do)
            return moved
        return batch  # the loop itself copies what is of another class
'''


def prefetch_to_device(program: Program) -> Program:
    """`program` with the loop that trains going over a `CopiedAhead` of its loader.

    Raises:
        Refusal: the loop is no `for` over a loader, or copies nothing to a device itself.
    """
    backward = backward_call(program, _BY_HAND)
    script = backward.script
    around = (at for at in script.ancestors(backward.node))
    node = next((at for at in around if isinstance(at, ast.For | ast.While | Function)), None)
    if not isinstance(node, ast.For):
        raise backward.refusal(
            "backward is not written right in a for loop over a loader", _BY_HAND
        )
    if any(isinstance(at, ast.Call) and last_name(at.func) == _NAME for at in ast.walk(node.iter)):
        return program
    if _NAME in script.own_names():
        raise backward.refusal(f"the file uses the name {_NAME} for something else", _BY_HAND)
    loader = loader_of(script, node, node.iter, _BY_HAND, built=True)
    device = _device(program, backward, node, loader)
    if name := kept_on_the_host(script, node):
        reason = f"the loop may use {name} on the host as well"
        raise backward.refusal(reason, _BY_HAND, Forbidden)
    made = snippet(script, _CLASS)
    changes = [
        *imports_added(script, made.imports, until=loader.lineno),
        defined_after_imports(script, made.lines, until=loader.lineno),
        *wrapping(script, loader, f"{_NAME}(", f", {device})"),
    ]
    return program.changed(changes)


def _device(program: Program, backward: Call, loop: ast.For, loader: ast.expr) -> str:
    """The code of the device that the loop copies its batches to.

    Raises:
        Refusal: the loop itself copies none, or names the device anew for each batch.
    """
    script = backward.script
    reason = "the loop itself copies no batch to a device that it names"
    for call in _copies(program, script, loop):
        only = _only_if(call, loop, loader)
        named = [each.value for each in call.node.keywords if each.arg == "device"]
        target = next(iter([*call.node.args, *named]), None)
        if target is None and is_method(call.node, "cuda"):
            return f'"cuda"{only}'
        if target is not None and _is_known(script, target, loop, loader):
            return f"{script.code(target)}{only}"
        if target is not None:
            code = script.code(target)
            reason = f"it cannot be told before the loop which device it copies to ({code})"
    raise backward.refusal(reason, _BY_HAND)


def _copies(program: Program, script: Script, loop: ast.For) -> Iterator[Call]:
    """The copies to a device that were seen in `loop`."""
    for place in program.places.copies:
        try:
            copies = copy_calls(program, place, "")
        except Refusal:
            continue
        for call in copies:
            if call.script is script and loop in script.ancestors(call.node):
                yield call


def _only_if(call: Call, loop: ast.For, loader: ast.expr) -> str:
    """What makes a device one where the loop does copy to it: ` if use_cuda else "cpu"`; nothing
    where it always does, or all that are tensors.

    Raises:
        Refusal: whether it does cannot be told before the loop.
    """
    script = call.script
    inside = itertools.takewhile(lambda at: at is not loop, script.ancestors(call.node))
    conditions = [
        at for at in inside if isinstance(at, ast.If | ast.IfExp) and not asks_kind(at.test)
    ]
    for at in conditions:
        copied = isinstance(at, ast.If) and script.statement(call.node) in at.body
        if len(conditions) > 1 or not copied or not _is_fixed(script, at.test, loop, loader):
            reason = (
                f"whether the loop copies its batches goes by {script.code(at.test)}, which no "
            )
            reason += "patch takes over"
            raise call.refusal(reason, _BY_HAND)
    return "".join(f' if {script.code(at.test)} else "cpu"' for at in conditions)


def _is_fixed(script: Script, test: ast.expr, loop: ast.For, loader: ast.expr) -> bool:
    """Whether `test` comes out the same throughout the loop and where `loader` stands."""
    calls = (at for at in ast.walk(test) if isinstance(at, ast.Call))
    known = all(script.qualified(at.func) == "torch.cuda.is_available" for at in calls)
    early = all(_is_given_before(script, name, loop, loader) for name in names_in(test))
    return known and early and not code_in(test) & given_code(loop.body)


def _is_known(script: Script, target: ast.expr, loop: ast.For, loader: ast.expr) -> bool:
    """Whether `target` is a device that has its name before the loop and where `loader` stands."""
    match target:
        case ast.Constant():
            return True
        case ast.Call(func=function, args=parts, keywords=[]):
            made = script.qualified(function) == "torch.device"
        case ast.JoinedStr(values=values):
            made, parts = True, [at.value for at in values if isinstance(at, ast.FormattedValue)]
        case ast.Subscript(value=whole, slice=ast.Constant()):
            made, parts = True, [whole]
        case ast.Name() | ast.Attribute():
            names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
            return bool(names) and _is_given_before(script, names[0], loop, loader)
        case _:
            return False
    return made and all(_is_known(script, part, loop, loader) for part in parts)


def _is_given_before(script: Script, name: str, loop: ast.For, loader: ast.expr) -> bool:
    """Whether `name` has its value before the loop and where `loader` stands."""
    function = script.function(loop)
    given = [
        node
        for node in script.nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and node.id == name
        and script.function(node) is function
    ]
    in_loop = any(loop in script.ancestors(node) for node in given)
    early = not given or any(script.start(node) < script.start(loader) for node in given)
    return early and not in_loop
