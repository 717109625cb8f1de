"""How many samples a step has in programs that make their batches themselves."""

from pathlib import Path

import pytest

from autotune.workload.conversation import Tell
from tests.workload.programs import HEAD, run, seen_of, steps, window_of

_ACTOR_AND_CRITIC = HEAD.replace(
    "model = ", "critic, actor = nn.Linear(8, 1), nn.Linear(8, 8)\nmodel = "
) + (
    """
first = torch.optim.Adam(critic.parameters())
second = torch.optim.Adam(actor.parameters())
for step in range(10_000):
    x = inputs[torch.randint(0, 200, (20,))]
    LOSS
    if step % DELAY == 0:
        second.zero_grad()
        (-critic(actor(x)).mean()).backward()
        second.step()
"""
)
_ONE_PASS = """first.zero_grad()
    critic(x).square().mean().backward()
    first.step()"""
_MICRO_BATCHES = """first.zero_grad()
    for part in (x, x, x):
        critic(part).square().mean().backward()
    first.step()"""
_STEPS_LAST = """first.zero_grad()
    critic(x).square().mean().backward()
    if step:
        second.step()
    first.step()"""


@pytest.mark.parametrize("delay", [1, 2])
@pytest.mark.parametrize(
    ("loss", "samples"), [(_ONE_PASS, 20), (_MICRO_BATCHES, 60), (_STEPS_LAST, 20)]
)
def test_a_pass_for_another_optimizer_has_no_samples_of_its_own(
    loss: str, samples: int, delay: int, tmp_path: Path
) -> None:
    text = _ACTOR_AND_CRITIC.replace("LOSS", loss).replace("DELAY", str(delay))
    reports = run(text, steps(8), Tell(), folder=tmp_path)
    window = window_of(reports)
    assert (window.steps, window.samples) == (8, 8 * samples)
    seen = seen_of(reports)
    assert seen.samples_per_step == samples
    assert [(each.name, each.parameters) for each in seen.beside] == [("Adam", 72)]
