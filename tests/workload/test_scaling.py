"""fp16 is given to a program as it would be written: gradients are seen at their own size."""

import textwrap
from pathlib import Path

import pytest

from autotune.workload.setup import Precision, Setup
from autotune.workload.window import Window
from tests.workload.programs import PLAIN, losses, run, steps, window_of

SETUP = Setup(precision=Precision(dtype="float16", scaled=True))
FORWARD, BACKWARD, STEP = (
    "loss = criterion(model(x), y)",
    "loss.backward()",
    "        optimizer.step()\n",
)

BY_HAND = """
for p in model.parameters():
    p.grad.clamp_(-0.05, 0.05)
"""
IN_TWO = """
norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
nn.utils.clip_grads_with_norm_(model.parameters(), 0.1, norm)
"""
AT_ONCE = "\nnn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
LEFT_OUT = """
number += 1
if number % 3 == 0:
    continue
"""


def before_step(lines: str, text: str = PLAIN) -> str:
    text = text.replace(STEP, textwrap.indent(lines.strip(), " " * 8) + "\n" + STEP)
    return text.replace("for epoch", "number = 0\nfor epoch", 1)


def written_with_a_scaler(text: str) -> str:
    """`text` as somebody would write it for fp16."""
    return (
        text.replace("for epoch", "scaler = torch.amp.GradScaler('cpu')\nfor epoch", 1)
        .replace(FORWARD, f"with torch.autocast('cpu', torch.float16): {FORWARD}")
        .replace(BACKWARD, "scaler.scale(loss).backward()")
        .replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    )


def unscaled_before(lines: str) -> str:
    return f"scaler.unscale_(optimizer)\n{lines.lstrip()}"


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("lines", [BY_HAND, IN_TWO, AT_ONCE], ids=["by hand", "in two", "at once"])
def test_what_looks_at_gradients_sees_them_at_their_own_size(
    tmp_path: Path, lines: str, fused: bool
) -> None:
    plain = PLAIN.replace("lr=1e-2)", "lr=1e-2, fused=True)") if fused else PLAIN
    own = losses(written_with_a_scaler(before_step(unscaled_before(lines), plain)), tmp_path)
    assert losses(before_step(lines, plain), tmp_path, setup=SETUP) == own


def test_gradients_are_added_up_over_several_backward_passes(tmp_path: Path) -> None:
    text = before_step("number += 1\nif number % 2: continue").replace(
        "        optimizer.zero_grad()\n", ""
    )
    text = text.replace(STEP, "        CLIP\n" + STEP + "        optimizer.zero_grad()\n")
    own = written_with_a_scaler(
        text.replace("CLIP", f"scaler.unscale_(optimizer); {AT_ONCE.strip()}")
    )
    clipped = text.replace("CLIP", AT_ONCE.strip())
    assert losses(clipped, tmp_path, setup=SETUP) == losses(own, tmp_path)


def test_a_step_that_is_left_out_leaves_nothing_behind(tmp_path: Path) -> None:
    own = losses(written_with_a_scaler(before_step(LEFT_OUT)), tmp_path)
    assert losses(before_step(LEFT_OUT), tmp_path, setup=SETUP) == own


def test_an_overflow_in_one_of_several_backward_passes_leaves_out_the_step(tmp_path: Path) -> None:
    text = before_step("number += 1\nif number % 2: continue").replace(
        BACKWARD, "(loss * (1e38 if number in (0, 2, 4, 6) else 1)).backward()"
    )
    text = text.replace("        optimizer.zero_grad()\n", "")
    text = text.replace(STEP, STEP + "        optimizer.zero_grad()\n")
    assert window_of(run(text, steps(6), setup=SETUP, folder=tmp_path)).skipped_steps == 4


def test_gradients_of_parts_are_unscaled_once(tmp_path: Path) -> None:
    parts = Setup(precision=SETUP.precision, micro_batches=4)
    for text in (PLAIN, before_step(AT_ONCE)):
        whole = losses(text, tmp_path, setup=SETUP)
        assert losses(text, tmp_path, setup=parts) == pytest.approx(whole, rel=0.01)


def test_an_optimizer_of_a_loop_before_has_nothing_to_do_with_it(tmp_path: Path) -> None:
    first = PLAIN.replace("range(50)", "range(4)").replace("AdamW", "SGD")
    text = first + PLAIN[PLAIN.index("\nloader") :]
    one = window_of(run(text, steps(10), folder=tmp_path, passed_loops=1)).losses
    other = window_of(run(text, steps(10), setup=SETUP, folder=tmp_path, passed_loops=1)).losses
    assert other == pytest.approx(one, rel=0.02)


