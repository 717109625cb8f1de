"""What the conditions of a program read in the functions that a step is made in, as it is there."""

import argparse
import ast
import functools
import inspect
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from autotune.source.reach import own_code
from autotune.source.script import LOOPS, Function, first_line, last_name, tree_of
from autotune.source.standing import PLAIN, OptionValue, Standing
from autotune.workload.places import frames, is_users
from autotune.workload.program.framework import OURS
from autotune.workload.program.script import run_script
from autotune.workload.samples.asked import is_users_class

# Who asks for all of a function's variables may keep what it is given.
_ASKING = frozenset(("locals", "vars", "dir", "eval", "exec"))
# Libraries that call a program's main function, and once.
_ONCE = frozenset(("hydra", "click", "fire", "typer", "absl", "jsonargparse", "<frozen runpy>"))
_HOLDING = (argparse.Namespace, SimpleNamespace)
_OF_TORCH = ("training",)  # what it sets of a module that is the program's own
_NOTHING: Any = object()


class Written:
    """The texts of a program's files, read where that is asked: what stands there is no secret."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = files

    def has(self, value: str) -> bool:
        """Whether one of them has `value`, in quotes."""
        return any(f"{mark}{value}{mark}" in text for text in self._texts for mark in "'\"")

    @functools.cached_property
    def _texts(self) -> list[str]:
        return [_text(file) or "" for file in self._files if file.endswith(".py")]


def _text(file: str) -> str | None:
    with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
        return opened.read()
    return None


def standing(written: Written) -> tuple[Standing, ...]:
    """Of each of the program's functions that this thread is in, from the outermost to where it is
    now, what its conditions read, if nothing that it comes to from here on sets it, and it is
    called with the same again; texts only if they are `written` in its source.
    """
    found: list[Standing] = []
    outer: _Scope | None = None
    again = False
    files: dict[str, _Scope] = {}
    since_its_start = takewhile(lambda each: each.f_code is not run_script.__code__, frames())
    for frame in reversed(list(since_its_start)):
        path = frame.f_code.co_filename
        if is_users(path):
            outer = _Scope.of(frame, outer, again)
            if outer is not None:
                outer.file = files.setdefault(path, outer)
                found.append(outer.told(written))
            again = again or outer is None or outer.repeats
        elif not path.startswith(OURS) and _ONCE.isdisjoint(path.split(os.sep)):
            again, outer = True, None
    return tuple(each for each in found if each.values or each.there)


class _Scope:
    """A function of the program's that is being run, or the code of one of its files."""

    def __init__(
        self,
        node: ast.Module | Function,
        tree: ast.Module,
        frame: FrameType,
        outer: "_Scope | None",
        again: bool,
    ) -> None:
        self.node, self._tree = node, tree
        self.file = self  # the outermost that is run of the file that it stands in
        self._frame, self._line = frame, frame.f_lineno
        self._own = list(own_code(node))
        loops = [at.lineno for at in self._own if isinstance(at, LOOPS) and _has(at, self._line)]
        self._from = min(loops, default=self._line)
        self._variables = _variables(frame)
        self._is_again = again
        self._given = outer.gives(node) if outer and isinstance(node, Function) else frozenset()
        self.repeats = again or bool(loops)  # it, or what calls it, is in a loop at this moment

    @classmethod
    def of(cls, frame: FrameType, outer: "_Scope | None", again: bool) -> "_Scope | None":
        """That of `frame`, which `outer` calls, once or `again`; None where no source shows it."""
        code = frame.f_code
        text = _text(code.co_filename)
        if text is None:
            return None
        tree = tree_of(text)
        if code.co_name == "<module>":
            return cls(tree, tree, frame, outer, again)
        for node in (each for each in ast.walk(tree) if isinstance(each, Function)):
            if (node.name, first_line(node)) == (code.co_name, code.co_firstlineno):
                asks = any(map(_asks, ast.walk(node)))
                return None if asks else cls(node, tree, frame, outer, again)
        return None

    def told(self, written: Written) -> Standing:
        """What its conditions read."""
        values: dict[str, OptionValue] = {}
        there = set[str]()
        for part in self._read():
            value = self._value(part) if self.stays(part) else _NOTHING
            if value is _NOTHING:
                continue
            kind = type(value)  # `isinstance` may ask the object itself
            if issubclass(kind, PLAIN) or (issubclass(kind, str) and written.has(value)):
                values[ast.unparse(part)] = value
            else:
                there.add(ast.unparse(part))
        line = self.node.lineno if isinstance(self.node, Function) else 0
        return Standing(
            path=os.path.abspath(self._frame.f_code.co_filename),
            line=line,
            values=tuple(sorted(values.items())),
            there=tuple(sorted(there)),
        )

    def _read(self) -> Iterator[ast.expr]:
        """The names, attributes and items that its conditions ask for."""
        for at in self._own:
            if isinstance(at, ast.If | ast.IfExp):
                for part in ast.walk(at.test):
                    if isinstance(part, ast.Name | ast.Attribute | ast.Subscript):
                        yield part

    def stays(self, value: ast.expr) -> bool:
        """Whether `value` is a constant, or read of a variable that this function sets no more, and
        sets to the same if it is called again.
        """
        if isinstance(value, ast.Constant):
            return True
        root = value
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        stored = [getattr(at, "lineno", 0) for at in self._own if _stores(at, root.id)]
        if isinstance(self.node, Function) and root.id not in self._variables:
            return not stored and self._is_kept(root)
        if any(line >= self._from for line in stored):
            return False
        if isinstance(self.node, ast.Module):
            return self._is_kept(root)
        return root.id in self._given or not self._is_again

    def _is_kept(self, name: ast.Name) -> bool:
        """Whether no function of the file sets the global `name`, nor the file's own code, where it
        is what is being run.
        """
        tree = self._tree
        if any(isinstance(at, ast.Global) and name.id in at.names for at in ast.walk(tree)):
            return False
        whole = self.file
        return whole is self or not isinstance(whole.node, ast.Module) or whole.stays(name)

    def gives(self, function: Function) -> frozenset[str]:
        """The parameters for which the call that is under way gives what stays."""
        calls = [
            at
            for at in self._own
            if isinstance(at, ast.Call) and _has(at, self._line)
            if last_name(at.func) == function.name
        ]
        if len(calls) != 1 or any(isinstance(at, ast.Starred) for at in calls[0].args):
            return frozenset()
        places = [at.arg for at in (*function.args.posonlyargs, *function.args.args)]
        owner = places[:1] in (["self"], ["cls"])
        of = calls[0].func
        told = {places[0]: of.value} if owner and isinstance(of, ast.Attribute) else {}
        told |= zip(places[owner:], calls[0].args, strict=False)
        told |= {at.arg: at.value for at in calls[0].keywords if at.arg}
        known = {*places, *(at.arg for at in function.args.kwonlyargs)}
        if any(at.arg is None for at in calls[0].keywords):
            known = set(told)
        return frozenset(name for name in known if name not in told or self.stays(told[name]))

    def _value(self, part: ast.expr) -> Any:
        """What `part` is, by looking alone; `_NOTHING` where it has to be asked for."""
        match part:
            case ast.Name(id=name):
                return self._variables.get(name, self._frame.f_globals.get(name, _NOTHING))
            case (
                ast.Attribute(value=of, attr=name)
                | ast.Subscript(value=of, slice=ast.Constant(value=str(name)))
            ):
                owner = self._value(of)
                if issubclass(type(owner), dict):
                    return dict.get(owner, name, _NOTHING)
                return _attribute(owner, name) if isinstance(part, ast.Attribute) else _NOTHING
        return _NOTHING


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _ASKING
    return False


def _has(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _stores(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=stored, ctx=ast.Store() | ast.Del()):
            return stored == name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
        case ast.FunctionDef(name=stored) | ast.ClassDef(name=stored):
            return stored == name
    return False


def _attribute(owner: Any, name: str) -> Any:
    """What `owner` has itself by that name, if it is of the program's own, or holds options: what a
    library has it may set at any time. No property is asked, which may do anything.
    """
    kind = type(owner)
    if kind.__module__.partition(".")[0] == "omegaconf":  # what Hydra reads its files into
        with suppress(Exception):
            return owner.get(name, _NOTHING)
        return _NOTHING
    file = vars(owner).get("__file__") if kind is ModuleType else None
    known = kind in _HOLDING or is_users_class(kind) or (file and is_users(file))
    found = inspect.getattr_static(owner, name, _NOTHING)
    if not known or name in _OF_TORCH or hasattr(type(found), "__get__"):
        return _NOTHING
    return found


def _variables(frame: FrameType) -> Mapping[str, Any]:
    """The variables of a function; before Python 3.13 it holds on to them, once it was asked."""
    asked = frame.f_locals
    found = dict(asked)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        asked.clear()
    return found
