"""What is handed back held against the program as it is where what that does late comes soon: by
its losses there, as those of its first steps are in turns.
"""

import re
from collections.abc import Sequence

from autotune.flow.context import Context
from autotune.flow.controls import CONTROL_SECONDS, Left, Start, controls, pairs_of_seeds
from autotune.knobs.knob import Config, Semantics
from autotune.measurement.interleaved.turns import LOSSES_WANTED, Turns
from autotune.measurement.untimed.through import Through
from autotune.source.loops.not_come_to import in_words, not_come_to
from autotune.source.program import Program
from autotune.verdict.contestants import BASELINE, TUNED, parity_in_turns, promised
from autotune.verdict.parity import Parity, may_be_chance, may_be_the_seeds

# What reads a program's code by itself, or hands it to other processes: no mark may be in it.
_READS_CODE = re.compile(
    r"torch[._]compile|import compile|(?<!\bre)\.compile\(|\bjit\b|dynamo|symbolic_trace|triton"
    r"|flex_attention|associative_scan|torch\.cond|while_loop|numba|settrace|setprofile"
    r"|cloudpickle|joblib|dill|\bmultiprocess\b|pathos|\bdask\b|loky|submitit|\bray\b|\bdatasets\b"
)


def to_be_marked(program: Program | None) -> dict[str, str]:
    """The texts of a program's files, by path, where marks can be put into them."""
    if program is None:
        return {}
    texts = {path: script.text for path, script in program.scripts.items()}
    return {} if any(map(_READS_CODE.search, texts.values())) else texts


def not_reached(
    program: Program | None, ran: tuple[Through, Through] | None
) -> Sequence[tuple[str, str]]:
    """What of the text of a `program` the run of it as it is, of two that `ran`, did not come to:
    places and conditions.
    """
    return not_come_to(program, ran[0].not_come_to) if program and ran else ()


def what_was_not_seen(missed: Sequence[tuple[str, str]]) -> str:
    """What was `missed`, as the sentence on the two that ran goes on."""
    if not missed:
        return ""
    return (
        f"; these steps of the program as it is did not reach {in_words(missed)}: what the "
        "settings do there was not seen"
    )


def parity_later(
    context: Context, config: Config, starts: tuple[Start, Start], ran: tuple[Through, Through]
) -> Parity:
    """Whether the settings `config` train the same there, by what the program as it is and with
    them `ran` to, as each of `starts` starts it.
    """
    turns = Turns()
    for name, each in zip((BASELINE, TUNED), ran, strict=True):
        turns.losses[name] = []
        for window in each.windows:
            turns.keep_losses(name, window)
        if each.seen:
            turns.seen[name] = each.seen
    steps = min(LOSSES_WANTED, *map(len, turns.losses.values()))
    turns.losses = {name: losses[:steps] for name, losses in turns.losses.items()}
    found = parity_in_turns(turns, config, TUNED)
    if may_be_chance(found):
        exact = promised(turns, config) is Semantics.IDENTICAL
        own = turns.losses[BASELINE]
        turns.controls = controls(context, starts[0], config, own, exact=exact)
        found = parity_in_turns(turns, config, TUNED)
    if may_be_the_seeds(found):
        left = Left(context.seconds(*CONTROL_SECONDS))
        turns.pairs[TUNED] = list(pairs_of_seeds(context, found, *starts, left))
        found = parity_in_turns(turns, config, TUNED)
    return found
