"""bf16 is refused where a rare branch of a forward pass would put it into float32."""

import pytest

from autotune.source.edits import Places
from autotune.source.program import parsed
from autotune.source.refusals.mixed_formats import put_in_a_branch

NET = """\
class Load(nn.Module):
    def forward(self, x, weather, kind: int = 0):
        missing = torch.isnan(weather).any(dim=1)
        h = self.first(x)
        if missing.any():
            CODE
        return self.body(torch.cat([h, weather], 1))

    def drawn(self, x):
        return torch.rand_like(x)

    def guessed(self, x):
        return self.imputed(x)

    def __init__(self):
        self.kinds, self.imputed = nn.Embedding(3, 8), nn.Linear(8, 8)
        self.found, self.table = {}, torch.zeros(9)
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("weather[missing] = self.imputed(x[missing])", True),
        ("weather = weather.clone(); weather[missing] = self.imputed(x[missing])", True),
        ("weather[missing, :] = torch.tanh(self.imputed(x[missing]))", True),
        ("weather[x > 0] = self.heads['a'](x)", True),
        ("weather.index_copy_(0, missing, self.imputed(x))", True),
        ("guess = self.imputed(x); weather[missing] = guess", True),
        ("weather[missing] = self.guessed(x)[missing]", True),
        ("weather[len(x)] = self.imputed(x)", False),
        ("weather[kind] = self.imputed(x)", False),  # an int, as it says
        ("at = int(x[0]); weather[at] = self.imputed(x)", False),
        ("at = x.int(); weather[at] = self.imputed(x)", True),
        ("at = x.round(); weather[at] = self.imputed(x)", True),
        ("weather[x.int()] = self.imputed(x)", True),
        ("at = x[0].item(); weather[at] = self.imputed(x)", False),
        ("at = round(x[0] * 8); weather[at] = self.imputed(x)", False),
        ("at = 'warm'; weather[at] = self.imputed(x)", False),
        ("at = None; at = x.long(); weather[at] = self.imputed(x)", True),
        ("at = x.long(); weather[at] = self.imputed(x)", True),
        ("found = {}; found[name] = self.imputed(x)", False),
        ("found: dict[str, Tensor] = {}; found[name] = self.imputed(x)", False),
        ("self.found[name] = self.imputed(x)", False),
        ("self.table[name] = self.imputed(x)", True),
        ("found = []; found = torch.stack(found); found[name] = self.imputed(x)", True),
        ("weather[missing] = self.drawn(x)[missing]", False),
        ("weather[missing] = self.kinds(x)", False),
        ("for at in range(8): weather[:, at] = self.imputed(x)", False),
        ("for at, row in enumerate(x): weather[at] = self.imputed(row)", False),
        ("while at < 8: weather[at] = self.imputed(x); at += 1", False),
        ("weather[missing] = self.imputed(x[missing]).to(weather.dtype)", False),
        ("weather[missing] = self.imputed(x[missing]).float()", False),
        ("weather[missing] = 0.0", False),
        ("weather[missing] = x[missing]", False),
        ("weather[:8] = self.imputed(x)", False),
        ("h[missing] = self.second(x[missing])", False),
        ("out = torch.zeros_like(h); out[missing] = self.second(x[missing])", False),
    ],
)
def test_in_a_branch(code: str, found: bool) -> None:
    place = put_in_a_branch(parsed({"/p/net.py": NET.replace("CODE", code)}, Places(), "/p/net.py"))
    assert place == ("net.py:6" if found else "")


def test_what_each_step_does_shows_in_a_trial() -> None:
    text = NET.replace("if missing.any():\n            CODE", "weather[missing] = self.imputed(x)")
    assert put_in_a_branch(parsed({"/p/net.py": text}, Places(), "/p/net.py")) == ""


def test_each_step_trains() -> None:
    text = NET.replace("CODE", "weather[missing] = self.a(x)")
    text = text.replace("missing.any()", "self.training")
    assert put_in_a_branch(parsed({"/p/net.py": text}, Places(), "/p/net.py")) == ""
    text = text.replace("self.training:", "not self.training:")
    assert put_in_a_branch(parsed({"/p/net.py": text}, Places(), "/p/net.py")) != ""


KEEPING = """\
class Base(nn.Module):
    def __init__(self):
        self.found, self.other = {}, 0

class Memory(Base):
    def forward(self, x, known):
        if known.any():
            self.bank[known] = self.imputed(x)

    def __init__(self):
        CODE

    def emptied(self):
        LATER

class Cache:
    def __init__(self):
        self.bank = OTHER
"""


@pytest.mark.parametrize(
    ("code", "later", "other", "refused"),
    [
        ("self.bank = {}", "pass", "{}", False),
        ("self.bank = {}", "pass", "torch.zeros(9, 8)", False),
        ("self.bank = torch.zeros(9, 8)", "pass", "{}", True),
        ("self.register_buffer('bank', torch.zeros(9, 8))", "pass", "{}", True),
        ("self.register_buffer('bank', torch.zeros(9, 8))", "self.bank = []", "{}", True),
        ("pass", "self.bank = torch.zeros(9, 8)", "{}", True),
        ("pass", "self.bank = []", "0", False),
        ("self.bank = None", "self.bank = {}", "0", False),
        ("self.bank = {}", "self.bank = torch.stack(self.bank)", "0", True),
    ],
)
def test_what_is_put_into_is_what_its_own_class_has(
    code: str, later: str, other: str, refused: bool
) -> None:
    text = KEEPING.replace("CODE", code).replace("LATER", later).replace("OTHER", other)
    place = put_in_a_branch(parsed({"/p/net.py": text}, Places(), "/p/net.py"))
    assert place == ("net.py:8" if refused else "")
    inherited = text.replace("self.bank[known]", "self.found[known]")
    assert put_in_a_branch(parsed({"/p/net.py": inherited}, Places(), "/p/net.py")) == ""
