"""`OptimizerArgument`: how the optimizer is built."""

import pytest

from autotune.source.edits import OptimizerArgument, Place, Places
from tests.source.programs import PATH, check, rewritten

FUSED = OptimizerArgument(name="fused", code="True")
FOREACH = OptimizerArgument(name="foreach", code="True")


def test_fused_is_added_to_a_call_of_several_lines() -> None:
    check(
        """
        optimizer = optim.AdamW(
            model.parameters(),
            lr=1e-3,  # found by hand
        )
        """,
        """
        optimizer = optim.AdamW(
            model.parameters(),
            lr=1e-3,  # found by hand
            fused=True,
        )
        """,
        FUSED,
    )


def test_fused_takes_the_place_of_foreach() -> None:
    check(
        "optimizer = optim.SGD(net.parameters(), foreach=True, lr=args.lr)\n",
        "optimizer = optim.SGD(net.parameters(), lr=args.lr, fused=True)\n",
        FUSED,
    )


def test_foreach_false_may_stand_beside_fused() -> None:
    check(
        "optimizer = optim.SGD(net.parameters(), 0.1)\n",
        "optimizer = optim.SGD(net.parameters(), 0.1, fused=True, foreach=False)\n",
        FUSED,
        OptimizerArgument(name="foreach", code="False"),
    )


@pytest.mark.parametrize(
    "call",
    [
        "optimizer = Scheduled(optim.Adam(model.parameters(){}))",
        "optimizer = OPTIMIZERS[args.optimizer](model.parameters(){})",
        "optimizer = getattr(torch.optim, name)(groups{})",
        "return torch.optim.RMSprop(groups{})",
    ],
)
def test_the_optimizer_is_found_in_other_forms(call: str) -> None:
    text = f"def build():\n    {call}\n"
    places = Places(optimizer=Place(path=PATH, line=2))
    outcome = rewritten(text.format(""), FOREACH, places=places)
    assert outcome.text == text.format(", foreach=True")
    assert outcome.statuses == ["done"]


def test_two_optimizers_on_one_line_are_refused() -> None:
    text = "a, b = optim.SGD(p, 0.1), optim.SGD(q, 0.1)\n"
    outcome = rewritten(text, FUSED)
    assert outcome.text == text
    assert "more than one" in outcome.reason
