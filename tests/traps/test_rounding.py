"""A shorter number format is left out where it would round the angles of sines, predictions, or
whole numbers too far.
"""

import re

import pytest

from tests.traps.conftest import Vet

VALUES = ("fp32", "bf16")
PROGRAM = """
import torch
from torch import nn

class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", {scale} * torch.randn(2, 32))
        self.head = nn.Linear(64, 1)

    def forward(self, where):
        {angles}
        return self.head(torch.cat([torch.sin(angles), angles.cos()], dim=-1))

torch.manual_seed(0)
net = Waves()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    where = torch.rand(64, 2)
    loss = (net(where) - where.sum(-1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = "angles = where @ self.frequencies"
APART = """with torch.autocast("cpu", enabled=False):
            angles = where @ self.frequencies"""


def program(scale: float, angles: str = PLAIN) -> str:
    return PROGRAM.format(scale=scale, angles=angles)


def test_angles_of_hundreds_of_radians_are_refused_with_their_line(rounding: Vet) -> None:
    found = rounding(program(200), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("in bf16 a sine or cosine at train.py:1")
    assert "autocast off" in found.reason


@pytest.mark.parametrize(("scale", "angles"), [(1, PLAIN), (200, APART)])
def test_small_ones_and_those_that_are_computed_in_float32_are_not(
    rounding: Vet, scale: float, angles: str
) -> None:
    found = rounding(program(scale, angles), VALUES)
    assert found.values == VALUES
    assert not found.reason


def test_one_in_which_nothing_is_computed_is_left_out(rounding: Vet) -> None:
    text = program(1).replace("self.head(torch.cat(", "(self.head.weight * torch.cat(")
    text = text.replace(PLAIN, "angles = where[:, :1] * self.frequencies[0]")
    found = rounding(text.replace("dim=-1))", "dim=-1)).sum(-1, keepdim=True)"), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("nothing of a step is computed in bf16")


def test_a_run_that_cannot_be_looked_at_is_left_to_its_trial(rounding: Vet) -> None:
    found = rounding("raise SystemExit(3)", VALUES)
    assert found.values == VALUES


REGRESSION = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(90, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(net.parameters())
while True:
    x = torch.randn(64, 90)
    years = {targets}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
YEARS = "1998 + 11 * torch.randn(64, 1)"
LESS_THEIR_MEAN = "11 * torch.randn(64, 1)"
SQUARED = "F.mse_loss(net(x), years)"


def regression(targets: str = YEARS, loss: str = SQUARED) -> str:
    return REGRESSION.format(targets=targets, loss=loss)


@pytest.mark.parametrize(
    "loss",
    [
        SQUARED,
        "((net(x) - years) ** 2).mean()",
        "(years - net(x)).abs().mean()",
        "F.l1_loss(net(x), years)",
        "F.smooth_l1_loss(net(x), years)",
        "F.huber_loss(net(x), years)",
    ],
)
def test_targets_far_from_zero_that_differ_by_little_are_refused_with_their_line(
    rounding: Vet, loss: str
) -> None:
    found = rounding(regression(loss=loss), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("in bf16 predictions of around 1,99")
    assert "steps of 8, and the targets that they are compared with at train.py:12" in found.reason


@pytest.mark.parametrize(
    ("targets", "loss"),
    [
        (LESS_THEIR_MEAN, SQUARED),
        ("torch.full((64, 1), 1998.0)", SQUARED),
        (YEARS, "F.mse_loss(1998 + 11.3 * net(x), years)"),
        (YEARS, "F.cross_entropy(net(x).expand(-1, 2), (years[:, 0] > 1998).long())"),
    ],
    ids=["no offset", "all the same", "offset added in float32", "classes"],
)
def test_other_losses_are_not(rounding: Vet, targets: str, loss: str) -> None:
    assert rounding(regression(targets, loss), VALUES).values == VALUES


def test_what_is_rounded_little_is_told(rounding: Vet) -> None:
    doubt = rounding(regression(LESS_THEIR_MEAN), VALUES).doubt
    assert doubt is not None and doubt.evidence.startswith("In bf16 predictions of around ")
    assert re.search(r"steps of 0\.\d+ \([\d.]+ % of what targets differ by\)", doubt.evidence)
    assert "train.py:12" in doubt.evidence
    both = rounding(regression(LESS_THEIR_MEAN), (*VALUES, "fp16")).doubt
    assert both is not None and both.evidence.startswith("In bf16 and fp16 predictions of around ")
    assert "are rounded to steps of up to 0." in both.evidence
    classes = "F.cross_entropy(net(x).expand(-1, 2), (years[:, 0] > 1998).long())"
    assert rounding(regression(YEARS, classes), VALUES).doubt is None


CARRYING = """
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
while True:
    x, y = torch.randn(32, 5, 4), torch.randn(32, 5, 1)
    state = 0.0625 + 3e-3 * torch.randn(1, 32, 16)  # as carried from the batch before
    out, state = cell(x, state)
    loss = (head(out) - y).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_state_of_a_recurrent_cell_is_no_target(rounding: Vet) -> None:
    assert rounding(CARRYING, VALUES).values == VALUES


