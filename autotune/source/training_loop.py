"""The training loop in its usual form: one backward and one step in a `for` over a loader."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autotune.source.averages import averages, moves_weights
from autotune.source.counters import deciding_counter, goes_by_index
from autotune.source.forward import backwards_in_loop, is_zero_grad
from autotune.source.loss import loss_names, stored_names
from autotune.source.places import Call, backward_and_step, refusal
from autotune.source.program import Program
from autotune.source.scaler import CLIPS
from autotune.source.script import Function, Script, is_method, last_name

_LOOPS = ast.For | ast.While | ast.AsyncFor | Function
WRAPPERS = ("enumerate", "tqdm", "track", "progress_bar", "progressbar", "auto_tqdm")
_OF_MODULES = ("parameters", "named_parameters", "modules", "named_modules", "train", "eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoop:
    """A `for` over a loader with backward and step as statements of its body.

    `index` counts the batches from 0 in code of the loop's own, "" where nothing counts them.
    """

    script: Script
    node: ast.For
    backward: Call
    step: Call
    loader: ast.expr
    index: str

    @property
    def clears(self) -> list[ast.stmt]:
        """The `zero_grad()` statements before backward."""
        return [at for at in self._before if is_zero_grad(at)]

    @property
    def runs(self) -> list[list[ast.stmt]]:
        """The statements after backward that belong to the step, in stretches without others."""
        runs: list[list[ast.stmt]] = [[]]
        for statement in self._after:
            if self._belongs_to_step(statement):
                runs[-1].append(statement)
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]

    @property
    def schedulers(self) -> list[ast.stmt]:
        """The statements that step something else than the optimizer: a scheduler, a profiler."""
        step = self.step.statement
        return [
            at
            for at in self._after
            if at is not step and isinstance(at, ast.Expr) and is_method(at.value, "step")
        ]

    @property
    def others(self) -> list[ast.stmt]:
        """The statements of the body that are neither backward nor of the optimizer's step."""
        of_step = [at for run in self.runs for at in run]
        own = (*of_step, *self.clears, self.backward.statement)
        return [at for at in self.node.body if at not in own]

    @property
    def _before(self) -> list[ast.stmt]:
        return self.node.body[: self.node.body.index(self.backward.statement)]

    @property
    def _after(self) -> list[ast.stmt]:
        return self.node.body[self.node.body.index(self.backward.statement) + 1 :]

    def is_constant(self, test: ast.expr) -> bool:
        """Whether `test` comes out the same for every batch, as far as its names show."""
        read = {at.id for at in ast.walk(test) if isinstance(at, ast.Name)}
        calls = any(isinstance(at, ast.Call) for at in ast.walk(test))
        return not calls and not read & stored_names(self.node)

    def _belongs_to_step(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            fixed = not statement.orelse and self.is_constant(statement.test)
            return fixed and all(map(self._belongs_to_step, statement.body))
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        call = statement.value
        if is_method(call, "update"):  # scaler.update()
            return _receiver(call) != "" and _receiver(call) == _receiver(self.step.node)
        own = last_name(call.func) in (*CLIPS, "unscale_") or is_zero_grad(statement)
        return own or is_method(call, "step")


def training_loop(program: Program, hand_step: str) -> TrainingLoop:
    """The loop round backward and step.

    Raises:
        Refusal: it is not in the usual form; the reason says in what.
    """
    backward, step = backward_and_step(program, hand_step)
    script = backward.script
    node = next((at for at in script.ancestors(backward.node) if isinstance(at, _LOOPS)), None)
    if not isinstance(node, ast.For):
        raise backward.refusal("backward does not run in a for loop over a loader", hand_step)
    if backward.statement not in node.body or step.statement not in node.body:
        reason = "backward and the optimizer's step are not both statements of the loop's own body"
        raise backward.refusal(reason, hand_step)
    loader = loader_of(script, node, node.iter, hand_step)
    index = _index(script, node, node.iter, hand_step)
    loop = TrainingLoop(
        script=script, node=node, backward=backward, step=step, loader=loader, index=index
    )
    if reason := "".join(_unusual(loop)[:1]):
        raise refusal(script, node.lineno, reason, hand_step)
    return loop


def _receiver(call: ast.Call) -> str:
    return ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def loader_of(script: Script, node: ast.For, source: ast.expr, hand_step: str) -> ast.expr:
    """The loader that `node` goes over, inside enumerate() and progress bars.

    Raises:
        Refusal: it goes over something else.
    """
    call = _within(script, node, source)
    if call is not None:
        return loader_of(script, node, call.args[0], hand_step)
    if isinstance(source, ast.Name | ast.Attribute | ast.Subscript):
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
            values = [
                at for at in script.binds(name) if script.function(at) is script.function(node)
            ] + _entered(script, node, name)
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


def _index(script: Script, node: ast.For, source: ast.expr, hand_step: str) -> str:
    """What counts the batches of `node` from 0, "" where nothing does."""
    enumerated = enumerate_of(script, node, source)
    if enumerated is None:
        return ""
    starts = [*enumerated.args[1:], *(keyword.value for keyword in enumerated.keywords)]
    start = starts[0] if starts else ast.Constant(0)
    match node.target, start:
        case ast.Tuple(elts=[ast.Name(id=name), _]), ast.Constant(value=int(first)):
            stored = [
                at
                for at in ast.walk(node)
                if isinstance(at, ast.Name) and at.id == name and isinstance(at.ctx, ast.Store)
            ]
            if len(stored) == 1:
                return f"({name} - {first})" if first else name
    reason = "it cannot be told which batch of the epoch the loop is at"
    raise refusal(script, node.lineno, reason, hand_step)


def _index_name(node: ast.For) -> str:
    assert isinstance(node.target, ast.Tuple)
    return last_name(node.target.elts[0])


def _unusual(loop: TrainingLoop) -> list[str]:
    """What about `loop` keeps its step from being put off to a later batch."""
    script, step = loop.script, loop.step
    nodes = list(_own_nodes(loop.node))
    calls = [at for at in nodes if isinstance(at, ast.Call)]
    body = loop.node.body
    found = []
    if len(backwards_in_loop(loop.backward)) > 1:
        found.append("the loop runs more than one backward pass")
    if body.index(step.statement) < body.index(loop.backward.statement):
        found.append("the optimizer steps before backward")
    if loop.node.orelse or any(_may_exit(loop, at) for at in nodes):
        found.append("the loop can be left early or skip a batch")
    if loop.backward.node.args or loop.backward.node.keywords:
        found.append("backward is given arguments")
    if not all(script.owns_its_lines(at) for at in body):
        found.append("statements of the loop share their lines")
    found += _unusual_steps(loop, calls)
    found += _uses_between(loop, nodes)
    if counter := deciding_counter(script, nodes):
        found.append(f"the loop counts its batches in {counter}, by which the program goes")
    late, loss = loop.backward.node.lineno, loss_names(loop.backward)
    if loop.index and goes_by_index(_index_name(loop.node), nodes, loss, late):
        found.append("what the loop does depends on which batch of the epoch it is at")
    return found


def _may_exit(loop: TrainingLoop, node: ast.AST) -> bool:
    """Whether `node` can leave the loop or a batch early.

    It cannot by a condition that the loop does not change (`if args.dry_run: break`): that did not
    hold in the run, which took its steps.
    """
    if not isinstance(node, ast.Break | ast.Continue | ast.Return | ast.Yield | ast.YieldFrom):
        return False
    outer = next(at for at in loop.script.ancestors(node) if isinstance(at, ast.stmt))
    return not isinstance(outer, ast.If) or not loop.is_constant(outer.test)


def _unusual_steps(loop: TrainingLoop, calls: list[ast.Call]) -> Iterator[str]:
    guarded = [at for run in loop.runs for statement in run for at in ast.walk(statement)]
    ordered = [at for run in loop.runs for at in run]
    clears = [call for call in calls if is_method(call, "zero_grad")]
    steps = [call for call in calls if is_method(call, "step")]
    if not clears:
        yield "the loop does not clear its gradients"
    known = (*guarded, *(at for clear in loop.clears for at in ast.walk(clear)))
    if any(call not in known for call in (*clears, *steps)):
        yield "gradients are cleared, or something steps, elsewhere in the loop"
    first = ordered.index(loop.step.statement) if loop.step.statement in ordered else 0
    if any(is_zero_grad(at) for at in ordered[:first]):
        yield "gradients are cleared between backward and step"
    if any(last_name(call.func) in CLIPS and call not in guarded for call in calls):
        yield "gradients are clipped in another way than by a statement before the step"
    if any(call.args or call.keywords for call in steps if call is not loop.step.node):
        yield "a scheduler is told where in the epoch it is"


def _uses_between(loop: TrainingLoop, nodes: list[ast.AST]) -> Iterator[str]:
    attributes = [at.attr for at in nodes if isinstance(at, ast.Attribute)]
    if "grad" in attributes or "param_groups" in attributes:
        yield "the loop touches gradients or learning rates itself"
    models = _modules(loop.script) | {
        at.func.id for at in nodes if isinstance(at, ast.Call) and isinstance(at.func, ast.Name)
    }
    late = loop.node.body.index(loop.backward.statement)
    for statement in loop.others:
        after = loop.node.body.index(statement) > late
        if moves_weights(statement):
            yield "the loop changes weights itself"
        for call in (at for at in ast.walk(statement) if isinstance(at, ast.Call)):
            values = (*call.args, *(each.value for each in call.keywords))
            given = {ast.unparse(at) for at in values if isinstance(at, ast.Name | ast.Attribute)}
            if after and given & models:
                yield "the model is used again after backward"
            if averages(call, after=after):
                yield "an average of the weights is kept in the loop"
            if _optimizer(loop) in {ast.dump(at) for at in call.args}:
                yield "the optimizer is handed to other code in the loop"


def _modules(script: Script) -> set[str]:
    """What the file shows to be models: their parameters are taken, or their mode is set."""
    calls = (at for at in ast.walk(script.tree) if isinstance(at, ast.Call))
    return {
        ast.unparse(call.func.value)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MODULES
    }


def _optimizer(loop: TrainingLoop) -> str:
    given = loop.step.node.args
    return ast.dump(given[0]) if given else _receiver(loop.step.node)


def _own_nodes(loop: ast.For) -> Iterator[ast.AST]:
    """What runs in `loop` itself: functions defined in it do not."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
