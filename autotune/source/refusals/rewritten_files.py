"""Where a training writes a file that samples are made from, which workers read at other times, or
making samples writes into one that was opened before, of which each worker has a copy.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autotune.source.loops.around_training import own_loops, running
from autotune.source.named import option_defaults, values_by_name
from autotune.source.program import Program
from autotune.source.reach import calls_in, functions_named, is_bound, told
from autotune.source.script import Function, Script, last_name, stored_names

# The methods by which samples are asked for, or chosen.
_MAKING = frozenset(("__getitem__", "__getitems__", "__iter__", "__next__"))
# Functions that are given the name of what they read, or write, as their first argument.
_READING = frozenset(
    (
        *("File", "fromfile", "genfromtxt", "imread", "load", "loadtxt", "memmap", "open_memmap"),
        *("read_csv", "read_feather", "read_json", "read_parquet", "read_pickle"),
    )
)
_WRITING = frozenset(
    (
        *("save", "savez", "savez_compressed", "savetxt", "tofile"),
        *("to_csv", "to_json", "to_parquet", "to_pickle"),
    )
)
_WRITING_SECOND = frozenset(("copy", "copyfile", "move", "rename", "replace", "save"))
_MAPPING = frozenset(("memmap", "open_memmap"))  # what they give goes on being the file
_MODE = re.compile(r"[rwaxbt+]{1,4}")
_FILE = re.compile(r"[^/\\\s.][^/\\\s]*\.\w{1,8}$")  # how a text ends that names a file
_READ_TABLE = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)
_WRITTEN_TABLE = re.compile(r"\b(?:UPDATE|INTO|DELETE\s+FROM)\s+(\w+)", re.IGNORECASE)
_DEEP = 4  # so many variables a file's name is followed through
_WRITERS = frozenset(("write", "writelines", "writerow", "writerows"))
# What writes at once, and to no file of the program's.
_SCREENS = frozenset(("stdout", "stderr", "tqdm", "trange", "pbar", "bar", "progress"))


@dataclass(frozen=True, slots=True)
class Use:
    """A node that reads or writes the file that an expression names, or a table, by its `name`."""

    script: Script
    node: ast.AST
    of: ast.expr | None = None
    name: str = ""

    @property
    def place(self) -> str:
        """Where, as people are told."""
        return self.script.at(self.node)


def rewritten(program: Program, *, between_epochs: bool = False) -> tuple[str, str, str]:
    """A file, or a table of a database, that the loop over batches writes, and samples are made
    from or chosen by; where it is written, and where it is read. Empty where none is seen.
    `between_epochs`: one that a loop over epochs writes, and what makes samples keeps.
    """
    made = {node for each in making(program) for node in ast.walk(each)}
    reads = _named(program, made, _reads)
    read = {name: use for name, use in reads if not between_epochs or _is_kept(use)}
    if not read:
        return "", "", ""
    inner, outer = own_loops(program)
    ran = running(program, outer if between_epochs else inner, strictly=True)
    for name, use in _named(program, ran, writes):
        if name in read:
            return name, use.place, read[name].place
    return "", "", ""


def _is_kept(use: Use) -> bool:
    """Whether what is read is given to an attribute or an entry, which outlives the call."""
    statement = use.script.statement(use.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return any(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)


def making(program: Program) -> set[Function]:
    """The methods by which samples are asked for or chosen, and what these call by name."""
    found = set[Function]()
    for _, kind in program.classes():
        methods = {at.name: at for at in kind.body if isinstance(at, Function)}
        waiting = [methods[name] for name in _MAKING & methods.keys()]
        while waiting:
            function = waiting.pop()
            if function not in found:
                found.add(function)
                waiting += _called(program, function, methods)
    return found


def _called(
    program: Program, function: Function, methods: Mapping[str, Function]
) -> Iterator[Function]:
    for call in calls_in(function):
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in methods:
                yield methods[name]
            case ast.Name(id=name):
                named = functions_named(program, name)
                yield from (each for script, each in named if not is_bound(script, each))


def _named(
    program: Program,
    ran: set[ast.AST],
    uses: Callable[[Program, Script, ast.AST], Iterator[Use]],
) -> Iterator[tuple[str, Use]]:
    """The files and tables that `ran` uses, by name."""
    for script in program.scripts.values():
        for node in (at for at in script.nodes if at in ran):
            for use in uses(program, script, node):
                names = {use.name} if use.of is None else _files(program, use.script, use.of)
                yield from ((name, use) for name in sorted(names))


def writes(program: Program, script: Script, node: ast.AST) -> Iterator[Use]:
    """The files and tables that `node` writes."""
    match node:
        case ast.Call(func=function, args=args):
            name = last_name(function)
            if of := _opened(node, writing=True):
                yield Use(script, node, of)
            if name in _WRITING:
                yield from (Use(script, node, each) for each in args[:1])
            root = ast.unparse(function).partition(".")[0]
            of_text = name == "replace" and root not in script.imports
            if name in _WRITING_SECOND and not of_text:
                yield from (Use(script, node, each) for each in args[1:2])
            yield from (Use(script, node, name=each) for each in _tables(node, _WRITTEN_TABLE))
        case ast.Assign(targets=[ast.Subscript(value=table)]):
            for _, mapped in _mapped(program, script, table):
                yield Use(script, node, mapped)


def _reads(program: Program, script: Script, node: ast.AST) -> Iterator[Use]:
    match node:
        case ast.Call(func=function, args=args):
            if of := _opened(node, writing=False):
                yield Use(script, node, of)
            if last_name(function) in _READING:
                yield from (Use(script, node, each) for each in args[:1])
            yield from (Use(script, node, name=each) for each in _tables(node, _READ_TABLE))
        case ast.Subscript(value=table):
            for other, mapped in _mapped(program, script, table):
                yield Use(other, node, mapped)


def _opened(call: ast.Call, *, writing: bool) -> ast.expr | None:
    """The file that `call` opens to write into, or to read, or does all of that with."""
    match call.func:
        case ast.Name(id="open") if call.args:
            of, modes = call.args[0], call.args[1:2]
        case ast.Attribute(attr="open", value=of):
            modes = call.args[:1]
        case ast.Attribute(attr="write_text" | "write_bytes", value=of):
            return of if writing else None
        case ast.Attribute(attr="read_text" | "read_bytes", value=of):
            return None if writing else of
        case _:
            return None
    modes = [*modes, *(each.value for each in call.keywords if each.arg == "mode")]
    mode = str(next((at.value for at in modes if isinstance(at, ast.Constant)), "r"))
    changes = not set("wax+").isdisjoint(mode)
    return of if _MODE.fullmatch(mode) and writing is changes else None


def _mapped(program: Program, script: Script, table: ast.expr) -> Iterator[tuple[Script, ast.expr]]:
    """The names of files that `table` is mapped from."""
    for other, value in _assigned(program, script, table):
        if isinstance(value, ast.Call) and value.args:
            shared = any(each.arg == "mmap_mode" for each in value.keywords)
            if shared or last_name(value.func) in _MAPPING:
                yield other, value.args[0]


def _tables(call: ast.Call, wanted: re.Pattern[str]) -> Iterator[str]:
    """The tables that a statement of SQL, which `call` carries out, reads or writes."""
    if last_name(call.func) in ("execute", "executemany", "read_sql", "read_sql_query"):
        for at in (at for each in call.args[:1] for at in ast.walk(each)):
            if isinstance(at, ast.Constant) and isinstance(at.value, str):
                yield from (f"table {name}" for name in wanted.findall(at.value))


def _files(program: Program, script: Script, of: ast.expr, deep: int = _DEEP) -> set[str]:
    """The files that `of` may name, by the ends of texts in it or in what its variables are."""
    found = set[str]()
    for at in ast.walk(of):
        if isinstance(at, ast.Constant) and isinstance(at.value, str):
            named = _FILE.search(at.value)
            found |= {named[0]} if named else set()
        elif isinstance(at, ast.Name | ast.Attribute) and deep:
            for other, value in _given(program, script, at):
                found |= _files(program, other, value, deep - 1)
    return found


def _given(
    program: Program, script: Script, of: ast.Name | ast.Attribute
) -> Iterator[tuple[Script, ast.expr]]:
    """What the variable or the attribute is given, as a parameter too, or as an option is."""
    yield from _assigned(program, script, of)
    name, function = last_name(of), script.function(of)
    yield from option_defaults(program, name)
    if function is not None and isinstance(of, ast.Name):
        yield from told(program, script, function, name)


def _assigned(program: Program, script: Script, of: ast.expr) -> Iterator[tuple[Script, ast.expr]]:
    """What `of` is assigned: in its function or a module; of an object's own in its class."""
    function, kind = script.function(of), script.class_round(of)
    for other in program.scripts.values():
        for value in values_by_name(other).get(last_name(of), ()) if last_name(of) else ():
            match of:
                case ast.Name():
                    known = other.function(value) in (None, function)
                case ast.Attribute(value=ast.Name(id="self")):
                    known = other.class_round(value) is kind
                case _:
                    known = True
            if known:
                yield other, value


def written_by_samples(program: Program) -> str:
    """Where a method that makes samples writes into a file that it has not opened itself."""
    makers = making(program)
    for script, function in program.functions():
        if function not in makers:
            continue
        own = stored_names(ast.Module(function.body, []))
        for call in calls_in(function):
            if any(_outlives(each, own) for each in _written_by(call)):
                return script.at(call)
    return ""


def _written_by(call: ast.Call) -> Iterator[ast.expr]:
    """The files that `call` writes into."""
    match call.func:
        case ast.Attribute(value=of, attr=name) if name in _WRITERS:
            yield of
        case ast.Name(id="print"):
            yield from (each.value for each in call.keywords if each.arg == "file")
        case ast.Attribute(attr="dump"):
            yield from call.args[1:2]


def _outlives(file: ast.expr, own: set[str]) -> bool:
    """Whether it is an attribute, or a variable that the function does not set itself."""
    if not isinstance(file, ast.Attribute | ast.Name) or last_name(file) in _SCREENS:
        return False
    return isinstance(file, ast.Attribute) or file.id not in own
