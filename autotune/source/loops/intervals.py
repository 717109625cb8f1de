"""What a training does every so many steps (`if step % 500 == 0`), and a text in which it does that
sooner, so that a short run comes to it.
"""

import ast
import re
from collections.abc import Collection, Iterator

from autotune.source.edits import Places
from autotune.source.loops.around_training import loops_of_training, running
from autotune.source.program import BYTE_ORDER_MARK, Change, Program, parsed
from autotune.source.script import Script

# Of what functions that the loops call count by; in a loop itself whatever is counted is its own.
_COUNTED = re.compile(r"(step|iter|itr|iteration|epoch|update|round|episode|batch)", re.IGNORECASE)
# What runs in a step itself, where a remainder seldom has to do with how far the training is.
_IN_A_STEP = frozenset(
    ("forward", "__call__", "__getitem__", "__getitems__", "__iter__", "__init__")
)
_PATH = "<text>"
_TESTS = ast.Compare | ast.BoolOp | ast.If | ast.IfExp
_TEXT = ast.JoinedStr | ast.Tuple | ast.Dict


def intervals(program: Program) -> dict[str, frozenset[str]]:
    """By file, the code of the remainders by which the loops of the training, and what they call,
    tell that it is time for something.
    """
    inner, outer = loops_of_training(program)
    own = {node for loop in (*inner, *outer) for node in ast.walk(loop)}
    ran = running(program, [*inner, *outer])
    found = dict[str, frozenset[str]]()
    for path, script in program.scripts.items():
        codes = frozenset(
            ast.unparse(at)
            for at in _remainders(script)
            if at in own or (at in ran and _is_progress(script, at))
        )
        if codes:
            found[path] = codes
    return found


def sooner(text: str, codes: Collection[str], most: int) -> str:
    """`text` of a file, in which remainders of these `codes` are of no more than `most`. Lines stay
    where they are.
    """
    program = parsed({_PATH: text}, Places(), _PATH)
    script = program.scripts.get(_PATH)
    if script is None:
        return text
    found = (at for at in _remainders(script) if ast.unparse(at) in codes)
    changes = [change for at in found for change in _shortening(script, at, most)]
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    return mark + program.changed(changes).scripts[_PATH].text


def _remainders(script: Script) -> Iterator[ast.BinOp]:
    """Remainders of numbers, more than 2 as far as that is written, that decide something."""
    for node in ast.walk(script.tree):
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                if isinstance(left, ast.JoinedStr) or isinstance(right, _TEXT):
                    continue
                numbers = (at.value for at in (left, right) if isinstance(at, ast.Constant))
                large = all(isinstance(each, int) and each > 2 for each in numbers)
                if large and _decides(script, node):
                    yield node


def _decides(script: Script, remainder: ast.BinOp) -> bool:
    above = next(script.ancestors(remainder))
    return isinstance(above, _TESTS) or (
        isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
    )


def _is_progress(script: Script, remainder: ast.BinOp) -> bool:
    function = script.function(remainder)
    if function is None or function.name in _IN_A_STEP:
        return False
    return _COUNTED.search(ast.unparse(remainder.left)) is not None


def _shortening(script: Script, remainder: ast.BinOp, most: int) -> Iterator[Change]:
    """Of what it is, there and in what it is compared with (`step % n == n - 1`)."""
    above = next(script.ancestors(remainder))
    around = above if isinstance(above, ast.Compare) else remainder
    code = ast.dump(remainder.right)
    for at in ast.walk(around):
        if isinstance(at, ast.expr) and ast.dump(at) == code:
            yield Change(
                path=script.path,
                start=script.start(at),
                end=script.end(at),
                text=f"max(1, min({script.code(at)}, {most}))",  # of a short epoch it may be 0
            )
