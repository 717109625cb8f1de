"""One source file: its text, its tree, and where in the text each part of the tree lies."""

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator

from autotune.source.meanings import imported_names, meaning, qualified

NEWLINE = re.compile(r"\r\n|\n|\r")  # what Python's own tokenizer takes for a line's end

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = ast.For | ast.AsyncFor | ast.While
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Block = list[ast.stmt]


def parse(text: str) -> ast.Module:
    """The tree of `text`, without the warnings that compiling it would print.

    Raises:
        SyntaxError: `text` is not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except ValueError as error:  # a NUL byte
            raise SyntaxError(str(error)) from error


def tree_of(text: str) -> ast.Module:
    """The tree of `text`; an empty one where it is not Python."""
    try:
        return parse(text)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def last_name(expression: ast.expr) -> str:
    """`step` of `self.optimizer.step`; "" for what is neither a name nor an attribute."""
    match expression:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def root_name(expression: ast.expr) -> str:
    """`torch` of `torch.nn.init`; "" of what does not begin with a name."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def is_none(value: ast.AST | None) -> bool:
    """Whether `value` is written as None."""
    return isinstance(value, ast.Constant) and value.value is None


def given_to(call: ast.Call) -> list[ast.expr]:
    """What `call` gives, by place and by name."""
    return [*call.args, *(each.value for each in call.keywords)]


def parameters(function: Function) -> list[str]:
    """The names of what `function` takes."""
    return [at.arg for at in ast.walk(function.args) if isinstance(at, ast.arg)]


def names_in(node: ast.AST) -> set[str]:
    """The variables that `node` has."""
    return {at.id for at in ast.walk(node) if isinstance(at, ast.Name)}


def stored_names(node: ast.AST) -> set[str]:
    """The variables that `node` gives a value."""
    names = (at for at in ast.walk(node) if isinstance(at, ast.Name))
    return {at.id for at in names if isinstance(at.ctx, ast.Store)}


def shared_names(function: Function) -> set[str]:
    """The variables of `function` that are also others'."""
    shared = (at for at in ast.walk(function) if isinstance(at, ast.Global | ast.Nonlocal))
    return {name for at in shared for name in at.names}


