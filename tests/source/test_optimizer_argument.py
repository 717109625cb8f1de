"""`OptimizerArgument`: how the optimizer is built."""

from typing import Any

import pytest
import torch

from autotune.source.edits import OptimizerArgument, Place, Places
from autotune.source.rewrite import by_hand
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
        "optimizer = Own(model.parameters(){})",
        "return torch.optim.RMSprop(groups{})",
    ],
)
def test_the_optimizer_is_found_in_other_forms(call: str) -> None:
    text = f"from mine import Own\ndef build():\n    {call}\n"
    places = Places(optimizer=Place(path=PATH, line=3))
    outcome = rewritten(text.format(""), FOREACH, places=places)
    assert outcome.text == text.format(", foreach=True")
    assert outcome.statuses == ["done"]


@pytest.mark.parametrize(
    "called", ["OPTIMIZERS[args.optimizer]", "getattr(torch.optim, name)", "kind", "self.kind"]
)
def test_a_class_that_is_chosen_when_it_runs_may_not_take_the_argument(called: str) -> None:
    text = f"def build(kind):\n    optimizer = {called}(model.parameters())\n"
    places = Places(optimizer=Place(path=PATH, line=2))
    outcome = rewritten(text, FUSED, places=places)
    assert outcome.text == text
    assert outcome.reason == f"which class {called} is, its call does not tell"
    assert outcome.hand_step == (
        f"{PATH}:2: fused=True among the arguments of the optimizer, if its class takes that"
    )


def test_a_class_is_found_by_what_its_name_was_given() -> None:
    text = "kind = getattr(torch.optim, name)\noptimizer = kind(groups(model), lr=0.1)\n"
    outcome = rewritten(text, FUSED, places=Places(optimizer=Place(path=PATH, line=2)))
    assert outcome.text == text
    assert outcome.reason == "which class kind is, its call does not tell"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("self, params, lr", "refused"),
        ("self, params, lr, foreach=None", "done"),
        ("self, params, **options", "done"),
    ],
)
def test_a_class_of_the_programs_own_must_take_the_argument(given: str, status: str) -> None:
    text = (
        f"class Own(torch.optim.Adam):\n    def __init__({given}):\n        ...\n"
        "optimizer = Own(model.parameters(), 0.1{})\n"
    )
    places = Places(optimizer=Place(path=PATH, line=4))
    outcome = rewritten(text.format(""), FOREACH, places=places)
    assert outcome.statuses == [status]
    if status == "refused":
        assert outcome.text == text.format("")
        assert outcome.reason == "Own, a class of the program's own, is not built with foreach"
        assert outcome.hand_step == f"{PATH}:4: foreach=True where Own builds its own"
    else:
        assert outcome.text == text.format(", foreach=True")


def test_an_optimizer_of_torchs_is_not_one_of_the_programs_own_of_that_name() -> None:
    text = (
        "class SGD:\n    def __init__(self, params, lr):\n        ...\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1{})\n"
    )
    places = Places(optimizer=Place(path=PATH, line=4))
    assert rewritten(text.format(""), FUSED, places=places).text == text.format(", fused=True")


def test_a_lone_generator_gets_the_parentheses_that_it_needs_beside_another_argument() -> None:
    check(
        "optimizer = optim.Adam(p for p in net.parameters() if p.requires_grad)\n",
        "optimizer = optim.Adam((p for p in net.parameters() if p.requires_grad), fused=True)\n",
        FUSED,
    )
    check(
        "optimizer = optim.Adam((p for p in net.parameters()))\n",
        "optimizer = optim.Adam((p for p in net.parameters()), fused=True)\n",
        FUSED,
    )