def same(text: str, folder: Path, *, count: int = 40) -> bool:
    """Whether `text` trains in fp16 as it does by itself, but for its rounding."""
    own, given = (
        window_of(run(text, steps(count - 1), setup=setup, folder=folder)).losses
        for setup in (None, SETUP)
    )
    return given == pytest.approx(own, rel=0.03, abs=0.01)


def window(text: str, folder: Path, *, count: int = 10) -> Window:
    return window_of(run(text, steps(count), setup=SETUP, folder=folder))


GUARDED = """
if not all(p.grad.isfinite().all() for p in model.parameters()):
    continue
"""
BY_HAND_TO_NONE = "for p in model.parameters(): p.grad = None"


@pytest.mark.parametrize(
    "zeroing",
    ["optimizer.zero_grad()", "model.zero_grad(set_to_none=False)", BY_HAND_TO_NONE],
    ids=["to none", "to zero", "by hand"],
)
def test_the_scale_falls_where_the_program_itself_leaves_out_what_overflows(
    tmp_path: Path, zeroing: str
) -> None:
    text = before_step(GUARDED).replace(BACKWARD, "(loss * 1e4).backward()")
    text = text.replace("optimizer.zero_grad()", zeroing)
    assert window(text, tmp_path).steps == 10


CLIPPED = """
norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
assert norm < 10, f"the norm is {norm}"
"""
LOOP = PLAIN[PLAIN.index("\nloader") :]
ONLY_THE_HEAD = "optimizer = torch.optim.SGD(model[2].parameters(), lr=1e-2)"


def test_a_later_optimizer_sees_gradients_at_their_own_size(tmp_path: Path) -> None:
    adam = next(line for line in LOOP.splitlines() if "AdamW" in line)
    head = PLAIN.replace("range(50)", "range(3)").replace(adam, ONLY_THE_HEAD)
    run(head + before_step(CLIPPED, LOOP), steps(60), setup=SETUP, folder=tmp_path)


def folds(loop: str) -> str:
    """Three trainings of a model of their own, each kept."""
    body = "model = nn.Linear(8, 2)\n" + loop.replace("range(50)", "range(4)")
    body += "kept.append((model, optimizer))\n"
    return (
        PLAIN.removesuffix(LOOP)
        + "kept = []\nfor fold in range(3):\n"
        + textwrap.indent(body, "    ")
    )


def test_each_fold_sees_gradients_at_their_own_size_from_its_first_step_on(tmp_path: Path) -> None:
    run(folds(before_step(CLIPPED, LOOP)), steps(80), setup=SETUP, folder=tmp_path)


def test_what_has_overflowed_in_a_fold_holds_back_no_step_of_the_next(tmp_path: Path) -> None:
    loop = LOOP.replace(BACKWARD, "(loss * (1 if fold or epoch < 3 else 1e38)).backward()")
    assert window(folds(loop), tmp_path, count=35).skipped_steps == 7


IN_A_LIST = "loss.backward(); torch.autograd.backward([model(x).mean() / 9, model(x).std() / 9])"
VECTOR = """each = nn.functional.cross_entropy(model(x), y, reduction="none") / len(y)
        number += 1
        each.sum().backward() if number % 2 else each.backward(torch.ones_like(each))"""


@pytest.mark.parametrize("lines", [IN_A_LIST, VECTOR], ids=["list", "vector"])
def test_losses_that_are_not_one_number_are_left_at_their_own_size(
    tmp_path: Path, lines: str
) -> None:
    assert same(before_step(AT_ONCE, PLAIN.replace(BACKWARD, lines)), tmp_path)


def test_a_step_without_gradients_is_the_programs_own(tmp_path: Path) -> None:
    text = before_step("number += 1").replace(BACKWARD, "number % 5 == 4 or loss.backward()")
    assert same(text, tmp_path)


def test_a_second_step_on_the_same_gradients_goes_as_far(tmp_path: Path) -> None:
    plain = PLAIN.replace("AdamW", "SGD").replace("1e-2", "0.5")
    assert same(plain.replace(STEP, STEP + STEP), tmp_path)


def test_a_program_with_a_scaler_of_its_own_is_given_no_other(tmp_path: Path) -> None:
    own = written_with_a_scaler(before_step(unscaled_before(AT_ONCE)))
    without_autocast = own.replace("with torch.autocast('cpu', torch.float16): ", "")
    assert losses(without_autocast, tmp_path, setup=SETUP) == losses(own, tmp_path)


def test_an_overflow_is_not_held_against_a_loss_that_was_not_scaled(tmp_path: Path) -> None:
    overflowing = VECTOR.replace("each.sum()", "(each.sum() * 1e36)")
    text = before_step("", PLAIN.replace(BACKWARD, overflowing))
    assert window(text, tmp_path, count=10).skipped_steps == 6
