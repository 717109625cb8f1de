"""What `Autocast` covers: all of forward and loss, in training alone, with weights that train."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from autotune.source.edits import Autocast, OutputPlace, Place
from tests.source.programs import PATH, check, places_of, rewritten, source

BF16 = Autocast(device_type="cpu", dtype="bfloat16")
CUDA_BF16 = Autocast(device_type="cuda", dtype="bfloat16")
FP16 = Autocast(device_type="cuda", dtype="float16", scaled=True)

HEADER = 'with torch.autocast(device_type="cpu", dtype=torch.bfloat16'


# Weights that are cast where there are no gradients

FROZEN = {
    "in the statements themselves": """
        import torch
        for x, y in loader:
            out = model(x)
            with torch.no_grad():
                wanted = out.softmax(1)
            loss = loss_of(out, wanted)
            loss.backward()
        """,
    "in a function that they call": """
        import torch

        def guessed(x):
            with torch.inference_mode():
                return model(x)

        def loss_of(x):
            return (model(x) - guessed(x)).mean()

        for x, y in loader:
            loss = loss_of(x)
            loss.backward()
        """,
    "in the model": """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                with torch.set_grad_enabled(self.tunes):
                    x = self.body(x)
                return self.head(x)

        model = Net()
        for x, y in loader:
            loss = model(x).mean()
            loss.backward()
        """,
}


@pytest.mark.parametrize("text", FROZEN.values(), ids=FROZEN)
def test_casts_are_not_kept_where_some_have_no_gradients(text: str) -> None:
    done = rewritten(source(text), BF16, places=_in_loop(source(text)))
    assert f"{HEADER}, cache_enabled=False):" in done.text
    assert rewritten(done.text, BF16, places=_in_loop(done.text)).statuses == ["already"]


def _in_loop(text: str) -> Any:
    """The places of `text`, forward in its loop."""
    lines = text.splitlines()
    loop = next(number for number, line in enumerate(lines) if line.startswith("for x"))
    signs = ("model(x)", "loss_of(x)")
    line = next(
        number
        for number, each in enumerate(lines, 1)
        if number > loop and any(sign in each for sign in signs)
    )
    return replace(places_of(text), forward=Place(path=PATH, line=line))


def test_casts_are_kept_where_only_other_methods_of_the_model_have_no_gradients() -> None:
    text = source(
        """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return self.body(x)

            @torch.no_grad()
            def generate(self, x):
                return self(x)

        model = Net()
        for x, y in loader:
            loss = model(x).mean()
            loss.backward()
        """
    )
    assert f"{HEADER}):" in rewritten(text, BF16, places=_in_loop(text)).text


def test_an_autocast_that_was_off_keeps_no_such_casts_either() -> None:
    check(
        """
        import torch
        for x, y in loader:
            with torch.autocast("cpu", enabled=args.amp):
                with torch.no_grad():
                    wanted = model(x)
                loss = loss_of(model(x), wanted)
            loss.backward()
        """,
        """
        import torch
        for x, y in loader:
            with torch.autocast("cpu", cache_enabled=False):
                with torch.no_grad():
                    wanted = model(x)
                loss = loss_of(model(x), wanted)
            loss.backward()
        """,
        BF16,
    )


TRAINED = """
import torch

def train(model, x):
    with torch.no_grad():
        wanted = model(x) + 1
    loss = torch.nn.functional.mse_loss(model(x), wanted)
    loss.backward()
"""


def test_weights_train_that_were_cast_without_gradients_before() -> None:
    seen = replace(
        places_of(TRAINED), frozen=Place(path=PATH, line=6), forward=Place(path=PATH, line=7)
    )
    names: dict[str, Any] = {}
    exec(rewritten(TRAINED, BF16, places=seen).text, names)
    model = torch.nn.Linear(4, 4)
    names["train"](model, torch.randn(8, 4))
    assert model.weight.grad is not None and model.weight.grad.any()


# Training alone

STEP = """
import torch

def step(x, y, train, phase):
    out = model(x)
    loss = loss_of(out, y)
    {tail}
