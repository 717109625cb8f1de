"""What makes two searches the same: whose trials go on, and whose answer stands. The keys are told
by hashing; for `kept_answer` the program is started too, with the device held.
"""

import ast
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.flow.context import Context
from autotune.flow.settings_files import settings_hash, settings_named
from autotune.knobs import read_all
from autotune.measurement.processes.process import RunEnded
from autotune.outputs.document import read_document
from autotune.result import Result
from autotune.source.script import tree_of
from autotune.trials.trial import FINAL, PASSING
from autotune.workload.program.imported import files_that_run, imported_files
from autotune.workload.program.target import OBJECTS, Target
from autotune.workload.seen import Seen

STEPS = 2  # that show a program's data
_OF_LOADER = (
    *("dataset", "dataset_length", "batch_size", "num_workers", "prefetch_factor"),
    *("persistent_workers", "pin_memory", "shuffle", "drop_last"),
)
_OF_OPTIMIZER = ("name", "parameters", "fused", "foreach")
# What torch, the libraries that compute for it, and the allocators read, which no program need name
# (the documentation of each; GNU's and Intel's OpenMP, glibc's malloc).
OF_LIBRARIES = (
    *("ATEN_CPU_CAPABILITY", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT"),
    *("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCHINDUCTOR_MAX_AUTOTUNE"),
    *("TORCHINDUCTOR_FREEZING", "TORCHINDUCTOR_CPP_WRAPPER", "PYTORCH_JIT"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
    *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TORCH_CUDNN_V8_API_DISABLED"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC"),
    *("OMP_SCHEDULE", "OMP_THREAD_LIMIT", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT"),
    *("KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET", "KMP_LIBRARY"),
    *("MKL_NUM_THREADS", "MKL_DYNAMIC", "MKL_THREADING_LAYER", "MKL_ENABLE_INSTRUCTIONS"),
    *("MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
    *("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "NUMEXPR_NUM_THREADS"),
    *("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_CONF", "MALLOC_ARENA_MAX", "PYTHONMALLOC"),
    *("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_"),
)
# Variables of a shell, and of one job among many, that say nothing about the program.
_PASSING = re.compile(
    r"_|PWD|OLDPWD|SHLVL|HOSTNAME|MASTER_\w+|\w*JOB_?ID|(SLURM|PBS|LSB)_\w+|(LOCAL_)?RANK"
)


def program_key(context: Context) -> str:
    """The same program, arguments, machine, versions and libraries' variables, as far as can be
    told without running it.
    """
    target, machine = context.target, context.machine
    facts = {
        "sources": _sources(target),
        "arguments": [_argument(target, each) for each in target.arguments],
        "machine": [machine.device, machine.device_name, machine.cores],
        "versions": machine.versions,
        "variables": {name: os.environ[name] for name in OF_LIBRARIES if name in os.environ},
        "seed": context.options.seed,
    }
    return f"{target.name}-{_digest(facts)}"


def study_key(context: Context, seen: Seen) -> str:
    """The same program on the same data and with the same own settings: trials, which are kept as
    what differs from those, that can be compared.
    """
    loop = f"-loop-{seen.passed_loops}" if seen.passed_loops else ""
    return f"{program_key(context)}{loop}-{_digest(_training(seen) | {'own': read_all(seen)})}"


def search_key(context: Context, seen: Seen) -> str:
    """The same trials, data and wishes: a search that would give the same answer again."""
    options = context.options
    facts = _training(seen) | {
        "allow": options.allow,
        "knobs": sorted((name, values) for name, values in options.knobs.items()),
        "memory_limit": options.memory_limit_bytes,
        "energy": options.energy,
        "sampler": options.sampler,
        "patience": options.patience_seconds,
        "trials": options.trials,
    }
    return f"{program_key(context)}-{_digest(facts)}"


def hashes_of_files(target: Target, seen: Seen) -> dict[str, str]:
    """The hash of the text of each file that the program runs beside its own, by its path."""
    files = {str(file): text for file, text in files_that_run(target, seen.modules)}
    files.pop(target.path, None)
    return {path: _hash(text) for path, text in files.items()}


def _training(seen: Seen) -> dict[str, Any]:
    """The data, and what the program chose itself, as far as two steps show it."""
    return {
        "batch": seen.batch,
        "models": [[each.name, each.parameters, each.dtype] for each in seen.models],
        "optimizer": [getattr(seen.optimizer, name, None) for name in _OF_OPTIMIZER],
        "threads": seen.threads,
        "loader": [getattr(seen.loader, name, None) for name in _OF_LOADER],
        "autocast": seen.autocast,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _argument(target: Target, argument: str) -> str:
    named = Path(target.directory, argument.partition("=")[2] or argument)
    return f"{argument} {settings_hash(named)}".rstrip()


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The variables of the environment that `text` names, each with its hash."""
    there = dict(os.environ)  # os.environ itself raises for a text that can be no name
    for node in ast.walk(tree_of(text)):
        name = str(node.value) if isinstance(node, ast.Constant) else ""
        if name in there and not _PASSING.fullmatch(name):
            value = f"{name}={there[name]}".encode(errors="surrogateescape")
            yield f"${name}", hashlib.sha256(value).hexdigest()


def _libraries(text: str) -> Iterator[tuple[str, str]]:
    """The installed libraries that `text` imports, each with the hash of its version: other
    machines that share a study may have more of them.
    """
    nodes = list(ast.walk(tree_of(text)))
    modules = [alias.name for at in nodes if isinstance(at, ast.Import) for alias in at.names]
    modules += [at.module or "" for at in nodes if isinstance(at, ast.ImportFrom) and not at.level]
    for package in {name.partition(".")[0] for name in modules} - sys.stdlib_module_names:
        for library in _distributions().get(package, ()):
            version = f"{library}=={metadata.version(library)}"
            yield library, hashlib.sha256(version.encode()).hexdigest()


_distributions = functools.cache(metadata.packages_distributions)


def _sources(target: Target) -> list[str]:
    """Hashes of the program's file, of the project's modules that it imports, one by the other, and
    of the settings that they name.
    """
    hashes = {target.path: target.source_sha256}
    for file, text in imported_files(target):
        hashes.setdefault(str(file), _hash(text))
        hashes.update(settings_named(tree_of(text), (Path(target.directory), file.parent)))
        hashes.update(_variables(text))
        hashes.update(_libraries(text))
    return sorted(hashes.values())


def kept_answer(context: Context) -> Result | None:
    """The result of the same search in the output folder, None where there is none.

    Only one that ended by itself, with no smaller budget, and with an answer. The program is
    started to see its data, and stopped again after two steps.
    """
    kept = None if context.options.fresh else _kept(context)
    if kept is None or kept.search is None:
        return None
    context.listener.stage("looking whether the program's data is that of the search kept here")
    context.bench.passed_loops = kept.profile.seen.passed_loops
    with context.device.held():
        seen = _seen(context)
    context.bench.passed_loops = 0
    if seen is None or kept.search.key != search_key(context, seen):
        return None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(kept, search=replace(kept.search, answered_at=now))


def _seen(context: Context) -> Seen | None:
    """What the program is seen to be made of; None where it fails, which its profile will say."""
    try:
        run = context.bench.observe()
    except RunEnded:
        return None
    try:
        run.window(0.0, steps=STEPS)
        return run.seen()
    except RunEnded:
        return None
    finally:
        run.kill()


def _kept(context: Context) -> Result | None:
    """A kept result that may be of the same search, as far as can be told without running it."""
    options = context.options
    if options.out is None or context.target.kind == OBJECTS:
        return None
    try:
        kept = read_document(options.out / "result.json")
    except UsageError:  # there is none, or one of another version
        return None
    search, verdict = kept.search, kept.verdict
    if search is None or search.ending is None or verdict is None:
        return None
    is_settled = verdict.outcome != "failed" and not verdict.is_open
    disturbed = any(getattr(trial.outcome, "kind", "") in PASSING for trial in kept.trials)
    is_final = search.ending.why in FINAL and is_settled and not disturbed
    needed = ["tuned.toml"] * (verdict.outcome == "faster") + ["tuned.patch"] * bool(kept.patch)
    is_whole = all((options.out / name).exists() for name in needed)
    enough = kept.profile.budget_seconds >= options.budget_seconds
    same = search.key.startswith(f"{program_key(context)}-")
    return kept if is_final and is_whole and enough and same else None
