"""The training loop goes over its loader's batches as copied to the device, one of them ahead."""

import ast
import itertools

from autotune.source.insertions import defined_after_imports, imports_added, snippet
from autotune.source.loss import stored_names
from autotune.source.places import Call, backward_call, copy_calls
from autotune.source.program import Change, Program, Refusal
from autotune.source.script import Function, Script, is_method, last_name
from autotune.source.training_loop import enumerate_of, loader_of

_NAME = "CopiedAhead"
_BY_HAND = (
    "side = torch.cuda.Stream() before the loop; for the batch after this one, "
    "with torch.cuda.stream(side): x = x.to(device, non_blocking=True); before that one is used, "
    "torch.cuda.current_stream().wait_stream(side); x.record_stream(torch.cuda.current_stream())"
)
# What a loop may do with a batch wherever that lies.
_HARMLESS = ("to", "cuda", "size", "shape", "ndim", "dim", "dtype", "items", "values", "keys")
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
        raise backward.refusal("backward does not run in a for loop over a loader", _BY_HAND)
    if any(isinstance(at, ast.Call) and last_name(at.func) == _NAME for at in ast.walk(node.iter)):
        return program
    if _NAME in script.own_names():
        raise backward.refusal(f"the file uses the name {_NAME} for something else", _BY_HAND)
    loader = loader_of(script, node, node.iter, _BY_HAND)
    device = _device(program, backward, node, loader)
    if name := _kept_on_the_host(script, node):
        raise backward.refusal(f"the loop may use {name} on the host as well", _BY_HAND)
    made = snippet(script, _CLASS)
    start, end = script.start(loader), script.end(loader)
    changes = [
        *imports_added(script, made.imports, until=loader.lineno),
        defined_after_imports(script, made.lines, until=loader.lineno),
        Change(path=script.path, start=start, end=start, text=f"{_NAME}("),
        Change(path=script.path, start=end, end=end, text=f", {device})"),
    ]
    return program.changed(changes)


def _device(program: Program, backward: Call, loop: ast.For, loader: ast.expr) -> str:
    """The code of the device that the loop copies its batches to.

    Raises:
        Refusal: the loop itself copies none, or names the device anew for each batch.
    """
    script = backward.script
    for place in program.places.copies:
        try:
            copies = copy_calls(program, place, "")
        except Refusal:
            continue
        for call in copies:
            if call.script is not script or loop not in script.ancestors(call.node):
                continue
            inside = itertools.takewhile(lambda at: at is not loop, script.ancestors(call.node))
            if condition := next((at for at in inside if isinstance(at, ast.If | ast.IfExp)), None):
                reason = f"the loop copies its batches only if {script.code(condition.test)}"
                raise call.refusal(reason, _BY_HAND)
            named = [each.value for each in call.node.keywords if each.arg == "device"]
            target = next(iter([*call.node.args, *named]), None)
            if target is None and is_method(call.node, "cuda"):
                return '"cuda"'
            if target is not None and _is_known(script, target, loop, loader):
                return script.code(target)
    raise backward.refusal("the loop itself copies no batch to a device that it names", _BY_HAND)


def _kept_on_the_host(script: Script, loop: ast.For) -> str:
    """A variable of the batch that the loop does more with than copy it or ask for its size,
    before it gives that name to something else.
    """
    parts, unpacked = _parts_of_batch(script, loop)
    names = [
        node
        for at in loop.body
        for node in ast.walk(at)
        if isinstance(node, ast.Name) and node.id in parts
    ]
    anew: dict[str, int] = {}  # the end of the first statement that gives the name to another value
    for node in names:
        statement = script.statement(node)
        if isinstance(node.ctx, ast.Store) and statement not in unpacked:
            end = script.end(statement)
            anew[node.id] = min(anew.get(node.id, end), end)
    for node in names:
        early = script.end(node) <= anew.get(node.id, script.end(node))
        if early and isinstance(node.ctx, ast.Load) and script.statement(node) not in unpacked:
            above = [at for at in script.ancestors(node) if not isinstance(at, ast.Subscript)]
            copied = isinstance(above[0], ast.Attribute) and above[0].attr in _HARMLESS
            sized = isinstance(above[0], ast.Call) and last_name(above[0].func) == "len"
            if not (copied or sized):
                return node.id
    return ""


def _parts_of_batch(script: Script, loop: ast.For) -> tuple[set[str], list[ast.Assign]]:
    """The names of the batch and of its parts, and the statements that only unpack it."""
    batch = loop.target
    if isinstance(batch, ast.Tuple) and enumerate_of(script, loop, loop.iter):
        batch = batch.elts[-1]
    names, unpacked = stored_names(batch), list[ast.Assign]()
    for statement in (at for at in loop.body if isinstance(at, ast.Assign)):
        value = statement.value
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if all(_whole(each) in names for each in values):
            unpacked.append(statement)
            names |= set().union(*map(stored_names, statement.targets))
    return names, unpacked


def _whole(value: ast.expr) -> str:
    """The variable that `value` is, or is an element of, "" where it is neither."""
    while isinstance(value, ast.Subscript):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


def _is_known(script: Script, target: ast.expr, loop: ast.For, loader: ast.expr) -> bool:
    """Whether `target` is a device that has its name before the loop and where `loader` stands."""
    if isinstance(target, ast.Constant):
        return True
    names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
    if not isinstance(target, ast.Name | ast.Attribute) or not names:
        return False
    function = script.function(loop)
    given = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and node.id == names[0]
        and script.function(node) is function
    ]
    in_loop = any(loop in script.ancestors(node) for node in given)
    early = not given or any(script.start(node) < script.start(loader) for node in given)
    return early and not in_loop
