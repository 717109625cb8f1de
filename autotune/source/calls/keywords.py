"""One argument of a call, set or taken away, in whatever way the call is given it."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.source.insertions import indent_unit
from autotune.source.meanings import meaning
from autotune.source.places import Call
from autotune.source.program import Change, minimal_change, replacing
from autotune.source.script import Script, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What may be given to a callable by position, in order, and the code of its defaults."""

    positions: tuple[str, ...] = ()
    defaults: Mapping[str, str]


_LINE_LENGTH = 100  # the longest line that an added argument may make
# What no operator beside it tears apart.
ATOMS = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant | ast.Dict


def given_value(call: Call, name: str, signature: Signature) -> ast.expr | None:
    """What `call` is given for `name`, by name, position or in a dict that can be seen; else None.

    Raises:
        Refusal: starred arguments stand where `name` would be given by position.
    """
    for keyword in call.node.keywords:
        if keyword.arg == name:
            return keyword.value
    if name in signature.positions:
        position = signature.positions.index(name)
        before = call.node.args[: position + 1]
        if any(isinstance(argument, ast.Starred) for argument in before):
            raise call.refusal(f"starred arguments may hold {name}", f"{name} of this call")
        if position < len(call.node.args):
            return call.node.args[position]
    for spread in spreads_of(call):
        display = display_of(call.script, spread)
        if display and (value := _entry(display, name)):
            return value
    return None


def set_argument(
    call: Call, name: str, code: str, signature: Signature, hand_step: str
) -> list[Change]:
    """What makes `call` say `name=code`: nothing where it says so, or means so by default.

    Raises:
        Refusal: what it is given now cannot be told.
    """
    script = call.script
    value = given_value(call, name, signature)
    if value is not None:
        return replaced(script, value, code)
    spreads = spreads_of(call)
    if len(spreads) > 1:
        raise call.refusal(f"several **arguments may hold {name}", hand_step)
    default = signature.defaults.get(name) == code
    if spreads:
        return _set_in_spread(script, spreads[0], name, code, default)
    if default:
        return []
    from autotune.source.calls.arguments import (
        add_argument,  # libcst takes a quarter of a second to load
    )

    start, old = _arguments(call)
    margin = _margin(call, f", {name}={code}")
    unit = indent_unit(script, call.statement)
    new = add_argument(old, name, code, script.newline, unit=unit, margin=margin)
    return minimal_change(script.path, start, old, new)


def drop_argument(call: Call, name: str, signature: Signature, hand_step: str) -> list[Change]:
    """What leaves `name` at its default in `call`.

    Raises:
        Refusal: what it is given now cannot be told.
    """
    if all(keyword.arg != name for keyword in call.node.keywords):
        return set_argument(call, name, signature.defaults[name], signature, hand_step)
    from autotune.source.calls.arguments import remove_argument

    start, old = _arguments(call)
    new = remove_argument(old, name, call.script.newline)
    return minimal_change(call.script.path, start, old, new)


def replaced(script: Script, value: ast.expr, code: str) -> list[Change]:
    """`code` instead of `value`, unless they mean the same."""
    if script.meaning(value) == meaning(expression(code), script.imports):
        return []
    return [replacing(script, value, code)]


def expression(code: str) -> ast.expr:
    """The tree of `code`, one expression."""
    statement = parse(code).body[0]
    assert isinstance(statement, ast.Expr)
    return statement.value


def operand(script: Script, value: ast.expr) -> str:
    """The code of `value`, in parentheses where what is beside it could tear it apart."""
    code = script.code(value)
    return code if isinstance(value, ATOMS) and _is_whole(code) else f"({code})"


def _is_whole(code: str) -> bool:
    """Whether `code` is an expression without brackets round it, whatever lines it goes over."""
    try:
        return len(parse(code).body) == 1
    except SyntaxError:
        return False


def spreads_of(call: Call) -> list[ast.expr]:
    """The `**` arguments of `call`."""
    return [keyword.value for keyword in call.node.keywords if keyword.arg is None]


def display_of(script: Script, spread: ast.expr) -> ast.Dict | None:
    """The dict display that `spread` is, or that its name was given where nothing else uses it."""
    if isinstance(spread, ast.Dict):
        return spread
    if not isinstance(spread, ast.Name):
        return None
    mentions = [
        node
        for node in script.nodes
        if (isinstance(node, ast.Name) and node.id == spread.id)
        or (isinstance(node, ast.arg) and node.arg == spread.id)
    ]
    values = script.binds(spread.id)
    alone = len(mentions) == 2 and len(values) == 1
    return values[0] if alone and isinstance(values[0], ast.Dict) else None


def _arguments(call: Call) -> tuple[int, str]:
    """Offset and text of the brackets of `call` with what they hold."""
    opened = call.script.text.index("(", call.script.end(call.node.func))
    return opened, call.script.text[opened : call.script.end(call.node)]


def _margin(call: Call, added: str) -> str:
    """White space up to the first argument where the line of `call` has no room for `added`."""
    script, node = call.script, call.node
    line = script.line_text(node.lineno).rstrip()
    fits = len(line) + len(added) <= _LINE_LENGTH
    alone = getattr(call.statement, "value", None) is node and node.lineno == node.end_lineno
    if fits or not alone:
        return ""
    opened, _ = _arguments(call)
    return re.sub(r"[^\t]", " ", script.text[script.line_start(node.lineno) : opened + 1])


def _entry(display: ast.Dict, name: str) -> ast.expr | None:
    """The value that `display` certainly has for `name`; a `**` after it could give another."""
    for key, value in zip(reversed(display.keys), reversed(display.values), strict=True):
        if key is None:
            return None
        if isinstance(key, ast.Constant) and key.value == name:
            return value
    return None


def _set_in_spread(
    script: Script, spread: ast.expr, name: str, code: str, default: bool
) -> list[Change]:
    display = display_of(script, spread)
    if display is None:
        text = f'{{**{operand(script, spread)}, "{name}": {code}}}'
        return [replacing(script, spread, text)]
    if default and None not in display.keys:
        return []
    from autotune.source.calls.arguments import add_entry

    old = script.code(display)
    unit = indent_unit(script, script.statement(display))
    new = add_entry(old, name, code, script.newline, unit=unit)
    return minimal_change(script.path, script.start(display), old, new)
