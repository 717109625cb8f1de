"""The check of sizes finds what is too long, and nothing else."""

from tests.checks.sizes import FUNCTION_LINES, MODULE_LINES, too_long


def function_of(lines: int) -> str:
    return "def f():\n" + "    pass\n" * (lines - 1)


def test_a_function_just_under_the_limit_is_short_enough() -> None:
    assert list(too_long(function_of(FUNCTION_LINES - 1))) == []


def test_a_function_at_the_limit_is_too_long() -> None:
    ((line, sentence),) = too_long("import os\n" + function_of(FUNCTION_LINES))
    assert line == 2
    assert sentence.startswith("f has 40 lines")


def test_a_docstring_does_not_count() -> None:
    documented = "def f():\n" + '    """What.\n\n    Why.\n    """\n' + "    pass\n" * 38
    assert list(too_long(documented)) == []
    assert list(too_long(documented + "    pass\n")) != []


def test_a_method_is_a_function() -> None:
    source = "class C:\n" + "".join(f"    {line}\n" for line in function_of(50).splitlines())
    assert [line for line, _ in too_long(source)] == [2]


def test_a_module_at_the_limit_is_too_long() -> None:
    assert list(too_long("x = 1\n" * (MODULE_LINES - 1))) == []
    assert [line for line, _ in too_long("x = 1\n" * MODULE_LINES)] == [1]