# Ids of words, made by a convolution.
CODES = """
import torch
from torch import nn
from torch.nn import functional as F
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding({base} ** 6 + 1, 4)
        self.head = nn.Linear(4, 1)
        self.register_buffer("powers", torch.tensor([[[{base}.0 ** i for i in range(6)]]]))
    def forward(self, letters):
        {ids}
        return self.head(self.table(ids.squeeze(1)).mean(1))
torch.manual_seed(0)
model = Words()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    letters = torch.randint({base}, (8, 1, 40)).float()
    model(letters).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
IDS = "ids = F.conv1d(letters, self.powers).long()"


def test_whole_numbers_that_the_format_does_not_have_are_refused_with_their_line(
    rounding: Vet,
) -> None:
    found = rounding(CODES.format(base=4, ids=IDS), VALUES)
    assert "bf16" not in found.values and "fp32" in found.values
    assert "that are made whole ones at train.py:12 (ids, say)" in found.reason
    assert "are rounded to steps of " in found.reason


GROUPS = "(F.conv1d(letters, self.powers) * self.powers.new_ones(1)) % 4096"


@pytest.mark.parametrize(
    "ids",
    [
        f"ids = ({GROUPS}).long()",  # bfloat16 times float32
        f"with torch.no_grad():\n            ids = ({GROUPS}).long()",
    ],
)
def test_whole_numbers_computed_on_of_what_was_rounded_are_refused(rounding: Vet, ids: str) -> None:
    found = rounding(CODES.format(base=4, ids=ids), VALUES)
    assert "bf16" not in found.values and "are made whole ones at train.py:1" in found.reason


@pytest.mark.parametrize(
    ("base", "ids"),
    [
        (2, IDS),  # up to 63, which it has
        (4, "ids = (letters.cumsum(-1) * 7).long() % 4096"),  # never in a short format
        # What is learnt may be told apart by less.
        (4, "ids = (self.head(letters[..., :4]).detach() * torch.ones(1) * 3e4).long() % 4096"),
    ],
)
def test_whole_numbers_that_it_has_are_not(rounding: Vet, base: int, ids: str) -> None:
    assert rounding(CODES.format(base=base, ids=ids), VALUES).values == VALUES


# Points, of which each is given the mean of its nearest ones.
POINTS = """
import torch
from torch import nn
class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 4)
    def forward(self, x):
        {near}
        near = torch.stack([points[each] for points, each in zip(x, index)])
        return self.head(torch.cat([x, near.mean(2)], -1)).amax(1)
torch.manual_seed(0)
model = Near()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x = torch.randn(4, {points}, 3)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
NEAR = "index = (2 * x @ x.mT - x.square().sum(-1)[:, None]).topk(4).indices"
IN_FLOAT32 = "index = torch.cdist(x, x).topk(4, largest=False).indices"
FIRST = "y = x.flip(0); index = (y.square().sum(-1)[:, None] - 2 * x @ y.mT).argmin(-1)[..., None]"
LEARNT = "h = self.head(x.repeat(1, 1, 2))\n        index = (h @ h.mT).topk(4).indices"


SQUARED_APART = (
    "apart = x.square().sum(-1)[:, :, None] + x.square().sum(-1)[:, None] - 2 * x @ x.mT"
)
SORTED = f"{SQUARED_APART}\n        index = apart.sort(-1)[1][..., :4]"
SMALLEST = f"{SQUARED_APART} + 99 * torch.eye(2000)\n        index = apart.min(-1)[1][..., None]"
WITHIN = f"{SQUARED_APART}\n        index = (apart < 0.02).long().cumsum(-1)[..., :4] % 2"
PADDING = "apart = apart.masked_fill(torch.arange(500) > 199, 1e9)"
PADDED = WITHIN.replace("0.02", "6.0").replace("index", f"{PADDING}; index")