def test_a_checkpoint_of_before_is_told_that_its_optimizer_is_fused() -> None:
    check(
        """
        group = 1
        optimizer = optim.SGD(net.parameters(), 0.1)
        if args.resume:
            state = torch.load(args.resume)
            net.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])  # as it was
        """,
        """
        group = 1
        optimizer = optim.SGD(net.parameters(), 0.1, fused=True)
        if args.resume:
            state = torch.load(args.resume)
            net.load_state_dict(state["net"])
            for param_group in state["optimizer"]["param_groups"]:
                param_group.update(fused=True, foreach=False)
            optimizer.load_state_dict(state["optimizer"])  # as it was
        """,
        FUSED,
    )


def test_only_a_fused_optimizer_is_another_than_that_of_its_checkpoint() -> None:
    text = "optimizer = optim.SGD(p, 0.1)\noptimizer.load_state_dict(state)\n"
    assert rewritten(text, FOREACH).text == text.replace("0.1)", "0.1, foreach=True)")


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (
            "if path:\n    optimizer.load_state_dict(torch.load(path))",
            (
                "if path:\n    state = torch.load(path)\n"
                '    for group in state["param_groups"]:\n'
                "        group.update(fused=True, foreach=False)\n"
                "    optimizer.load_state_dict(state)"
            ),
        ),
        (
            "state = 1\noptimizer.load_state_dict(\n    kept\n    .pop('optim')\n)",
            "state = 1\noptimizer_state = kept\n    .pop('optim')",
        ),
        (
            "missing = optimizer.load_state_dict(state)",
            (
                'for group in state["param_groups"]:\n    group.update(fused=True, foreach=False)\n'
                "missing = optimizer.load_state_dict(state)"
            ),
        ),
    ],
)
def test_a_checkpoint_without_a_name_is_given_one(load: str, told: str) -> None:
    text = f"optimizer = optim.SGD(p, 0.1)\n{load}\n"
    outcome = rewritten(text, FUSED)
    assert outcome.statuses == ["done"], outcome.reason
    assert "optim.SGD(p, 0.1, fused=True)\n" in outcome.text
    assert told in outcome.text.replace("(kept\n    .pop('optim'))", "kept\n    .pop('optim')")
    assert rewritten(outcome.text, FUSED).statuses == ["already"]


@pytest.mark.parametrize(
    ("load", "lines"),
    [
        (
            "if path: optimizer.load_state_dict(state)",
            'for group in state["param_groups"]:\n    group.update(fused=True, foreach=False)',
        ),
        (
            "x = 1; optimizer.load_state_dict(torch.load(path))",
            (
                'state = torch.load(path)\nfor group in state["param_groups"]:\n'
                "    group.update(fused=True, foreach=False)\nload_state_dict(state)"
            ),
        ),
    ],
)
def test_a_checkpoint_without_room_before_it_is_left_to_a_person(load: str, lines: str) -> None:
    text = f"optimizer = optim.SGD(\n    p, 0.1\n)\n{load}\n"
    outcome = rewritten(text, FUSED)
    assert outcome.text == text
    assert "says that its optimizer is not fused" in outcome.reason
    assert outcome.hand_step == (
        f"{PATH}:1: fused=True among the arguments of the optimizer\nbefore {PATH}:4: {lines}"
    )


WRAPPED = """
class Warm:
    def load_state_dict(self, state):
        self.inner = state["inner"]

optimizer = Warm(512, torch.optim.Adam(p, 0.1))
optimizer.load_state_dict(state["optimizer"])
optimizer.step()
"""


@pytest.mark.parametrize("name", ["optimizer", "trainer"])
def test_what_holds_an_optimizer_loads_in_its_own_way(name: str) -> None:
    text = WRAPPED.replace("optimizer", name).replace(f"torch.{name}", "torch.optim")
    text = text.replace('state["trainer"]', "torch.load(path)")
    outcome = rewritten(text, FUSED)
    assert outcome.statuses == ["done"], outcome.reason
    assert outcome.text == text.replace("0.1))", "0.1, fused=True))")


