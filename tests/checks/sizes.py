"""Refuses modules of 300 lines or more, and functions of 40 or more.

    python -m tests.checks.sizes

Every line of a module counts. Of a function the docstring does not: to document an argument must
never be what makes it too long.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("autotune", "examples")
MODULE_LINES = 300
FUNCTION_LINES = 40


def too_long(source: str) -> Iterator[tuple[int, str]]:
    """Line and sentence for the module `source` itself and each function in it that is too long."""
    lines = len(source.splitlines())
    if lines >= MODULE_LINES:
        yield 1, f"the module has {lines} lines, not under {MODULE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = _lines(node) - _docstring_lines(node)
            if lines >= FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines, not under {FUNCTION_LINES}"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return _lines(function.body[0]) if ast.get_docstring(function, clean=False) is not None else 0


def main(paths: Iterable[Path]) -> int:
    """Print what is too long in the files `paths`; 1 where anything is, 0 otherwise."""
    findings = [
        f"{path.relative_to(ROOT)}:{line}: {sentence}"
        for path in paths
        for line, sentence in too_long(path.read_text())
    ]
    print("\n".join(findings) or "sizes: every module and function is short enough")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))))