"""
CONDITIONS = {
    "it returns before": ("if not train:\n        return loss\n    loss.backward()", "bool(train)"),
    "it returns before, in either case": (
        "if loss is None or not train:\n        return loss\n    loss.backward()",
        "bool(train)",
    ),
    "it returns in the other branch": (
        "if train:\n        out.mean()\n    else:\n        return out\n    loss.backward()",
        "bool(train)",
    ),
    "inside of a with": (
        "with timer('bwd'):\n        if train:\n            loss.backward()",
        "bool(train)",
    ),
    "beside the loss": (
        "if train and torch.isfinite(loss):\n        loss.backward()",
        "bool(train)",
    ),
    "in two": (
        "if train:\n        if phase == 'a' or phase == 'b':\n            loss.backward()",
        "bool(train and (phase == 'a' or phase == 'b'))",
    ),
    "not otherwise": (
        "if phase == 'a':\n        pass\n    elif not train:\n        loss.backward()",
        "not (phase == 'a') and not train",
    ),
    "by an object": ("if optimizer:\n        loss.backward()", "bool(optimizer)"),
    "by what the loss is computed with": (
        "if loss.requires_grad:\n        loss.backward()",
        "torch.is_grad_enabled()",
    ),
    "over lines": (
        "if (\n        x % 8\n        == y - 1\n    ):\n        loss.backward()",
        "x % 8 == y - 1",
    ),
    "over lines, with a comment": (
        "if train and (\n        x.size(0)  # 1\n        .real\n    ):\n        loss.backward()",
        "bool(train and x.size(0).real)",
    ),
    "not over lines": (
        "if (\n        x\n        == y\n    ):\n        return\n    loss.backward()",
        "not (x == y)",
    ),
    "an attribute": ("if self.training:\n        loss.backward()", "self.training"),
    "the same when asked again": (
        "if torch.is_grad_enabled():\n        loss.backward()",
        "torch.is_grad_enabled()",
    ),
    "by the loss alone": ("if loss > 9:\n        return\n    loss.backward()", ""),
    "by what was counted meanwhile": (
        "n += 1\n    if n > 9:\n        return\n    loss.backward()",
        "",
    ),
    "by what the step keeps": (
        "self.seen = out\n    if self.seen.any():\n        loss.backward()",
        "",
    ),
}


@pytest.mark.parametrize(("tail", "condition"), CONDITIONS.values(), ids=CONDITIONS)
def test_what_is_only_evaluated_stays_outside(tail: str, condition: str) -> None:
    text = STEP.format(tail=tail)
    done = rewritten(text, BF16)
    assert (f"{HEADER}, enabled={condition}):" if condition else f"{HEADER}):") in done.text
    assert rewritten(done.text, BF16).statuses == ["already"]


def test_what_is_left_in_the_midst_of_forward_stays_outside() -> None:
    check(
        """
        import torch
        for x, y in loader:
            out = model(x)
            if not train:
                right += (out.argmax(1) == y).sum()
                continue
            loss = loss_of(out, y)
            loss.backward()
        """,
        """
        import torch
        for x, y in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=bool(train)):
                out = model(x)
                if not train:
                    right += (out.argmax(1) == y).sum()
                    continue
                loss = loss_of(out, y)
            loss.backward()
        """,
        BF16,
    )


def test_a_condition_that_chance_decides_is_not_asked_twice() -> None:
    text = STEP.format(tail="if random.random() < share:\n        loss.backward()")
    outcome = rewritten(text, BF16)
    assert outcome.text == text
    assert "otherwise when it is asked twice" in outcome.reason
    assert outcome.hand_step.startswith(f"{PATH}:8: with torch.autocast")


# The whole of forward and loss


def test_a_loss_that_is_an_attribute_is_inside() -> None:
    check(
        """
        import torch

        class Trainer:
            def step(self):
                self.out["seg"] = self.net(self.x)
                self.loss = self.criterion(self.out["seg"], self.y)
                self.seen += 1
                self.loss.backward()
        """,
        """
        import torch

        class Trainer:
            def step(self):
                with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                    self.out["seg"] = self.net(self.x)
                    self.loss = self.criterion(self.out["seg"], self.y)
                self.seen += 1
                self.loss.backward()
        """,
        BF16,
    )


# What is kept on a GPU

KEEPING = """
import torch

for x, y in loader:
    out = model(x)
    loss = loss_of(out, y)
    {line}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "edit", "widened"),
    [
        ("kept.append(out.detach().cpu())", CUDA_BF16, True),
        ("kept.append({'out': out.sigmoid()})", CUDA_BF16, True),
        ("p = torch.sigmoid(out.detach()); q = p.cpu(); kept.append(q)", CUDA_BF16, True),
        ("kept += [out.detach()]", CUDA_BF16, True),
        ("shown = out.detach().cpu().numpy()", CUDA_BF16, True),
        ("kept.append(out.detach().cpu())", replace(FP16, scaled=False), False),
        ("kept.append(out.argmax(1).cpu())", CUDA_BF16, False),
        ("kept.append(out.float().cpu())", CUDA_BF16, False),
        ("kept.append(loss.item())", CUDA_BF16, False),
        ("right += (out.argmax(1) == y).sum()", CUDA_BF16, False),
    ],
)
def test_outputs_that_are_kept_are_in_a_format_that_numpy_knows(
    line: str, edit: Autocast, widened: bool
) -> None:
    text = KEEPING.format(line=line)
    called = OutputPlace(path=PATH, line=5, callee="model", tensors=True)
    done = rewritten(text, edit, places=replace(places_of(text), outputs=(called,)))
    assert done.statuses == ["done"], done.reason
    assert ("out = in_float32(model(x))" in done.text) is widened


def test_a_loss_that_ends_the_program_is_no_gradient() -> None:
    text = source(
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = model(x).mean()
            loss.backward()
            value = loss.item()
            if not torch.isfinite(loss):
                raise ValueError("diverged")
            optimizer.step()
        """
    )
    assert rewritten(text, FP16).statuses == ["done"]