@pytest.mark.parametrize("near", [NEAR, FIRST, SORTED, SMALLEST])
def test_the_nearest_of_many_points_are_not_told_by_what_is_rounded(
    rounding: Vet, near: str
) -> None:
    found = rounding(POINTS.format(near=near, points=2000), VALUES)
    assert "bf16" not in found.values and "fp32" in found.values
    line = 9 + near.count("\n")
    assert f"are chosen at train.py:{line} (the nearest points, say)" in found.reason


def test_those_within_a_radius_are_not_told_by_what_is_rounded(rounding: Vet) -> None:
    found = rounding(POINTS.format(near=WITHIN, points=500), VALUES)
    assert "bf16" not in found.values and "is held to 0.02 at train.py:10 (a radius" in found.reason


@pytest.mark.parametrize(
    ("near", "points"),
    [
        (NEAR, 6),
        (IN_FLOAT32, 500),
        (LEARNT, 500),
        (f"{SMALLEST.replace('[1]', '.values')}; index = (index > 1e9).long()", 2000),
        (WITHIN.replace("0.02", "6.0"), 500),
        ("index = ((x @ x.mT * 0 > 0) | (x @ x.mT * 0 >= 0)).long()[..., :4]", 500),
        (PADDED, 500),
        (f"(x @ x.mT)[:, :0].max(-1)[1].sum(); {NEAR}", 6),
    ],
    ids=[
        *("few points", "in float32", "learnt", "their distance", "a wide radius"),
        *("just the limit", "padded", "no rows"),
    ],
)
def test_other_choices_are(rounding: Vet, near: str, points: int) -> None:
    assert rounding(POINTS.format(near=near, points=points), VALUES).values == VALUES


