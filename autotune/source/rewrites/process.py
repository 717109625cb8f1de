"""Switches of the whole process: one statement after the imports of the main script."""

import ast
import itertools

from autotune.source.edits import ProcessStatement
from autotune.source.insertions import (
    after_imports,
    after_line,
    import_line,
    imports_added,
    snippet,
)
from autotune.source.loops.before_training import (
    first_line_of_training,
    last_line_before_training,
    training_functions,
)
from autotune.source.meanings import meaning, qualified
from autotune.source.program import Change, Forbidden, Program, Refusal
from autotune.source.refusals.own_process import counted_by_threads, forked_with_one, memory_asked
from autotune.source.refusals.short_numbers import denormal_constant
from autotune.source.refusals.shrinking import asked_whether_zero
from autotune.source.script import Script, first_line, parse

_REPEATABLE = ("deterministic", "use_deterministic_algorithms")
# What throws the same switch under another name.
_OTHER_NAMES = {
    'torch.set_float32_matmul_precision("high")': (
        "torch.backends.cuda.matmul.allow_tf32 = True",
        'torch.backends.cuda.matmul.fp32_precision = "tf32"',
    )
}


def process_statement(program: Program, edit: ProcessStatement) -> Program:
    """`program` with `edit.code` run once, after the imports of its main script.

    Where the program throws the same switch itself before it trains, it throws it the new way there
    too: what it says later would otherwise win.

    Raises:
        Refusal: the main script cannot be read.
        Forbidden: it sets the number of threads, makes denormal numbers zero, or keeps memory, and
            the program depends on that.
    """
    if program.main not in program.scripts:
        fault = program.broken.get(program.main, "its text was not given")
        reason = f"the main script {program.main} cannot be read: {fault}"
        code = "\n".join((*edit.imports, edit.code.rstrip()))
        begins = "\n" if "\n" in code else " "
        raise Refusal(reason, f"{program.main}: after the imports:{begins}{code}")
    if why := _why_not(program, edit):
        raise Forbidden(why)
    wanted = parse(edit.code).body[0]
    for code in (edit.code, *_OTHER_NAMES.get(edit.code, ())):
        program = program.changed(_all_thrown(program, code))
    script = program.scripts[program.main]
    if any(
        script.meaning(statement) == meaning(wanted, {}) and _is_early(program, script, statement)
        for statement in script.tree.body
    ):
        return program
    return program.changed(_inserted(program, script, edit))


def _all_thrown(program: Program, code: str) -> list[Change]:
    """What makes all statements before the training that throw the switch of `code` throw it so."""
    wanted = parse(code).body[0]
    training = training_functions(program)
    return [
        change
        for script in _naming(program, wanted)
        for statement in script.nodes
        if isinstance(statement, ast.stmt)
        and _same_switch(script, statement, wanted)
        and (script.function(statement) is None or script.function(statement) in training)
        and _is_early(program, script, statement)
        for change in _thrown(script, statement, _unless_repeatable(script, statement, code))
    ]


def _why_not(program: Program, edit: ProcessStatement) -> str:
    """What of the program's forbids the statement; "" where nothing does."""
    if edit.threads and (at := counted_by_threads(program)):
        return f"the program asks for the number of its threads at {at}, and may go by that"
    if edit.threads and (at := forked_with_one(program)):
        return (
            f"the program sets one thread and may fork processes at {at}: with more, such a "
            "process may wait for ever for threads that it does not have"
        )
    if edit.flushes and (at := denormal_constant(program)):
        return f"the number at {at} is denormal in float32, and may be taken for zero"
    if edit.flushes and (at := asked_whether_zero(program)):
        return (
            f"the program asks at {at} whether numbers are zero, takes their logarithm or divides "
            "by them, and may make them smaller again and again: what is denormal would be zero"
        )
    if edit.keeps_memory and (at := memory_asked(program)):
        return (
            f"the program may ask at {at} how much memory is free, or how much it has itself, and "
            "do something else where what it frees stays with it"
        )
    return ""


