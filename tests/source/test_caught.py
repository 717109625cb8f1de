"""Workers are refused where a training tells by what it catches what its samples raise."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.caught import caught_of_samples

KINDS = """\
import contextlib, json, logging, sys, zlib

class BadRecord(Exception):
    def __init__(self, index, why):
        super().__init__(f"record {index}: {why}")
        self.index = index

class Loader(library.Loader):
    pass

class Torn(OSError):
    def __init__(self, path, size):
        super().__init__(path)

class Skip(Exception):
    pass

class Named(Skip):
    def __init__(self, index=0):
        super().__init__(index)

class Told(Exception):
    message = "of torch's"

"""
DRAWN = """\
batches = iter(loader)
while step < 10_000:
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        continue
    except HANDLER
        continue
    loss_of(net(x), y).backward()
    optimizer.step()
"""
ROUND = """\
def fit():
    for x, y in loader:
        loss_of(net(x), y).backward()
        optimizer.step()

for epoch in range(10):
    try:
        fit()
    except HANDLER
        STATEMENT
"""
SUPPRESSED = """\
while True:
    with contextlib.suppress(HANDLER):
        x, y = next(batches)
        loss_of(net(x), y).backward()
        optimizer.step()
"""
IN_A_STEP = """\
for x, y in loader:
    try:
        loss_of(net(x), y).backward()
        weight = next(net.parameters())
    except HANDLER
        skipped.append(error)
"""
EVALUATED = """\
def evaluate(loader):
    for x, y in loader:
        seen.append(net(x))
    return score(seen)

for x, y in loader:
    loss_of(net(x), y).backward()
    try:
        score = evaluate(held_out)
    except ValueError:
        score = 0
"""
HANDED_ON = """\
def endless(loader):
    while True:
        try:
            for batch in loader:
                yield batch
        except ValueError:
            continue

for x, y in endless(loader):
    loss_of(net(x), y).backward()
"""
READ_BEFORE = """\
def rows(path):
    reader = csv.reader(open(path))
    try:
        first = next(reader)
    except ValueError:
        first = None
    return [first, *reader]

loader = DataLoader(rows("a.csv"))
for x, y in loader:
    loss_of(net(x), y).backward()
"""


def place(text: str) -> str:
    """Where an exception is caught so in the program of `text`."""
    text = KINDS + text
    line = 1 + text[: text.index(".backward()")].count("\n")
    places = Places(backward=Place(path="/p/train.py", line=line))
    return caught_of_samples(parsed({"/p/train.py": text}, places, "/p/train.py"))


def drawn(handler: str) -> str:
    """The same where `handler` stands round the next of the batches."""
    return place(DRAWN.replace("HANDLER", handler))


@pytest.mark.parametrize(
    "handler",
    [
        "BadRecord:\n        pass",
        "(KeyError, BadRecord):\n        pass",
        "Told:\n        pass",
        "OSError:\n        pass",  # of which Torn is one
        "ValueError:\n        pass",  # of which json.JSONDecodeError is one
        "json.JSONDecodeError:\n        pass",
        "zlib.error:\n        pass",  # not known here
        "KeyError as error:\n        lacking[error.args[0]] += 1",
        "Exception as error:\n        if isinstance(error, BadRecord): skipped += 1",
        "Exception as error:\n        seen.add(str(error))",
        "Exception as error:\n        seen[str(error)] = step",
        "Exception:\n        seen.add(sys.exc_info()[0])",
    ],
)
def test_told_from_others(handler: str) -> None:
    assert drawn(handler).startswith("train.py:")


@pytest.mark.parametrize(
    "handler",
    [
        "Skip:\n        skipped += 1",
        "Named:\n        skipped += 1",
        "KeyError:\n        lacking += 1",
        "Exception:\n        lacking += 1",
        "Exception as error:\n        print(f'left out: {error}')",
        "KeyError as error:\n        logging.warning('left out: %s', error)",
        "RuntimeError as error:\n        if 'out of memory' not in str(error): raise error",
        "RuntimeError as error:\n        results[step] = {'failed': str(error)}",
        "Exception as error:\n        failures.append(f'{step}: {error}')",
        "Exception as error:\n        wandb.alert(title='left out', text=repr(error))",
        "torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()",
    ],
)
def test_whatever_it_is(handler: str) -> None:
    assert drawn(handler) == ""


def test_round_a_function_with_the_loop() -> None:
    own = ROUND.replace("STATEMENT", "continue")
    text = own.replace("HANDLER", "BadRecord:")
    line = 1 + (KINDS + text).splitlines().index("    except BadRecord:")
    assert place(text) == f"train.py:{line}"
    assert place(own.replace("HANDLER", "KeyboardInterrupt:")) == ""


def test_a_report_at_the_programs_end_goes_by_nothing() -> None:
    text = "def main():\n" + "".join(f"    {line}" for line in ROUND.splitlines(keepends=True))
    text = text.replace("HANDLER", "Skip:").replace("STATEMENT", "continue") + "try:\n    main()\n"
    assert place(f"{text}except Exception as error:\n    mail(str(error))\n") == ""
    assert place(f"{text}except BadRecord:\n    save(net)\n") != ""


def test_suppressed() -> None:
    assert place(SUPPRESSED.replace("HANDLER", "BadRecord")) != ""
    assert place(SUPPRESSED.replace("HANDLER", "IndexError")) == ""


def test_what_a_step_raises_is_no_samples() -> None:
    assert place(IN_A_STEP.replace("HANDLER", "BadRecord as error:")) == ""


def test_what_the_training_raises_itself_is_no_samples() -> None:
    text = ROUND.replace("HANDLER", "optuna.TrialPruned:").replace("STATEMENT", "continue")
    assert place(text) != ""
    pruned = "        if is_lost():\n            raise optuna.TrialPruned()\n"
    raised = text.replace("        optimizer.step()\n", pruned)
    assert place(raised) == ""
    assert place(f"{raised}def sample(index):\n    raise optuna.TrialPruned()\n") != ""


@pytest.mark.parametrize(
    ("text", "told"), [(EVALUATED, False), (HANDED_ON, True), (READ_BEFORE, False)]
)
def test_only_the_batches_of_the_training_count(text: str, told: bool) -> None:
    assert (place(text) != "") is told
