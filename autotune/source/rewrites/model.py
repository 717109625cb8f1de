"""Statements on the model, right before its optimizer is built."""

import ast
from collections.abc import Collection
from dataclasses import replace

from autotune.source.calls.called import called_models
from autotune.source.calls.keywords import operand
from autotune.source.edits import ModelStatement
from autotune.source.insertions import before, defined_after_imports, imports_added, snippet
from autotune.source.loops.kinds import classes_built, classes_of, with_bases
from autotune.source.loops.parameters import model_of, named_models
from autotune.source.meanings import meaning
from autotune.source.places import Call, optimizer_call
from autotune.source.program import Change, Program, Refusal
from autotune.source.refusals.changed_model import check_program, check_uses
from autotune.source.script import (
    COMPREHENSIONS,
    Script,
    first_line,
    parameters,
    parse,
    root_name,
    stored_names,
)

_WHERE = "what builds the optimizer, before which it goes,"
_SECOND_CHOICE = "model_"  # before the name of a variable that the file has a use for


def model_statement(program: Program, edit: ModelStatement) -> Program:
    """`program` with `edit.code` run on each model that an optimizer is given the parameters of.

    Raises:
        Refusal: it cannot be told which model that is, or nothing can stand before the optimizer.
        Forbidden: the program could not go on with any changed model.
    """
    check_program(program, edit)
    for index in _optimizers_of(program, edit):
        program = _one_model_statement(program, edit, index)
    return program


def statements_by_hand(program: Program, edit: ModelStatement) -> str:
    """What a person would write for `edit`, and where."""
    places = (program.places.optimizer, *program.places.more_optimizers)
    first = places[_optimizers_of(program, edit)[0]]
    at = f"{first.path}:{first.line}: " if first else ""
    return f"{at}{_by_hand(program, edit, _optimizers_of(program, edit)[0])}"


def _optimizers_of(program: Program, edit: ModelStatement) -> list[int]:
    """Those whose models `edit` is for."""
    indices = range(1 + len(program.places.more_optimizers))
    own = [each for each in indices if not _is_of_another_class(program, edit, each)]
    return own or list(indices)


def _is_of_another_class(program: Program, edit: ModelStatement, index: int) -> bool:
    """Whether this optimizer's model is seen to be of another own class than `edit` is for."""
    if not (edit.of and program.places.more_optimizers):
        return False
    try:
        call = optimizer_call(program, "", index)
    except Refusal:
        return False
    model = model_of(call, {each.callee for each in program.places.outputs})
    if model is None:
        return False
    built = set[str]().union(*classes_built(program, call.script, ast.unparse(model)))
    return bool(built) and edit.of not in built


def _is_parameter(call: Call, name: str) -> bool:
    """Whether the function that `call` stands in is given `name`."""
    function = call.script.function(call.node)
    return function is not None and name in parameters(function)


def _one_model_statement(program: Program, edit: ModelStatement, index: int) -> Program:
    hand_step = _by_hand(program, edit, index)
    call = optimizer_call(program, hand_step, index, _WHERE)
    model = _model(program, edit, call, hand_step)
    script, name = call.script, operand(call.script, model)
    _check_room(call, hand_step)
    own = snippet(script, edit.code.replace("{model}", name))
    _check_rebinding(call, name, own.code, hand_step)
    variables = sorted(stored_names(parse(own.code)) - {name})
    second = _renamed(own.code, {each: _SECOND_CHOICE + each for each in variables})
    if any(_stands_before(script, call.statement, code) for code in (own.code, second)):
        return program
    check_uses(program, edit, call, model, hand_step)
    free = {each: script.free_name(each, _SECOND_CHOICE + each) for each in variables}
    own = replace(own, code=_renamed(own.code, free))
    first = first_line(call.statement)
    try:
        imports = imports_added(script, [*edit.imports, *own.imports], until=first)
    except Refusal as refusal:
        raise call.refusal(refusal.reason, hand_step) from None
    function = _function_added(call, edit.function, hand_step)
    return program.changed([*imports, *function, before(script, call.statement, own.lines)])


def _model(program: Program, edit: ModelStatement, call: Call, hand_step: str) -> ast.expr:
    """The model that the optimizer is given the parameters of.

    Raises:
        Refusal: it cannot be named, or is another than the one that `edit` is for.
    """
    called = called_models(program, call.script)
    model = model_of(call, called)
    if model is None:
        reason = "the optimizer is not given the parameters of one model that can be named"
        raise call.refusal(reason, hand_step)
    if reason := _why_another(program, edit, call, model, called):
        raise call.refusal(reason, hand_step)
    return model


def _why_another(
    program: Program, edit: ModelStatement, call: Call, model: ast.expr, called: Collection[str]
) -> str:
    """Why `model` is, or may be, another than the one that `edit` is for; "" where it is that."""
    name = call.script.code(model)
    if edit.of and name == "self" and not _is_self(program, call, edit.of):
        return f"the optimizer is built in another class than the {edit.of} which is trained"
    if _may_be_a_part(model, called):
        part = f"the optimizer is given the parameters of {name}, which may be a part"
        return f"{part} of what the loop calls"
    built = (
        [] if _is_parameter(call, name) else classes_built(program, call.script, ast.unparse(model))
    )
    others = set[str]().union(*built)
    if others and all(built) and edit.of in {at.name for at in classes_of(program)} - others:
        made = " or ".join(sorted(others))
        return f"the loop calls an object of {edit.of}, and {name} is one of {made}"
    if edit.shared:
        called_too = f"the training calls the {edit.of} and other modules by themselves"
        return f"{called_too}: {name} may be more than the {edit.of}"
    return ""


