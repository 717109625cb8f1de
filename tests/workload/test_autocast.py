"""Autocast that a training forward opens ends before the weights change that it has cast."""

from pathlib import Path

import pytest

from autotune.workload.conversation import Tell
from autotune.workload.setup import Precision, Setup
from tests.workload.programs import HEAD, PLAIN, observe, run, seen_of, steps

SETUP = Setup(precision=Precision(dtype="bfloat16", scaled=False))
BACKWARD = "        loss.backward()\n"
STEP = "        optimizer.step()\n"
GRADIENTS = """
        parameters = list(model.parameters())
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            p.grad = gradient
"""
FORWARD = "        loss = criterion(model(x), y)\n"
CHECKED = """
        given = model(x)
        assert given.abs().max() > 0, "these are the weights of the average"
        loss = criterion(given, y)
"""
ENDED = "        assert not torch.is_autocast_enabled('cpu')\n"
LOADER = "loader = DataLoader(dataset, batch_size=32, shuffle=True)\n"
VALIDATION = "validation = DataLoader(dataset, batch_size=50)\n"


def test_a_step_without_a_backward_pass_ends_it(tmp_path: Path) -> None:
    text = PLAIN.replace(BACKWARD, GRADIENTS).replace(STEP, STEP + ENDED)
    assert observe(text, tmp_path, setup=SETUP).autocast == "bfloat16"


@pytest.mark.parametrize(
    "evaluation",
    ["model.eval(); model(x); model.train()", "for a, b in validation: model(a)"],
    ids=["in eval mode", "of another loader"],
)
def test_what_is_evaluated_leaves_no_weights_behind(tmp_path: Path, evaluation: str) -> None:
    """Those of an average take the place of the model's own while it is evaluated."""
    text = PLAIN.replace(LOADER, LOADER + VALIDATION).replace(FORWARD, CHECKED)
    swapped = f"""
        with torch.no_grad():
            own = [p.clone() for p in model.parameters()]
            for p in model.parameters(): p.zero_()
        {evaluation}
        with torch.no_grad():
            for p, kept in zip(model.parameters(), own): p.copy_(kept)
"""
    run(text.replace(STEP, STEP + swapped), steps(20), setup=SETUP, folder=tmp_path)


def test_a_generators_loss_is_under_autocast_also_where_its_critic_is_in_eval_mode(
    tmp_path: Path,
) -> None:
    text = PLAIN.replace("optimizer =", "critic = nn.Linear(2, 2)\noptimizer =", 1)
    text = text.replace("model.parameters()", "[*model.parameters(), *critic.parameters()]")
    text = text.replace(STEP, STEP + "        critic.eval()\n")
    text = text.replace("criterion(model(x), y)", "criterion(critic(model(x)), y)")
    assert observe(text, tmp_path, setup=SETUP).autocast == "bfloat16"


def test_a_model_in_eval_mode_opens_none(tmp_path: Path) -> None:
    text = PLAIN.replace("for epoch", "model.eval()\nfor epoch", 1)
    assert observe(text, tmp_path, setup=SETUP).autocast == ""


def test_a_teacher_computes_in_the_format_of_the_step(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
teacher = nn.Linear(8, 2).requires_grad_(False)
formats = []
teacher.register_forward_hook(lambda _module, _given, out: formats.append(out.dtype))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, batch_size=32):
    with torch.no_grad():
        wanted = teacher(x)
    assert wanted.dtype == torch.float32
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), wanted).backward()
    optimizer.step()
with open("formats", "w") as file:
    print(*formats, file=file)
