"""A recipe: a module that offers a model and a dataset, and the program written for it."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from autotune.errors import UsageError
from autotune.workload.program.names import bindings, bound_by, written_out

# What a recipe may offer, and what each function is called with.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "build_model": (),
    "build_dataset": (),
    "build_validation_dataset": (),
    "build_optimizer": ("model",),
    "training_step": ("model", "batch"),
    "collate": ("samples",),
}
REQUIRED = ("build_model", "build_dataset")

_DASHES = re.compile(r"^# -{20,}.*\n", re.MULTILINE)
_MARK = re.compile(r"  #: (if|unless) (\w+)$")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LITERALS = (ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.JoinedStr)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFacts:
    """What a recipe was read to be, without running it."""

    offers: frozenset[str]  # names of `PARAMETERS` that it defines, and "BATCH_SIZE"
    # Every name of its module, and what binds it: an import written out, "" for all else.
    names: Mapping[str, frozenset[str]]
    uses_numpy: bool  # it imports numpy, whose random numbers are part of its training then


def inspect_recipe(source: str, path: str) -> RecipeFacts:
    """Read what the recipe `source` offers; `path` is for messages.

    Raises:
        UsageError: it does not parse, `build_model` or `build_dataset` is missing, or something
            that it offers cannot be what autotune would use it as.
    """
    tree = _parse(source, path)
    tree.body = [statement for statement in tree.body if not _is_main_block(statement)]
    names: dict[str, set[str]] = {}
    for name, origin, _ in bindings(tree):
        names.setdefault(name, set()).add(origin)
    for name in REQUIRED:
        if name not in names:
            raise UsageError(
                f"{Path(path).name} offers no {name}()",
                "a recipe defines build_model() and build_dataset(), each without arguments",
            )
    for name, _, statement in bindings(tree):
        problem = _problem(name, statement)
        if problem:
            raise UsageError(f"{Path(path).name} line {statement.lineno}: {name} {problem}")
    return RecipeFacts(
        offers=frozenset(names) & {*PARAMETERS, "BATCH_SIZE"},
        names={name: frozenset(origins) for name, origins in names.items()},
        uses_numpy=any(_imports_numpy(node) for node in ast.walk(tree)),
    )


def standalone_program(recipe_source: str, module_name: str, path: str) -> str:
    """The recipe with a plain training program below it, which runs without autotune.

    The recipe's text is kept as it is, without its `if __name__ == "__main__":` block. Names of the
    program that the recipe has taken are given another name; it calls the recipe `module_name` in
    its help. `path` is for messages.

    Raises:
        UsageError: as `inspect_recipe`.
    """
    facts = inspect_recipe(recipe_source, path)
    text = resources.files(__package__).joinpath("training_program.py").read_text("utf-8")
    program = _needed_part(_DASHES.split(text)[1].replace("RECIPE", module_name), facts)
    program = _without_collisions(_without_repeated_imports(program, facts), facts)
    recipe = _without_main_block(recipe_source).rstrip()
    text = f"\n\n\n# The training program.\n{program}"
    return recipe + (text.replace("\n", "\r\n") if "\r\n" in recipe else text)


def _parse(source: str, path: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", str(error))
        raise UsageError(f"{Path(path).name} line {line}: it is not Python: {what}") from error


def _problem(name: str, statement: ast.stmt) -> str:
    """Why what `statement` binds to `name` cannot be used, "" where nothing is known against it."""
    value = _assigned(statement)
    if name == "BATCH_SIZE":
        return _batch_size_problem(statement, value)
    if name not in PARAMETERS:
        return ""
    if isinstance(value, _LITERALS):
        return "must be a function"
    if isinstance(statement, ast.AsyncFunctionDef):
        return "must be a plain function, not async"
    if isinstance(statement, ast.FunctionDef):
        return _parameter_problem(statement.args, PARAMETERS[name])
    return ""


def _assigned(statement: ast.stmt) -> ast.expr | None:
    """What a plain `name = value` assigns."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.value
    return statement.value if isinstance(statement, ast.AnnAssign) else None


def _batch_size_problem(statement: ast.stmt, value: ast.expr | None) -> str:
    if isinstance(value, ast.Constant):
        positive = type(value.value) is int and value.value > 0
        return "" if positive else f"must be a positive whole number, not {value.value!r}"
    wrong = isinstance(statement, _DEFINITIONS) or isinstance(value, _LITERALS)
    return "must be a positive whole number" if wrong else ""