def straight(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of `block`, with those of its `with` blocks, which run whenever it does."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.With | ast.AsyncWith):
            yield from straight(statement.body)


def covers(node: ast.expr | ast.stmt, line: int) -> bool:
    """Whether `line` is one of those that `node` stands on."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def first_line(statement: ast.stmt | ast.Lambda) -> int:
    """The line on which `statement` begins, its decorators included."""
    return int(min(at.lineno for at in (statement, *getattr(statement, "decorator_list", ()))))


def is_method(call: ast.AST, name: str) -> bool:
    """Whether `call` is `something.name(...)`."""
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == name
    )


class Script:
    """A parsed source file; what it was made from does not change.

    Args:
        path: absolute path of the file.
        text: its whole text, newlines as they are in the file.

    Raises:
        SyntaxError: `text` is not Python.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = parse(text)
        # What is asked for again and again.
        self.nodes = tuple(ast.walk(self.tree))
        self.calls = tuple(node for node in self.nodes if isinstance(node, ast.Call))
        self._assigns = tuple(node for node in self.nodes if isinstance(node, ast.Assign))
        found = NEWLINE.search(text)
        self.newline = found[0] if found else "\n"
        self.imports = imported_names(self.nodes)  # name -> its full name
        self._starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def compile(self) -> None:
        """Compile the file, for what a tree does not show (`return` outside a function).

        Raises:
            SyntaxError: Python does not take it.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(self.tree, self.path or "<code>", "exec", dont_inherit=True)

    # Where things lie in the text

    def line_start(self, line: int) -> int:
        """Offset at which `line`, counted from 1, begins; past the last line the text's end."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self.text)

    def line_text(self, line: int) -> str:
        """`line` with its line end."""
        return self.text[self.line_start(line) : self.line_start(line + 1)]

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Offset at which `node` begins."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Offset just after `node`."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def at(self, node: ast.AST) -> str:
        """Where `node` stands, as people are told: "train.py:12"."""
        return f"{os.path.basename(self.path)}:{getattr(node, 'lineno', 1)}"

    def code(self, node: ast.expr | ast.stmt) -> str:
        """The text of `node`, without the parentheses round it."""
        return self.text[self.start(node) : self.end(node)]

    def offset(self, line: int, column: int) -> int:
        """Offset of a column, in bytes of UTF-8 as the tree counts them."""
        text = self.line_text(line)
        if not text.isascii():
            column = len(text.encode()[:column].decode(errors="ignore"))
        return self.line_start(line) + column

    def last_line(self, statement: ast.stmt) -> int:
        """The line on which `statement` ends."""
        assert statement.end_lineno is not None
        return statement.end_lineno

    def indent(self, statement: ast.stmt) -> str:
        """The white space before `statement` on its line."""
        line = self.line_text(first_line(statement))
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def owns_its_lines(self, statement: ast.stmt) -> bool:
        """Whether nothing but white space, a last semicolon and a comment shares its lines."""
        before = self.text[self.line_start(first_line(statement)) : self.start(statement)]
        after = self.text[self.end(statement) : self.line_start(self.last_line(statement) + 1)]
        decorated = first_line(statement) != statement.lineno
        following = after.strip().removeprefix(";").lstrip()
        return (decorated or not before.strip()) and following[:1] in ("", "#")

    # How things lie in the tree

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What `node` lies in, from the inside out, without `node` itself."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that is `node` or holds it."""
        return next(at for at in (node, *self.ancestors(node)) if isinstance(at, ast.stmt))

    def statements_to(self, node: ast.AST) -> list[ast.stmt]:
        """The statements that hold `node`, from the inside out, up to its function or module."""
        found = [self.statement(node)]
        for parent in self.ancestors(found[0]):
            if isinstance(parent, Function | ast.ClassDef):
                break
            if isinstance(parent, ast.stmt):
                found.append(parent)
        return found

    def function(self, node: ast.AST) -> Function | None:
        """The function that `node` lies in, None at module or class level."""
        return next((at for at in self.ancestors(node) if isinstance(at, Function)), None)

    def class_round(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that `node` lies in, None outside of any."""
        return next((at for at in self.ancestors(node) if isinstance(at, ast.ClassDef)), None)

    def block(self, statement: ast.stmt) -> Block:
        """The list of statements that `statement` is one of."""
        parent = self._parents[statement]
        for _, value in ast.iter_fields(parent):
            if isinstance(value, list) and statement in value:
                return value
        raise AssertionError("a statement lies in a block of its parent")

    def binds(self, name: str, beside: ast.AST | None = None) -> list[ast.expr]:
        """The values given to `name` by plain assignments, in order; in the function `beside`."""
        return [
            node.value
            for node in self._assigns
            if any(isinstance(at, ast.Name) and at.id == name for at in node.targets)
            if beside is None or self.function(node) is self.function(beside)
        ]

    def own_names(self) -> set[str]:
        """The names that the file defines itself: variables, parameters, functions, classes."""
        names: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    names.add(name)
            if isinstance(node, Function | ast.ClassDef):
                names.add(node.name)
        return names

    def free_name(self, *wishes: str) -> str:
        """The first of `wishes` that the file does not use, else the last one with a number."""
        used = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        used |= self.own_names() | set(self.imports)
        numbered = (f"{wishes[-1]}_{number}" for number in range(2, len(used) + 3))
        return next(name for name in (*wishes, *numbered) if name not in used)

    # What names mean

    def torch_name(self) -> str | None:
        """The name by which the whole file knows torch, None where it does not import it."""
        top = imported_names(module_level(self.tree))
        return next((name for name, meaning in top.items() if meaning == "torch"), None)

    def qualified(self, expression: ast.expr) -> str:
        """`torch.optim.SGD` of `optim.SGD`; "" for what is not a dotted name."""
        return qualified(expression, self.imports)

    def meaning(self, node: ast.AST) -> str:
        """`node` in a form that is equal for equal code, whatever its layout and imports' names."""
        return meaning(node, self.imports)


def module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement that an import of the file runs, inside `if`, `try` and `with` too."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, Function | ast.ClassDef | ast.expr) and not is_guard(node):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def is_guard(node: ast.AST) -> bool:
    """Whether it is `if __name__ == "__main__":` or `if TYPE_CHECKING:`, which an import skips."""
    guards = ("id='__name__'", "TYPE_CHECKING'")
    return isinstance(node, ast.If) and any(at in ast.dump(node.test) for at in guards)