def resumed(text: str, state: Any) -> Any:
    """The optimizer of the program `text`, which has gone on from `state`."""
    weight = torch.ones(4, requires_grad=True)
    weight.grad = torch.ones(4)
    names: dict[str, Any] = {"torch": torch, "weights": [weight], "state": state}
    exec(text, names)
    names["optimizer"].step()
    return names["optimizer"]


@pytest.mark.parametrize("given", ["state", "dict(state)", "(\n    [state]\n    .pop()\n)"])
def test_what_goes_on_from_a_checkpoint_is_fused(given: str) -> None:
    text = f"optimizer = torch.optim.Adam(weights)\noptimizer.load_state_dict({given})\n"
    other = torch.ones(4, requires_grad=True)
    before = torch.optim.Adam([other])
    other.grad = torch.ones(4)
    before.step()
    patched = rewritten(text, FUSED, places=Places(optimizer=Place(path=PATH, line=1))).text
    groups = resumed(patched, before.state_dict()).param_groups
    assert [(group["fused"], group["foreach"]) for group in groups] == [(True, False)]


def test_two_optimizers_on_one_line_are_refused() -> None:
    text = "a, b = optim.SGD(p, 0.1), optim.SGD(q, 0.1)\n"
    outcome = rewritten(text, FUSED)
    assert outcome.text == text
    assert "which of several calls" in outcome.reason


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("a, b = SGD(p), SGD(q)\n", "refused"),
        ("a, b = SGD(p), Adam(q)\n", "done"),
        ("a = SGD(p) if nesterov else SGD(q)\n", "done"),
    ],
)
def test_of_two_optimizers_on_one_line_the_column_tells_one(code: str, status: str) -> None:
    places = Places(optimizer=Place(path=PATH, line=1, column=code.index("SGD")))
    assert rewritten(code, FUSED, places=places).statuses == [status]


def test_a_person_is_told_of_each_optimizer() -> None:
    text = "a = optim.SGD(p, 0.1)\nb = kind(q, 0.1)\n"
    places = Places(optimizer=Place(path=PATH, line=1), more_optimizers=(Place(path=PATH, line=2),))
    assert rewritten(text, FUSED, places=places).hand_step == (
        f"{PATH}:2: fused=True among the arguments of the optimizer, and of that at {PATH}:1"
    )
    assert by_hand(FUSED, places, PATH) == (
        f"{PATH}:1: fused=True among the arguments of the optimizer, and of that at {PATH}:2"
    )


@pytest.mark.parametrize(
    ("made", "reading", "refused"),
    [
        ("SGD(w, 0.1, momentum=0.9, nesterov=True{})", "print(net.weight.grad.norm())", True),
        ("SGD(w, 0.1, momentum=0.9, nesterov=args.nesterov{})", "keep(p.grad)", True),
        ("Adagrad(w, 0.1{})", "keep([p.grad for p in w])", True),
        ("SGD(w, 0.1, momentum=0.9{})", "print(net.weight.grad.norm())", False),
        ("SGD(w, 0.1, momentum=0.9, nesterov=False{})", "keep(p.grad)", False),
        ("AdamW(w, 0.1{})", "keep(p.grad)", False),
        ("Adagrad(w, 0.1{})", "some = [p for p in w if p.grad is not None]", False),
        ("Adagrad(w, 0.1{})", "p.grad.zero_() if p.grad else None", False),
        ("Adagrad(w, 0.1{})", "p.grad = None", False),
    ],
)
def test_gradients_that_the_program_reads_are_not_written_into(
    made: str, reading: str, refused: bool
) -> None:
    text = "optimizer = torch.optim." + made + "\nfor x, y in loader:\n    optimizer.step()\n    "
    places = Places(optimizer=Place(path=PATH, line=1))
    outcome = rewritten(text.format("") + reading + "\n", FOREACH, places=places)
    assert outcome.statuses == ["refused" if refused else "done"]
    assert ("may write into them" in (outcome.reason or "")) is refused
    fused = rewritten(text.format("") + reading + "\n", FUSED, places=places)
    assert fused.statuses == ["done"]
