"""What a model gives is kept by some programs beyond the step: CUDA graphs would overwrite it."""

from pathlib import Path

import pytest

from tests.workload.programs import PLAIN, observe

LOSS = "loss = criterion(model(x), y)"
IN_PLACE = "import torch\n" + PLAIN.replace(
    LOSS, "out = model(x)\n        loss = criterion(out, y)"
)


def keeping(line: str) -> str:
    return IN_PLACE.replace("for epoch", "kept = []\nfor epoch", 1).replace(
        "        optimizer.step()\n", f"        optimizer.step()\n        {line}\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(out)",
        "kept.append(out.detach())",
        "kept.append({'logits': out[:, 0]})",
        "kept = kept[-2:] + [out.detach().argmax(1), out.detach()]",
    ],
)
def test_outputs_that_live_on_are_seen(line: str, tmp_path: Path) -> None:
    assert observe(keeping(line), tmp_path).keeps_outputs


@pytest.mark.parametrize(
    "line",
    [
        "pass",
        "kept.append(out.detach().clone())",
        "kept.append(out.argmax(1))",
        "kept.append(loss.item())",
        "kept.append(loss.detach())",  # the criterion, which is not compiled, has made it
        "kept = [out.detach()]",
        "kept.append(x)",
    ],
)
def test_what_is_computed_of_them_may_be_kept(line: str, tmp_path: Path) -> None:
    assert not observe(keeping(line), tmp_path).keeps_outputs


def test_what_a_model_passes_on_is_not_of_its_making(tmp_path: Path) -> None:
    text = keeping("kept.append((given, weight))").replace(
        "out = model(x)", "out, given, weight = model(x)"
    )
    own = """
class Passing(nn.Sequential):
    def forward(self, x):
        return super().forward(x), x, self[0].weight
model = Passing(*model)
loader ="""
    assert not observe(text.replace("\nloader =", own, 1), tmp_path).keeps_outputs


def test_a_state_that_goes_from_step_to_step_is_not_kept(tmp_path: Path) -> None:
    text = IN_PLACE.replace("model(x)", "model(x + state)").replace(
        "        optimizer.step()\n",
        "        optimizer.step()\n        state = out.detach()[:1, :1]\n",
    )
    text = text.replace("for epoch", "state = 0\nfor epoch", 1)
    assert not observe(text, tmp_path).keeps_outputs
