"""The loops of one training, without those that go through several: folds, repeats, models."""

import ast
import re

from autotune.source.loops.around_training import loops_of_training
from autotune.source.program import Program
from autotune.source.reach import callers
from autotune.source.script import last_name, names_in, stored_names

# What is called of a model, or with it, as its training begins.
_BEGINNING = frozenset(("train", "fit", "parameters"))
_ANEW = re.compile(r"init|reset(?!_?(state|hidden|memory))", re.IGNORECASE)
_MODEL = re.compile(r"model|net(work)?$|module|learner|agent|trainer", re.IGNORECASE)


def loops_of_one_training(program: Program) -> tuple[list[ast.AST], list[ast.AST]]:
    """`loops_of_training` without those round these whose turns each train another model."""
    inner, outer = loops_of_training(program)
    holders = {
        name
        for script in program.scripts.values()
        for loop in (*inner, *outer)
        if (function := script.function(loop)) is not None
        for name in callers(program, function.name)
    }
    closest, further = outer[:1], outer[1:]
    return inner, closest + [at for at in further if not _trains_another(at, outer, holders)]


def _trains_another(loop: ast.AST, outer: list[ast.AST], holders: set[str]) -> bool:
    """Whether a turn of `loop` binds the model that it trains, or begins its weights anew."""
    if not isinstance(loop, ast.For | ast.While):
        return False
    whole = set(ast.walk(loop))
    nested = {node for each in outer if each in whole - {loop} for node in ast.walk(each)}
    bound = names_in(loop.target) if isinstance(loop, ast.For) else set[str]()
    trained = set[str]()
    for node in whole - nested:
        match node:
            case ast.Assign(value=ast.Call() as made):
                bound |= stored_names(node) - names_in(made)
            case ast.Call(func=ast.Attribute(value=owner), args=[]) if (
                last_name(node.func) in _BEGINNING
            ):
                trained |= names_in(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr="apply"), args=[begins]):
                bound |= names_in(owner) if _ANEW.search(last_name(begins)) else set()
            case ast.Call(args=given) if last_name(node.func) in holders:
                names = (at.id for at in given if isinstance(at, ast.Name))
                trained |= set(filter(_MODEL.search, names))
    return bool(bound & trained)