# A classifier whose loss takes the logarithm of its probabilities.
LOGARITHM = """
import torch
from torch import nn
from torch.nn import functional as F
class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)
    def forward(self, x):
        return {told}
torch.manual_seed(0)
model = Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = torch.randn(16, 8), torch.randint(4, (16,))
    p = model(x)
    {loss}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SOFTMAX, SIGMOID, LOGITS = "self.head(x).softmax(1)", "self.head(x).sigmoid()", "self.head(x)"
CHOSEN = "[torch.arange(16), y]"
BCE = "loss = F.binary_cross_entropy(p, F.one_hot(y, 4).float())"


@pytest.mark.parametrize(
    ("told", "loss"),
    [
        (SOFTMAX, f"loss = -torch.log(p{CHOSEN}).mean()"),
        (SOFTMAX, f"loss = -p.clamp(1e-6, 1 - 1e-6){CHOSEN}.log().mean()"),
        (SIGMOID, "loss = -torch.log(1 - p + 1e-6).mean()"),
        (SIGMOID, BCE),
        ("1 - torch.exp(-F.softplus(self.head(x)))", "loss = -torch.log(p + 1e-8).mean()"),
        ("self.head(x).tanh()", "loss = torch.log(1 - p.pow(2) + 1e-6).mean()"),
        ("self.head(x).exp()", "loss = torch.log(1 + p).mean()"),
        ("self.head(x).tanh()", "loss = torch.log(2.0 * (1 - p.pow(2)) + 1e-6).mean()"),
        ("self.head(x).tanh()", "loss = torch.log(torch.ones(4) * (1 - p * p) + 1e-6).mean()"),
        (SIGMOID, "loss = torch.log(2 * (1 - p) + 1e-6).mean()"),
        (SOFTMAX, "loss = -(p * F.one_hot(y, 4).float()).sum(1).log().mean()"),
        (f"{SOFTMAX} * {SIGMOID} / 2", "loss = -p.mean(1).log().mean()"),
        (SOFTMAX, "loss = -(0 * p).scatter_add(1, y[:, None], p[:, :1]).add(1e-6).log().mean()"),
        (SOFTMAX, f"loss = 0 * -(p * (q := p.log())).mean() - q{CHOSEN}.mean()"),
        (SOFTMAX, "q = 1 - p; loss = (q * q.log()).mean()"),
        (SIGMOID, "loss = ((1 - p) * torch.log(1 - p + 1e-6) + p * torch.log(p + 1e-6)).mean()"),
    ],
)
def test_logarithms_of_rounded_probabilities_are_refused_with_their_line(
    rounding: Vet, told: str, loss: str
) -> None:
    found = rounding(LOGARITHM.format(told=told, loss=loss), VALUES)
    assert found.values == ("fp32",)
    assert "become 1 before their logarithm is taken at train.py:17" in found.reason


@pytest.mark.parametrize("drawn", ["torch.rand_like(h)", "torch.zeros_like(h).uniform_(0, 1)"])
@pytest.mark.parametrize("wide", [False, True])
def test_logarithms_of_rounded_random_numbers_are(rounding: Vet, drawn: str, wide: bool) -> None:
    told = f"(h := self.head(x)) - torch.log(-torch.log({drawn} + 1e-9) + 1e-9)"
    told = told.replace("(h)", "(h.float())") if wide else told
    found = rounding(LOGARITHM.format(told=told, loss="loss = F.cross_entropy(p, y)"), VALUES)
    assert found.values == (VALUES if wide else ("fp32",))
    assert wide or "random numbers is taken at train.py:10, of which bf16" in found.reason


@pytest.mark.parametrize(
    ("told", "loss"),
    [
        (LOGITS, f"loss = -torch.log(p.softmax(1){CHOSEN}).mean()"),  # of wide logits
        (LOGITS, BCE.replace("entropy(", "entropy_with_logits(")),
        (LOGITS, "loss = F.cross_entropy(p, y)"),
        (SOFTMAX, "loss = (p - F.one_hot(y, 4)).square().mean()"),
        (f"{LOGITS} * {SOFTMAX}", "loss = torch.log(p.square() + 1).mean()"),
        ("self.head(x).exp()", "loss = torch.log(p + 1e-6).mean()"),  # of a variance
        ("self.head(x).exp()", "loss = torch.log(p / p.sum(1, keepdim=True)).mean()"),
        ("self.head(x).tanh()", "loss = torch.log1p(p.square().sum(1)).mean()"),
        (SOFTMAX, "loss = F.mse_loss(p, x[:, :4]) - 0.01 * -(p * torch.log(p + 1e-8)).mean()"),
        (SOFTMAX, "q = p.mean(0); loss = (q * q.log()).mean()"),
        (SOFTMAX, "q = p.sum(0) / len(p); loss = (q * q.log()).mean()"),
        (f"80 * {SIGMOID}", "loss = p.log().square().mean()"),  # a depth
        (f"2 * {SIGMOID} + 0.1", "loss = p.log().square().mean()"),  # a deviation
        (f"torch.full((4,), 80.0) * {SIGMOID}", "loss = p.log().square().mean()"),
        (SOFTMAX, "loss = p.square().mean(); (p.detach() * p.detach().log()).sum()"),
        (SIGMOID, "loss = torch.log(p * x[:, :4].abs() + 1e-6).square().mean()"),  # of data
    ],
)
def test_other_logarithms_are_not(rounding: Vet, told: str, loss: str) -> None:
    assert rounding(LOGARITHM.format(told=told, loss=loss), VALUES).values == VALUES


# A Gaussian process over what a network makes of its inputs.
PROCESS = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 8))
noise = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*net.parameters(), noise])
while True:
    x = torch.randn(24, 6)
    y = x.sum(-1, keepdim=True).sin()
    z = net(x)
    {covariance}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OF_A_PRODUCT = "k = z @ z.T / 8 + noise.exp() * torch.eye(24)"
LIKELIHOOD = "torch.cholesky_solve(y, torch.linalg.cholesky(k)).mul(y).sum()"


@pytest.mark.parametrize(
    ("covariance", "loss", "named"),
    [
        (OF_A_PRODUCT, LIKELIHOOD, "cholesky"),
        (OF_A_PRODUCT, "torch.logdet(k)", "slogdet"),
        (OF_A_PRODUCT, "torch.logdet(k[1:, 1:])", "slogdet"),
        (OF_A_PRODUCT, "torch.linalg.solve(k, y).mul(y).sum()", "solve"),
        (
            "k = torch.exp((z @ z.T - z.square().sum(-1)) / 8) + noise.exp() * torch.eye(24)",
            "torch.inverse(k).sum()",
            "inv",
        ),
        (
            "k = torch.eye(24) + z @ z.T",
            "-torch.distributions.MultivariateNormal(y[:, 0], k).log_prob(x.sum(-1))",
            "cholesky",
        ),
    ],
)
def test_matrices_that_a_product_gives_are_not_decomposed(
    rounding: Vet, covariance: str, loss: str, named: str
) -> None:
    found = rounding(PROCESS.format(covariance=covariance, loss=loss), VALUES)
    assert found.values == ("fp32",)
    assert f"a product gives the matrix that `{named}` is given at train.py:13" in found.reason


@pytest.mark.parametrize(
    "covariance",
    [
        "k = torch.exp(-torch.cdist(z, z)) + noise.exp() * torch.eye(24)",
        "z = z.float()\n    with torch.autocast('cpu', enabled=False): k = torch.eye(24) + z @ z.T",
    ],
)
def test_others_may_be(rounding: Vet, covariance: str) -> None:
    text = PROCESS.format(covariance=covariance, loss=LIKELIHOOD)
    assert rounding(text, VALUES).values == VALUES


# A model that is asked how it changes where its input does.
ADVERSARIAL = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    x = torch.randn(16, 2, 16)
    {change}
    apart = nn.functional.kl_div(net(near).log_softmax(-1), net(x).softmax(-1))
    optimizer.zero_grad()
    apart.backward()
    optimizer.step()
"""
DIRECTION = "d = nn.functional.normalize(torch.randn(16, 2, 16), dim=-1)"