def _by_hand(program: Program, edit: ModelStatement, index: int) -> str:
    """What a person would write before an optimizer is built, and before the others."""
    imports = edit.imports if edit.function else ()
    lines = [*imports, edit.function.strip("\n"), _code_by_hand(program, edit, index)]
    own = "before this statement: " + "\n".join(line for line in lines if line)
    places = (program.places.optimizer, *program.places.more_optimizers)
    others = [
        f"before {place.path}:{place.line}: {_code_by_hand(program, edit, other)}"
        for other in _optimizers_of(program, edit)
        if other != index and (place := places[other])
    ]
    return "\n".join([own, *others])


def _code_by_hand(program: Program, edit: ModelStatement, index: int) -> str:
    """With the program's own names of the models, where they are known."""
    try:
        names = _known_names(program, edit, optimizer_call(program, "", index))
    except Refusal:
        names = []
    if not names:
        return f"{edit.code.replace('{model}', '…')}, where … is your {edit.of or 'model'}"
    return "\n".join(edit.code.replace("{model}", name) for name in names)


def _known_names(program: Program, edit: ModelStatement, call: Call) -> list[str]:
    called = called_models(program, call.script)
    model = model_of(call, called)
    if model is not None:
        other = _why_another(program, edit, call, model, called)
        return [] if other else [operand(call.script, model)]
    names = named_models(call)
    if edit.function and len(names) > 1:  # it is for the blocks of one of them
        return []
    return names if all(name.isidentifier() or name in called for name in names) else []


def _function_added(call: Call, code: str, hand_step: str) -> list[Change]:
    """What puts the function `code` behind the imports of the file that does not have it.

    Raises:
        Refusal: the file uses its name for something else.
    """
    script = call.script
    for wanted in parse(code).body:
        assert isinstance(wanted, ast.FunctionDef)
        meant = meaning(wanted, script.imports)
        if any(script.meaning(at) == meant for at in script.tree.body):
            return []
        if wanted.name in {*script.own_names(), *script.imports}:
            reason = f"the file uses the name {wanted.name} for something else"
            raise call.refusal(reason, hand_step)
        first = first_line(call.statement)
        return [defined_after_imports(script, code.strip().splitlines(), until=first)]
    return []


def _is_self(program: Program, call: Call, name: str) -> bool:
    """Whether the class that `call` stands in is `name`, or one that it derives from."""
    around = call.script.class_round(call.node)
    inside = around.name if around else ""
    classes = classes_of(program)
    heirs = (with_bases(classes, at) for at in classes if at.name == name)
    return inside == name or any(at.name == inside for bases in heirs for at in bases)


def _may_be_a_part(model: ast.expr, called: Collection[str]) -> bool:
    """Whether `model` is a variable's attribute (`net.fc`), and nothing called has its name."""
    if not isinstance(model, ast.Attribute) or not called:
        return False
    own = root_name(model) == "self"
    return not own and model.attr not in {each.rpartition(".")[2] for each in called}


def _check_room(call: Call, hand_step: str) -> None:
    """Refuse where no statement can stand right before the one that builds the optimizer."""
    script, statement = call.script, call.statement
    for holder in script.ancestors(call.node):
        if holder is statement:
            break
        if isinstance(holder, ast.Lambda | COMPREHENSIONS):
            reason = "the optimizer is built inside a lambda or comprehension"
            raise call.refusal(reason, hand_step)
    simple = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
    if not simple or not script.owns_its_lines(statement):
        raise call.refusal("the optimizer is not built by a statement of its own", hand_step)


def _check_rebinding(call: Call, name: str, code: str, hand_step: str) -> None:
    """Refuse to give a function's parameter another value: its caller would keep the old model."""
    function = call.script.function(call.node)
    if function is None or not _is_parameter(call, name):
        return
    if name in stored_names(parse(code)):
        reason = f"{name} is a parameter of {function.name}(): its caller would keep the old model"
        raise call.refusal(reason, hand_step)


def _renamed(code: str, names: dict[str, str]) -> str:
    inner = Script("", code)
    found = [at for at in inner.nodes if isinstance(at, ast.Name) and at.id in names]
    for at in sorted(found, key=inner.start, reverse=True):
        code = code[: inner.start(at)] + names[at.id] + code[inner.end(at) :]
    return code


def _stands_before(script: Script, statement: ast.stmt, code: str) -> bool:
    """Whether the file has the statements of `code`, one after the other, before `statement`."""
    wanted = [meaning(at, script.imports) for at in parse(code).body]
    siblings = script.block(statement)
    earlier = [script.meaning(at) for at in siblings[: siblings.index(statement)]]
    return any(
        earlier[at : at + len(wanted)] == wanted for at in range(len(earlier) - len(wanted) + 1)
    )
