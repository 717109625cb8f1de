"""What a short number format loses in modules beyond what is compared."""

import pytest

from autotune.source.edits import OutputPlace, Places
from autotune.source.program import Program, parsed
from autotune.source.refusals.short_numbers import rare_chance, running_values

CHANCE = """\
class Faults(nn.Module):
    def forward(self, h):
        CODE
        return h


class Noise(Dataset):
    def __getitem__(self, index):
        hit = torch.rand_like(X[index]) < 1e-4
        return X[index] * hit
"""


def program(text: str) -> Program:
    return parsed({"/p/train.py": text}, Places(), "/p/train.py")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("hit = torch.rand_like(h) < 1e-4", True),
        ("hit = torch.rand_like(h) < self.rate", True),
        ("hit = self.rate > torch.rand_like(h)", True),
        ("u = torch.rand_like(h); hit = u > 0.999", True),
        ("hit = torch.empty_like(h).uniform_() < self.rate", True),
        ("u = torch.rand_like(h); g = -torch.log(-torch.log(u + 1e-9))", True),
        ("g = -torch.rand_like(h).log()", True),
        ("u = torch.rand_like(h); g = (1 - u.clamp(min=1e-9)).log()", True),
        ("u = torch.rand_like(h); g = torch.log(torch.clamp(u, 1e-9) * 2)", True),
        ("prior = torch.rand_like(h); g = torch.log(self.critic(prior)).mean()", False),
        ("hit = torch.rand_like(h) < 0.1", False),
        ("u = torch.empty(9).uniform_(); g = -torch.log(-torch.log(u))", False),
        ("u = torch.FloatTensor(9).uniform_(); g = torch.log(u + 1e-9)", False),
        ("u = h.new_empty(9).uniform_(); g = torch.log(u + 1e-9)", True),
        ("hit = torch.rand(h.shape) < 1e-4", False),
        ("h = h + torch.rand_like(h)", False),
        ("hit = h < 1e-4", False),
    ],
)
def test_small_chances_in_the_format_of_activations(code: str, found: bool) -> None:
    text = CHANCE.replace("CODE", code)
    assert rare_chance(program(text)) == ("train.py:3" if found else "")


def test_what_the_model_is_given_is_in_float32() -> None:
    text = CHANCE.replace("CODE", "hit = torch.rand_like(h) < 1e-4")
    call = OutputPlace(path="/p/train.py", line=12, callee="model", tensors=True)
    for built, found in (
        ("model = Faults().to(d)", ""),
        ("model = Sequential(Faults())", "train.py:3"),
    ):
        whole = {"/p/train.py": f"{text}\n{built}\nmodel(x)\n"}
        assert rare_chance(parsed(whole, Places(outputs=(call,)), "/p/train.py")) == found


def test_what_a_layer_gives_under_the_name_of_the_input_is_not() -> None:
    text = CHANCE.replace("CODE", "h = self.layer(h); hit = torch.rand_like(h) < 1e-4")
    call = OutputPlace(path="/p/train.py", line=12, callee="model", tensors=True)
    whole = {"/p/train.py": f"{text}\nmodel = Faults()\nmodel(x)\n"}
    assert rare_chance(parsed(whole, Places(outputs=(call,)), "/p/train.py")) == "train.py:3"


def test_what_begins_a_weight_is_in_float32() -> None:
    text = CHANCE.replace("CODE", "pass").replace("forward(self, h)", "__init__(self, h)")
    text = text.replace("pass", "self.rate = torch.log(torch.rand_like(h))")
    assert not rare_chance(program(text + "\n    def forward(self, h):\n        return h\n"))


RUNNING = """\
class Whiten(nn.Module):
    def __init__(self):
        self.mean, self.stats = None, {}
        self.register_buffer("long", torch.zeros(9))

    def forward(self, h):
        mean = h.mean(0)
        FIRST
        THEN
        return h
"""


@pytest.mark.parametrize(
    ("first", "then", "found"),
    [
        (
            "if self.mean is None: self.mean = mean",
            "self.mean = self.mean + 0.01 * (mean - self.mean)",
            True,
        ),
        (
            'if not self.stats: self.stats["mean"] = mean',
            'self.stats["mean"] = 0.9 * self.stats["mean"] + mean',
            True,
        ),
        ("self.mean = mean", "self.mean = self.mean * 10", False),  # anew in each pass
        ("if self.mean is None: self.mean = mean", "self.mean = self.mean.lerp(mean, 0.01)", True),
        (
            "if self.mean is None: self.mean = mean.float()",
            "self.mean = self.mean + 0.01 * (mean - self.mean)",
            False,
        ),
        ("pass", "self.long = 0.99 * self.long + 0.01 * mean", False),  # float32 from the start
        ("self.mean = mean", "print(self.mean)", False),
        ("with no_grad(): self.mean = mean", "self.mean = self.mean + 0.1 * mean", False),
        ("self.mean = mean", "self.mean = self.cell(h, self.mean)", False),
    ],
)
def test_what_moves_on_by_small_steps_is_kept_in_float32(
    first: str, then: str, found: bool
) -> None:
    text = RUNNING.replace("FIRST", first).replace("THEN", then)
    assert running_values(program(text), on_a_gpu=False) == ("train.py:9" if found else "")
