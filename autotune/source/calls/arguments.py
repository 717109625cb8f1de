"""Arguments of a call and entries of a dict display, added and removed in the style they stand in.

The only importer of libcst, which knows every comma, blank and comment between two arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from autotune.source.program import Refusal

Space = cst.BaseParenthesizableWhitespace
Item = cst.Arg | cst.BaseDictElement
_CALLEE = "f"
_NOTHING = cst.SimpleWhitespace("")


def add_argument(
    given: str, name: str, code: str, newline: str, *, unit: str, margin: str = ""
) -> str:
    """`given`, a call from its opening bracket on, with `name=code` as its last argument.

    On a line of its own where the last argument has one, or else where there is a `margin`: the
    white space to begin it with; `unit` is what the file has for one level. A trailing comma stays
    trailing.
    """
    tree = _parse_arguments(given, newline)
    argument = cst.Arg(
        value=_parse(code, newline),
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    row = _Row.of_call(_with_parentheses(tree))
    row.append(argument, unit, margin)
    return _code(row.into_call(tree), newline).removeprefix(_CALLEE)


def _with_parentheses(call: cst.Call) -> cst.Call:
    """`call` with parentheses round a lone generator, which none may stand beside without."""
    if len(call.args) != 1 or not isinstance(lone := call.args[0].value, cst.GeneratorExp):
        return call
    if lone.lpar:
        return call
    wrapped = lone.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return call.with_changes(args=[call.args[0].with_changes(value=wrapped)])


def remove_argument(given: str, name: str, newline: str) -> str:
    """`given`, a call from its opening bracket on, without its keyword argument `name`."""
    tree = _parse_arguments(given, newline)
    row = _Row.of_call(tree)
    row.remove(next(i for i, at in enumerate(tree.args) if at.keyword and at.keyword.value == name))
    return _code(row.into_call(tree), newline).removeprefix(_CALLEE)


def add_entry(display: str, key: str, code: str, newline: str, *, unit: str) -> str:
    """`display`, a dict display, with `"key": code` at its end; `unit` is one level's indent."""
    tree = _parse(display, newline)
    assert isinstance(tree, cst.Dict)
    strings = [
        element.key.value
        for element in tree.elements
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString)
    ]
    quote = "'" if strings and strings[0].startswith("'") else '"'
    row = _Row.of_dict(tree)
    entry = cst.DictElement(cst.SimpleString(f"{quote}{key}{quote}"), _parse(code, newline))
    row.append(entry, unit)
    return _code(row.into_dict(tree), newline)


def _parse_arguments(given: str, newline: str) -> cst.Call:
    tree = _parse(_CALLEE + given, newline)
    assert isinstance(tree, cst.Call)
    return tree


def _parse(text: str, newline: str) -> cst.BaseExpression:
    try:
        return cst.parse_expression(text, cst.PartialParserConfig(default_newline=newline))
    except cst.ParserSyntaxError as error:  # syntax that is newer than this libcst
        raise Refusal("the call is written in a way that cannot be edited") from error


def _code(tree: cst.CSTNode, newline: str) -> str:
    return cst.Module(body=[], default_newline=newline).code_for_node(tree)


@dataclass(slots=True, kw_only=True)
class _Row:
    """Items between two brackets, the white space before each of them, and that after the last."""

    items: list[Item]
    before: list[Space]
    closing: Space
    trailing_comma: bool

    @classmethod
    def of_call(cls, call: cst.Call) -> "_Row":
        row = cls._of(call.args, call.whitespace_before_args)
        if call.args and not row.trailing_comma:
            row.closing = call.args[-1].whitespace_after_arg
            row.items[-1] = call.args[-1].with_changes(whitespace_after_arg=_NOTHING)
        return row

    @classmethod
    def of_dict(cls, display: cst.Dict) -> "_Row":
        row = cls._of(display.elements, display.lbrace.whitespace_after)
        row.closing = display.rbrace.whitespace_before
        return row

    @classmethod
    def _of(cls, items: Sequence[Item], opening: Space) -> "_Row":
        after = [at.comma.whitespace_after for at in items if isinstance(at.comma, cst.Comma)]
        trailing = bool(items) and len(after) == len(items)
        before = [opening, *after[: len(items) - 1]] if items else []
        closing = after[-1] if trailing else _NOTHING
        return cls(items=list(items), before=before, closing=closing, trailing_comma=trailing)

    def append(self, item: Item, unit: str, margin: str = "") -> None:
        last = self.before[-1] if self.before else _NOTHING
        if margin and not isinstance(last, cst.ParenthesizedWhitespace):
            last = cst.ParenthesizedWhitespace(last_line=cst.SimpleWhitespace(margin))
        before: Space = cst.SimpleWhitespace(" ") if self.before else _NOTHING
        if isinstance(last, cst.ParenthesizedWhitespace):
            before = cst.ParenthesizedWhitespace(last_line=last.last_line)
        closing = self.closing
        if isinstance(closing, cst.ParenthesizedWhitespace) and closing.first_line.comment:
            # The comment belongs to the item that was the last one so far.
            indent = closing.last_line.value + unit
            if isinstance(before, cst.ParenthesizedWhitespace):
                indent = before.last_line.value
            before = cst.ParenthesizedWhitespace(
                first_line=closing.first_line, last_line=cst.SimpleWhitespace(indent)
            )
            self.closing = closing.with_changes(first_line=cst.TrailingWhitespace())
        self.items.append(item)
        self.before.append(before)

    def remove(self, index: int) -> None:
        before = self.before[index]
        own_line = isinstance(before, cst.ParenthesizedWhitespace)
        last = index == len(self.items) - 1
        if own_line and not last:
            self.before[index + 1] = before
        elif isinstance(before, cst.ParenthesizedWhitespace) and index > 0:
            self.closing = _line_end(before, self.closing)
        del self.items[index], self.before[index]

    def rows(self) -> list[Item]:
        """The items with the commas between them."""
        after = [*self.before[1:], self.closing]  # one too many when nothing is left
        spaced = []
        for index, (item, space) in enumerate(zip(self.items, after, strict=False)):
            comma: cst.Comma | cst.MaybeSentinel = cst.MaybeSentinel.DEFAULT
            if index < len(self.items) - 1 or self.trailing_comma:
                old = item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()
                comma = old.with_changes(whitespace_after=space)
            spaced.append(item.with_changes(comma=comma))
        return spaced

    def into_call(self, call: cst.Call) -> cst.Call:
        args = self.rows()
        if args and not self.trailing_comma:
            args[-1] = args[-1].with_changes(whitespace_after_arg=self.closing)
        opening = self.before[0] if self.before else _NOTHING
        return call.with_changes(args=args, whitespace_before_args=opening)

    def into_dict(self, display: cst.Dict) -> cst.Dict:
        elements = self.rows()
        if elements and self.trailing_comma:
            comma = cst.Comma(whitespace_after=_NOTHING)
            elements[-1] = elements[-1].with_changes(comma=comma)
        rbrace = display.rbrace.with_changes(whitespace_before=self.closing)
        return display.with_changes(elements=elements, rbrace=rbrace)


def _line_end(before: cst.ParenthesizedWhitespace, closing: Space) -> Space:
    """What closes the row when its last item is gone from its line: the comment before it stays."""
    if isinstance(closing, cst.ParenthesizedWhitespace):
        return closing.with_changes(first_line=before.first_line)
    return before if before.first_line.comment else closing
