"""What a program cannot do any more once CUDA is awake: choose its GPUs, and fork."""

import ast
from collections.abc import Iterator

from autotune.source.program import Program
from autotune.source.script import Script

_CHOICE = "CUDA_VISIBLE_DEVICES"
_FORKING = "multiprocessing"
# What starts a process by fork, or may; workers of a loader are forked with CUDA awake anyway.
_STARTS = frozenset(
    (
        *("fork", "forkpty", "Process", "Pool", "Popen", "ProcessPoolExecutor"),
        *("spawn", "start_processes", "get_context", "set_start_method"),
    )
)


def must_come_before_cuda(program: Program, script: Script, line: int) -> bool:
    """Whether the program may choose its GPUs, or start processes, after `line` of `script`."""
    scripts = program.scripts.values()
    texts = [ast.unparse(each.tree) for each in scripts]  # no comments
    forks = any(_FORKING in text for text in texts) and any(
        _STARTS & names for each in scripts for names in map(_names, each.nodes)
    )
    own = script if script.path == program.main else None
    return forks or not all(
        each is own and each.function(at) is None and each.statement(at).lineno <= line
        for each in scripts
        for at in _choices(each)
    )


def _names(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.alias(name=name):
            return {name.rpartition(".")[2]}
    return set()


def _choices(script: Script) -> Iterator[ast.AST]:
    """Where `script` names the variable that chooses the GPUs."""
    for node in script.nodes:
        match node:
            case ast.Constant(value=str(text)) if _CHOICE in text:
                yield node
            case ast.keyword(arg=name) if name == _CHOICE:
                yield node