"""
    )
    seen = seen_of(run(text, steps(3), Tell(), folder=tmp_path, setup=SETUP))
    assert seen.places.frozen is not None
    assert text.splitlines()[seen.places.frozen.line - 1].strip() == "wanted = teacher(x)"
    run(text, steps(99), folder=tmp_path, setup=SETUP)
    assert set((tmp_path / "formats").read_text().split()) == {"torch.bfloat16"}


def test_a_model_that_trains_is_not_its_own_teacher(tmp_path: Path) -> None:
    pseudo = "with torch.no_grad():\n            wanted = model(x)\n        loss = "
    text = "import torch\n" + PLAIN.replace("loss = ", pseudo)
    assert text != PLAIN and observe(text, tmp_path).places.frozen is None


def test_every_line_of_a_backward_pass_is_seen(tmp_path: Path) -> None:
    twice = "loss.backward(retain_graph=True)\n        loss.backward()"
    text = PLAIN.replace("loss.backward()", twice)
    places = observe(text, tmp_path).places
    found = [text.splitlines()[each.line - 1].strip() for each in places.backwards]
    assert found == ["loss.backward(retain_graph=True)", "loss.backward()"]


def test_weights_that_are_used_without_gradients_meanwhile_have_theirs_all_the_same(
    tmp_path: Path,
) -> None:
    text = (
        HEAD
        + """
head = nn.Linear(2, 2)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
cached = []
head.register_forward_pre_hook(lambda *_: cached.append(torch.is_autocast_cache_enabled()))
for x, y in DataLoader(dataset, batch_size=32):
    features = model(x)
    with torch.no_grad():
        head(features)
    optimizer.zero_grad()
    criterion(head(features), y).backward()
    assert all(weight.grad is not None for weight in head.parameters())
    optimizer.step()
assert cached == [False, True] * (len(cached) // 2), cached
"""
    )
    run(text, steps(99), folder=tmp_path, setup=SETUP)


TWO_MODELS = (
    HEAD
    + """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 4)
    def forward(self, x):
        mean, spread = self.inner(x).chunk(2, 1)
        return mean, spread
formats = []
coder, classify = Coder(), nn.Linear(2, 2)
coder.register_forward_hook(lambda _module, _given, out: formats.append(out[0].dtype))
optimizer = torch.optim.SGD([*coder.parameters(), *classify.parameters()], lr=0.1)
for x, y in DataLoader(dataset, batch_size=4):
    mean, spread = coder(x)
    assert mean.dtype == spread.dtype == torch.float32
    sums = (spread.exp().sum() + mean.pow(2).sum()) / len(x)
    assert sums.dtype == torch.float32
    optimizer.zero_grad()
    (criterion(classify(
        mean), y) + sums).backward()
    optimizer.step()
with open("formats", "w") as file:
    print(*formats, file=file)
"""
)


def test_what_models_give_on_a_cpu_is_float32_again(tmp_path: Path) -> None:
    run(TWO_MODELS, steps(99), folder=tmp_path, setup=SETUP)
    assert set((tmp_path / "formats").read_text().split()) == {"torch.bfloat16"}


def test_what_is_in_ordered_or_named_containers_is_seen_too(tmp_path: Path) -> None:
    head = "from collections import OrderedDict, namedtuple\nGiven = namedtuple('Given', 'm s')\n"
    read = "given = coder(x)\n    mean, spread = given[0], given[1]"
    text = head + TWO_MODELS.replace("mean, spread = coder(x)", read)
    for built in ("OrderedDict([(0, mean), (1, spread)])", "Given(mean, spread)"):
        given = text.replace("return mean, spread", f"return {built}")
        outputs = observe(given, tmp_path).places.outputs
        assert {(each.callee, each.tensors) for each in outputs} >= {("coder", True)}, built


def test_each_call_of_a_model_is_seen_with_what_it_gave(tmp_path: Path) -> None:
    outputs = observe(TWO_MODELS, tmp_path).places.outputs
    lines = TWO_MODELS.splitlines()
    assert all(each.tensors for each in outputs)
    found = {(lines[each.line - 1].strip(), each.callee, each.single) for each in outputs}
    assert found == {
        ("mean, spread = coder(x)", "coder", False),
        ("(criterion(classify(", "classify", True),
    }


ODD_CALLS = (
    HEAD
    + """
aided, changing = nn.Linear(8, 2), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*aided.parameters(), *changing.parameters()], lr=0.1)
for x, y in DataLoader(dataset, batch_size=4):
    first = aided(x)
    third = torch.stack(list(map(changing, (x, x)))).mean(0)
    loss = criterion(first + third, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


def test_what_c_calls_is_no_call_of_the_line_s_own(tmp_path: Path) -> None:
    outputs = observe(ODD_CALLS, tmp_path).places.outputs
    assert [(each.callee, each.tensors) for each in outputs] == [("aided", True)]