@pytest.mark.parametrize(
    "change",
    [
        f"{DIRECTION}\n    near = x + 1e-6 * d.requires_grad_()",
        f"{DIRECTION}\n    near = x.add(d, alpha=1e-4)",
        f"{DIRECTION}\n    near = torch.cat([x - 1e-4 * d, x])[:16].view(16, 32)",
    ],
)
def test_changes_of_the_input_that_are_rounded_away_are_refused(rounding: Vet, change: str) -> None:
    found = rounding(ADVERSARIAL.format(change=change), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("in bf16 the model is not given the change of its input at")


# One that is as large as its input, in two places, and beside it a small one.
OFTEN = f"""{DIRECTION}
    count = globals().get("count", 0) + 1
    far, near, beyond = (x + scale * d for scale in (1.0, 1e-6, 1.0))
    for each in (far,) * (1 + count % 2) + (near, beyond):
        net(each)
    near = beyond"""


def test_a_small_change_is_told_from_a_large_one_computed_more_often(rounding: Vet) -> None:
    assert rounding(ADVERSARIAL.format(change=OFTEN), VALUES).values == ("fp32",)


# Nearly one of the two inputs alone in most steps.
MIXED = """count = globals().get("count", 0) + 1
    lam = 0.7 if count % 3 == 0 else 0.9999
    near = lam * x + (1 - lam) * x.flip(0)"""
EACH_MIXED = """lams = [0.9999] * 8 + [0.7] * 8
    near = torch.stack([lam * a + (1 - lam) * b for lam, a, b in zip(lams, x, x.flip(0))])"""


@pytest.mark.parametrize(
    "change",
    [
        f"{DIRECTION}\n    near = x + 0.05 * d",
        MIXED,
        EACH_MIXED,
        "near = x + 1e-6",  # of no number is it learnt
        "h = net[1](x.flatten(1))\n    near = h + 1e-6 * net[1](h)",  # a scale that is learnt
        f"{DIRECTION}\n    near = x\n    x + 1e-6 * d",
    ],
)
def test_others_are_not_rounded_away(rounding: Vet, change: str) -> None:
    assert rounding(ADVERSARIAL.format(change=change), VALUES).values == VALUES


# A model that takes what it computes without the mean of all that it has computed so far.
RUNNING = """
import torch
from torch import nn
class Mean:
    def __init__(self):
        self.total, self.mean = None, 0.0
    def update(self, z):
        s = z.sum(0)
        {kept}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.mean = nn.Linear(6, 16), nn.Linear(16, 1), Mean()
        self.cell, self.state = nn.GRUCell(16, 16), torch.zeros(32, 16)
    def forward(self, x):
        z = self.body(x)
        {used}
        return self.head(z)
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    loss = net(torch.randn(32, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USED = "z = z - self.mean.update(z.detach())"


@pytest.mark.parametrize(
    "kept",
    [
        "self.total = s if self.total is None else self.total + s; return self.total / 99",
        "self.mean = self.mean + 0.01 * (s / 32 - self.mean); return self.mean",
        "self.mean = 0.99 * self.mean + 0.01 * s; return self.mean",
        "self.mean = self.mean.lerp_(s, 0.1) if self.total else s + 0; self.total = 1; return s",
    ],
)
def test_what_is_carried_on_is_not_added_to_in_a_short_format(rounding: Vet, kept: str) -> None:
    found = rounding(RUNNING.format(kept=kept, used=USED), VALUES)
    assert found.values == ("fp32",)
    assert found.reason.startswith("what is carried on from step to step is added to in bf16 at")


@pytest.mark.parametrize(
    ("kept", "used"),
    [
        ("self.mean = self.mean + s.float(); return self.mean", USED),
        ("self.mean, mean = s, self.mean; return s", USED),
        ("return s", "z = self.state = self.cell(z, self.state.detach())"),
        ("return s / 32", USED),
    ],
    ids=["in float32", "kept for nothing", "a recurrent state", "anew"],
)
def test_what_is_not_added_to_may_be_short(rounding: Vet, kept: str, used: str) -> None:
    assert rounding(RUNNING.format(kept=kept, used=used), VALUES).values == VALUES
