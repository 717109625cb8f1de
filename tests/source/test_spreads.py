"""Arguments that a loader gets by `**`: what they may hold, and what is set beside them."""

from typing import Any

import pytest
import torch

from autotune.source.edits import Accumulate, LoaderArgument, ProcessStatement
from tests.source.programs import PATH, rewritten, source

TWO = Accumulate(steps=2)
TRAINING = source(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(data, config=None, fast=False):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        {options}
        loader = DataLoader(data, **options)
        steps = 0
        for epoch in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        return model.weight
    """
)
# How options come about without a word of the last batch, and how with one, perhaps.
PLAIN = {
    "a display": "options = {'batch_size': 8, 'shuffle': True}",
    "a dict": "options = dict(batch_size=8, shuffle=True)",
    "more by update": (
        "options = {'batch_size': 8}; more = {'shuffle': True}\n    if fast: options.update(more)"
    ),
    "more by name": "options = {'batch_size': 8}; options.update(shuffle=True)",
    "one more": "options = {'batch_size': 8}; options['shuffle'] = True",
    "one by default": "options = {'batch_size': 8}; options.setdefault('shuffle', True)",
    "one of two": "options = {'batch_size': 8, 'shuffle': True} if fast else {'batch_size': 8}",
    "joined": "options = {'batch_size': 8}; options = options | {'shuffle': True}",
    "added": "options = {'batch_size': 8}; options |= {'shuffle': True}",
    "spread": "more = {'batch_size': 8}; options = {**more, 'shuffle': True}",
    "a copy": "more = {'batch_size': 8}; options = more.copy(); print(options, len(more))",
    "declared": "options: dict = {'batch_size': 8}",
}
HIDING = {
    "by update": "options = {'batch_size': 8}; options.update(config['loader'])",
    "by name": "options = {'batch_size': 8}; options.update(drop_last=config['last'])",
    "in a display": "options = {**(config or {}), 'batch_size': 8}",
    "before another": "more = {'batch_size': 8}; options = {'drop_last': True, **more}",
    "by a key": "options = {'batch_size': 8}; options[config['key']] = True",
    "in one of two": "options = {'batch_size': 8} if fast else config",
    "by a function": "options = {'batch_size': 8}; extend(options)",
    "by another name": "options = {'batch_size': 8}; same = options; same.update(config)",
    "joined": "options = {'batch_size': 8} | config",
    "added": "options = {'batch_size': 8}; options |= config",
    "of a function": "options = options_of(config)",
    "of pairs": "options = dict(config, batch_size=8)",
}


def trained(text: str, **given: Any) -> torch.Tensor:
    """The weights that the program `text` comes to on 21 samples."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(21, 3, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, torch.randn(21, 1, generator=generator))
    names: dict[str, Any] = {}
    exec(compile(text, PATH, "exec"), names)
    weights: torch.Tensor = names["train"](data, **given).detach()
    return weights


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize("options", PLAIN.values(), ids=PLAIN)
def test_options_without_a_word_of_the_last_batch_keep_it(
    options: str, workers: bool, fast: bool
) -> None:
    text = TRAINING.replace("{options}", options)
    edits = [LoaderArgument(name="num_workers", code="0")] * workers
    outcome = rewritten(text, *edits, TWO)
    assert outcome.statuses[-1] == "done", outcome.outcomes
    torch.testing.assert_close(trained(outcome.text, fast=fast), trained(text, fast=fast))
    again = rewritten(outcome.text, *edits, TWO)
    assert again.text == outcome.text


@pytest.mark.parametrize("options", HIDING.values(), ids=HIDING)
def test_options_that_may_say_something_of_the_last_batch_are_refused(options: str) -> None:
    text = TRAINING.replace("{options}", options)
    outcome = rewritten(text, TWO)
    assert outcome.text == text
    assert outcome.statuses == ["refused"]


@pytest.mark.parametrize("options", HIDING.values(), ids=HIDING)
def test_workers_that_options_may_hold_are_not_taken_for_some(options: str) -> None:
    text = TRAINING.replace("{options}", options.replace("drop_last", "num_workers"))
    outcome = rewritten(text, LoaderArgument(name="persistent_workers", code="True"))
    assert outcome.text == text
    assert outcome.reason == "the number of workers comes with ** arguments, and may be 0"


@pytest.mark.parametrize("seen", [False, True])
def test_a_loader_that_was_seen_to_drop_its_last_batch_is_not_taken_for_another(seen: bool) -> None:
    text = TRAINING.replace("{options}", PLAIN["a display"])
    outcome = rewritten(text, Accumulate(steps=2, drop_last=seen))
    assert outcome.statuses == (["refused"] if seen else ["done"])
    assert not seen or "seen to treat its last batch otherwise" in outcome.reason


def test_a_batch_size_of_two_options_is_not_divided() -> None:
    options = "more = {'batch_size': 8}; rest = {'shuffle': True}; options = {**more, **rest}"
    outcome = rewritten(TRAINING.replace("{options}", options), TWO)
    assert "which batch size" in outcome.reason


def test_what_only_the_changed_program_refuses_has_the_lines_of_the_original() -> None:
    text = TRAINING.replace("{options}", PLAIN["a display"])
    switch = ProcessStatement(code="torch.set_num_threads(1)")
    outcome = rewritten(text, switch, TWO, Accumulate(steps=4))
    assert outcome.statuses == ["done", "done", "refused"]
    assert (
        "whether the optimizer steps goes by (micro_step + 1) % 2 == 0"
        in outcome.outcomes[2].reason
    )
    line = 1 + text[: text.index("optimizer.step")].count("\n")
    assert outcome.outcomes[2].hand_step.startswith(f"{PATH}:{line}: ")