def _naming(program: Program, wanted: ast.stmt) -> list[Script]:
    """The files in which all names of `wanted` stand, which its like cannot do without."""
    names = {at.attr for at in ast.walk(wanted) if isinstance(at, ast.Attribute)}
    scripts = program.scripts.values()
    return [script for script in scripts if all(name in script.text for name in names)]


def _is_early(program: Program, script: Script, statement: ast.stmt) -> bool:
    """Whether the program may still come to train after `statement`."""
    scope = script.function(statement)
    return statement.lineno <= last_line_before_training(program, script, scope)


def _same_switch(script: Script, statement: ast.stmt, wanted: ast.stmt) -> bool:
    if type(statement) is not type(wanted):
        return False
    if script.meaning(statement) == meaning(wanted, {}):
        return True
    switch = _switch(statement, script.imports)
    return switch != "" and switch == _switch(wanted, {})


def _unless_repeatable(script: Script, statement: ast.stmt, code: str) -> str:
    """`code`, or `not` the option beside it that asks for repeatable results; "" where always."""
    if _switch(statement, script.imports) != "torch.backends.cudnn.benchmark":
        return code
    beside = [at for at in script.block(statement) if at is not statement]
    asked = [at for each in beside for at in _repeatable(script, each)]
    asked = [at for at in asked if not (isinstance(at, ast.Constant) and not at.value)]
    match asked:
        case []:
            return code
        case [ast.Name() | ast.Attribute() as one]:
            return f"torch.backends.cudnn.benchmark = not {script.code(one)}"
    return ""


def _repeatable(script: Script, statement: ast.stmt) -> list[ast.expr]:
    """What `statement` gives for whether results are to be repeatable."""
    if _switch(statement, script.imports).rpartition(".")[2] not in _REPEATABLE:
        return []
    match statement:
        case ast.Assign(value=value):
            return [value]
        case ast.Expr(value=ast.Call(args=[value, *_])):
            return [value]
    return [ast.Constant(value=True)]


def _switch(statement: ast.stmt, imports: dict[str, str]) -> str:
    """What `statement` sets (`torch.backends.cudnn.benchmark`), "" for what is not torch's."""
    match statement:
        case ast.Expr(value=ast.Call(func=target)) | ast.Assign(targets=[target]):
            name = qualified(target, imports)
            return name if name.startswith("torch.") else ""
    return ""


def _thrown(script: Script, statement: ast.stmt, code: str) -> list[Change]:
    """What makes `statement` throw the switch as `code` does; nothing where there is no `code`."""
    own = Script("", code)
    said = {read(each) for each in own.tree.body for read in (script.meaning, own.meaning)}
    match statement, own.tree.body:
        case ast.Expr(value=ast.Call() as old), [ast.Expr(value=ast.Call() as new)]:
            start, end, text = script.end(old.func), script.end(old), code[own.end(new.func) :]
        case ast.Assign(value=old_value), [ast.Assign(value=new_value)]:
            start, end = script.start(old_value), script.end(old_value)
            text = own.code(new_value)
        case _:
            return []
    if script.meaning(statement) in said:
        return []
    return [Change(path=script.path, start=start, end=end, text=text)]


def _inserted(program: Program, script: Script, edit: ProcessStatement) -> list[Change]:
    own, until = snippet(script, edit.code), first_line_of_training(program, script)
    changes = imports_added(script, [*edit.imports, *own.imports], until=until)
    line = import_line(script, until)
    switches = [at for at in script.tree.body if _switch(at, script.imports)]
    following = [at for at in script.tree.body if first_line(at) > line]
    group = list(itertools.takewhile(lambda at: at in switches, following))
    if group:  # join the switches that stand there
        return [*changes, after_line(script, script.last_line(group[-1]), own.lines)]
    return [*changes, after_imports(script, own.lines, until=until)]
