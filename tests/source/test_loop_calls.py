"""`NonBlockingCopies` and `ZeroGradToNone`: single calls of the loop."""

import pytest

from autotune.source.edits import NonBlockingCopies, OutputPlace, Place, Places, ZeroGradToNone
from tests.source.programs import PATH, check, places_of, rewritten

COPIES = NonBlockingCopies()
TO_NONE = ZeroGradToNone()


def test_every_copy_of_the_batch_is_told_not_to_wait() -> None:
    check(
        """
        for x, y in loader:
            x, y = x.to(device), y.to(device=d).float()  # 2
            mask = (
                mask
                .to(device, torch.bool)
            )
            z = z.cuda(0)
            logs = x.to("cpu")
        """,
        """
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device=d, non_blocking=True).float()  # 2
            mask = (
                mask
                .to(device, torch.bool, non_blocking=True)
            )
            z = z.cuda(0, non_blocking=True)
            logs = x.to("cpu")
        """,
        COPIES,
    )


def test_a_copy_inside_the_call_of_the_model_keeps_the_rest_of_its_line() -> None:
    text = "out = model(x.to(device), y.half().to(torch.float32), z.to('cpu'))\n"
    places = Places(copies=(Place(path=PATH, line=1),))
    outcome = rewritten(text, COPIES, places=places)
    assert outcome.text == text.replace("x.to(device)", "x.to(device, non_blocking=True)")


@pytest.mark.parametrize(
    "text",
    [
        "out = model(x.to(device)).to(back)\n",
        "host = torch.device('cpu')\nx, old = x.to(device), old.to(host)\n",
        "x, old = x.to(device), old.to(torch.device('cpu'))\n",
    ],
)
def test_the_way_back_to_the_host_waits(text: str) -> None:
    places = Places(copies=(Place(path=PATH, line=len(text.splitlines())),))
    done = rewritten(text, COPIES, places=places)
    assert done.text == text.replace("x.to(device)", "x.to(device, non_blocking=True)")


@pytest.mark.parametrize("other", ["model = moved(net, device)", "net = 1; moved(model, device)"])
def test_what_moves_a_model_too_asks_only_what_a_tensor_has(other: str) -> None:
    text = f"def moved(x, device):\n    return x.to(device)\n{other}\nout = model(b)\n"
    called = OutputPlace(path=PATH, line=4, callee="model", tensors=True)
    places = Places(copies=(Place(path=PATH, line=2),), outputs=(called,))
    told = 'non_blocking=not getattr(x, "is_cuda", True)'
    assert told in rewritten(text, COPIES, places=places).text


def test_an_array_is_on_the_host() -> None:
    text = "def move(x, device):\n    return torch.from_numpy(x).float().to(device)\n"
    places = Places(copies=(Place(path=PATH, line=2),))
    done = rewritten(text, COPIES, places=places)
    assert done.text == text.replace("(device)\n", "(device, non_blocking=True)\n")


def test_a_copy_that_waits_on_purpose_is_told_otherwise() -> None:
    check(
        "x = x.to(device, non_blocking=False)\n",
        "x = x.to(device, non_blocking=True)\n",
        COPIES,
    )


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("def move(batch, device):\n    return [x.to(device) for x in batch]\n", "not x.is_cuda"),
        (
            "def move(b, device):\n    for k in b:\n        b[k] = b[k].to(device=device)\n",
            "not b[k].is_cuda",
        ),
        ("def step(x, device):\n    x = x.to(device)\n    loss(x).backward()\n", "True"),
        (
            "def train(loader, device):\n    for x in loader:\n        step(net(x.to(device)))\n",
            "True",
        ),
        (
            "def train(own, device):\n    for x in own:\n        step(net(made(x).to(device)))\n",
            "True",
        ),
        ("def move(x):\n    return x.to(DEVICE)\n", "True"),
    ],
)
def test_a_copy_that_may_be_the_way_back_waits_there(function: str, told: str) -> None:
    line = next(at for at, each in enumerate(function.splitlines(), 1) if ".to(" in each)
    seen = Places(copies=(Place(path=PATH, line=line),), forward=places_of(function).forward)
    assert f", non_blocking={told})" in rewritten(function, COPIES, places=seen).text


def test_what_is_no_name_is_not_asked_twice_whether_it_goes_back() -> None:
    text = "def move(b, device):\n    return {k: as_tensor(b[k]).to(device) for k in b}\n"
    places = Places(copies=(Place(path=PATH, line=2),))
    outcome = rewritten(text, COPIES, places=places)
    assert outcome.text == text
    assert "may be the way back to the host" in outcome.reason
    assert outcome.hand_step.startswith(f"{PATH}:2: non_blocking=True")
    told = text.replace("(device)", "(device, non_blocking=True)")
    assert rewritten(told, COPIES, places=places).statuses == ["already"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = x.to(*given, **named)\n", "hands on what it is given"),
        ("x = x.to(device, torch.float, False)\n", "without its name"),
        ("x = move(x)\n", "no .to"),
    ],
)
def test_a_copy_in_another_form_is_refused(text: str, reason: str) -> None:
    places = Places(copies=(Place(path=PATH, line=1),))
    outcome = rewritten(text, COPIES, places=places)
    assert outcome.text == text
    assert reason in outcome.reason
    assert outcome.hand_step.startswith(f"{PATH}:1: ")


def test_all_copies_are_changed_or_none() -> None:
    text = "x = x.to(device)\ny = move(y)\n"
    places = Places(copies=tuple(Place(path=PATH, line=line) for line in (1, 2)))
    outcome = rewritten(text, COPIES, places=places)
    assert outcome.statuses == ["refused"]
    assert outcome.text == text


def test_without_a_copy_there_is_nothing_to_tell() -> None:
    assert rewritten("import torch\n", COPIES).statuses == ["refused"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("set_to_none=False", ""),
        ("False", "True"),
        ("set_to_none=args.none", ""),
        ("", ""),
        ("set_to_none=True", ""),
    ],
)
def test_gradients_are_freed_by_default(before: str, after: str) -> None:
    check(f"optimizer.zero_grad({before})  # c\n", f"optimizer.zero_grad({after})  # c\n", TO_NONE)


def test_gradients_are_freed_wherever_they_are_cleared() -> None:
    text = "opt.zero_grad(set_to_none=False)\nother.zero_grad(False)\n" * 2
    places = Places(zero_grad=Place(path=PATH, line=3))
    done = rewritten(text, TO_NONE, places=places).text
    assert done == "opt.zero_grad()\nother.zero_grad(False)\n" * 2


def test_gradients_that_are_read_later_are_zeros() -> None:
    text = "loss.backward()\nopt.zero_grad(set_to_none=False)\nprint(weight.grad)\n"
    outcome = rewritten(text, TO_NONE)
    assert (outcome.text, outcome.statuses) == (text, ["refused"])
    assert "train.py:3, which may be zeros" in outcome.reason


def test_gradients_cleared_by_hand_are_refused() -> None:
    text = "for p in params:\n    p.grad.zero_()\n"
    places = Places(zero_grad=Place(path=PATH, line=2))
    outcome = rewritten(text, TO_NONE, places=places)
    assert outcome.text == text
    assert outcome.statuses == ["refused"]
    assert outcome.hand_step == f"{PATH}:2: optimizer.zero_grad(set_to_none=True)"
