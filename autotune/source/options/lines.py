"""Taking statements out of a text whose other lines stay where they are."""

import ast


def put(lines: list[str], test: ast.expr, what: str) -> None:
    """Put `what` where the code of `test` stands, and nothing on what is left of its lines."""
    first, last = test.lineno - 1, (test.end_lineno or test.lineno) - 1
    end = lines[last].encode()[test.end_col_offset :].decode()
    begin = lines[first].encode()[: test.col_offset].decode()
    for number in range(first, last + 1):
        line = lines[number]
        lines[number] = line[len(line.rstrip("\r\n")) :]
    if first == last:
        lines[first] = begin + what + end
    else:
        lines[first], lines[last] = begin + what + lines[first], end


def empty(lines: list[str], span: range) -> None:
    """Leave `pass` of what stands on the lines of `span`."""
    first = lines[span.start - 1]
    indent = first[: len(first) - len(first.lstrip())]
    for number in span:
        line = lines[number - 1]
        lines[number - 1] = line[len(line.rstrip("\r\n")) :]
    lines[span.start - 1] = f"{indent}pass{lines[span.start - 1]}"
