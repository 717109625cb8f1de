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


_LOOKS_FIRST = (
    HEAD
    + """
held_out = DataLoader(dataset, batch_size=50)
training = DataLoader(dataset, batch_size=10, shuffle=True)
optimizer = torch.optim.Adam(model.parameters())

def look(loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            PREDICT
    model.train()

look(LOOKED_AT)
while True:
    for x, y in BATCHES:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    look(held_out)
"""
)


@pytest.mark.parametrize("predict", ["model[0](x)", "model(x)", "x.sum()"])
def test_a_loader_gone_through_to_validate_first_is_not_the_training_one(
    predict: str, tmp_path: Path
) -> None:
    own = _LOOKS_FIRST.replace("PREDICT", predict).replace("LOOKED_AT", "held_out")
    text = own.replace("BATCHES", "zip(inputs.split(20), inputs.split(20))")
    seen = seen_of(run(text, steps(8), Tell(), folder=tmp_path))
    assert seen.loader is None
    assert (seen.samples_per_step, seen.batch) == (20, ())


def test_a_loader_gone_through_without_gradients_first_may_train_after_that(tmp_path: Path) -> None:
    own = _LOOKS_FIRST.replace("PREDICT", "model[0](x)").replace("LOOKED_AT", "training")
    seen = seen_of(run(own.replace("BATCHES", "training"), steps(8), Tell(), folder=tmp_path))
    assert seen.loader is not None
    assert (seen.loader.batch_size, seen.samples_per_step) == (10, 10)