def _parameter_problem(arguments: ast.arguments, given: tuple[str, ...]) -> str:
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = len(arguments.defaults)
    needed = [argument.arg for argument in positional[: len(positional) - optional]]
    needed += [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    too_few = len(positional) < len(given) and arguments.vararg is None
    if len(needed) <= len(given) and not too_few:
        return ""
    takes = f"be callable as ({', '.join(given)})" if given else "be callable without arguments"
    return f"must {takes}; it {'needs ' + ', '.join(needed) if needed else 'takes none'}"


def _imports_numpy(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "numpy" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numpy"


def _needed_part(template: str, facts: RecipeFacts) -> str:
    """The template without the statements that this recipe has no use for, and without marks."""
    offered = set(facts.offers)
    if "build_validation_dataset" in offered:
        offered.add("validation")
    if facts.uses_numpy:
        offered.add("numpy")
    lines = template.splitlines()
    ends = _statement_ends(ast.parse(template))
    kept, number = [], 1
    while number <= len(lines):
        line = lines[number - 1]
        mark = _MARK.search(line)
        if mark and (mark[2] in offered) != (mark[1] == "if"):
            number = ends.get(number, number) + 1
            continue
        kept.append(_MARK.sub("", line))
        number += 1
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(kept)) + "\n"


def _statement_ends(tree: ast.Module) -> dict[int, int]:
    """The last line of the statement that begins on each line, decorators counted."""
    ends: dict[int, int] = {}
    for node in ast.walk(tree):  # outer statements come first
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            ends.setdefault(first, node.end_lineno or node.lineno)
    return ends


def _without_repeated_imports(program: str, facts: RecipeFacts) -> str:
    """The program without the imports that the recipe has already, in the same words."""
    lines = program.splitlines(keepends=True)
    for statement in ast.parse(program).body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            missing = [
                written_out(alias, statement)
                for alias in statement.names
                if facts.names.get(bound_by(alias, statement))
                != frozenset({written_out(alias, statement)})
            ]
            if len(missing) < len(statement.names):
                lines[statement.lineno - 1] = "".join(f"{line}\n" for line in missing)
    return "".join(lines).lstrip("\n")


def _without_collisions(program: str, facts: RecipeFacts) -> str:
    """The program with other names for those of its own that the recipe binds to something else."""
    tree = ast.parse(program)
    own = {name for name, _, _ in bindings(tree)}
    taken = own & set(facts.names)
    if not taken:
        return program
    fresh = {}
    for name in taken:
        fresh[name] = f"program_{name}"
        while fresh[name] in own | set(facts.names):
            fresh[name] += "_"
    lines = program.splitlines(keepends=True)
    for line, start, name, new in sorted(_mentions(tree, fresh), reverse=True):
        text = lines[line - 1]
        at = text.index(name, start)
        lines[line - 1] = text[:at] + new + text[at + len(name) :]
    return "".join(lines)


def _mentions(tree: ast.Module, fresh: Mapping[str, str]) -> Iterator[tuple[int, int, str, str]]:
    """Where each name is mentioned: line, column to look from, the name, what to write for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in fresh:
            yield node.lineno, node.col_offset, node.id, fresh[node.id]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in fresh:
            yield node.lineno, node.col_offset + len("def "), node.name, fresh[node.name]
        elif isinstance(node, ast.alias) and (node.asname or node.name) in fresh:
            bound = node.asname or node.name
            new = fresh[bound] if node.asname else f"{bound} as {fresh[bound]}"
            yield node.lineno, node.col_offset, bound, new


def _without_main_block(source: str) -> str:
    """The source without `if __name__ == "__main__":`; one with an `else` goes there instead."""
    lines = source.split("\n")
    for statement in reversed(ast.parse(source).body):
        if _is_main_block(statement):
            del lines[statement.lineno - 1 : statement.end_lineno]
        elif isinstance(statement, ast.If) and _asks_for_main(statement.test):
            lines[statement.lineno - 1] = "if False:"
    return "\n".join(lines)


def _is_main_block(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and _asks_for_main(statement.test) and not statement.orelse


def _asks_for_main(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = {ast.unparse(test.left), ast.unparse(test.comparators[0])}
    return isinstance(test.ops[0], ast.Eq) and sides == {"__name__", "'__main__'"}
