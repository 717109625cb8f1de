"""A training whose steps are others from some epoch or step on is told from one that stays."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.loops.stages import later_stage
from autotune.source.program import parsed

PROGRAM = """\
from torch.utils.data import DataLoader

def loader_of(size):
    return DataLoader(data(size), batch_size=8)

def train(model, batches, optimizer, epoch, args):
    for step, (x, y) in enumerate(batches):
        out = model(x)
        loss = criterion(out, y)
        {step}
        loss.backward()
        optimizer.step()
{after}
def main(args):
    model, batches = build(), loader_of(32)
    for epoch in range(args.epochs):
        {epoch}
        train(model, batches, optimizer, epoch, args)
        validate(model)
"""


def found(*, step: str = "pass", epoch: str = "pass", after: str = "") -> str:
    text = PROGRAM.format(step=step, epoch=epoch, after=after)
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if "loss.backward()" in each)
    place = Place(path="run.py", line=line)
    program = parsed({"run.py": text}, Places(backward=place, backwards=(place,)), "run.py")
    return later_stage(program)


@pytest.mark.parametrize(
    "step",
    [
        "if epoch >= 5: loss = loss + spread(out)",
        "if args.warmup < self.global_step: loss += spread(out)",
        "if epoch > args.interval: loss += spread(out)",
        "if step > 400: spread(model(x)).backward()",
        "size = min(64, 16 + step // 100)",
        "x = resized(x, 64) if epoch < 3 else x; crop_size = 16 if epoch < 3 else 32",
        "for ahead in range(1, step + 2): out = model(out)",
    ],
)
def test_another_loss_or_amount_from_some_step_on_is_found(step: str) -> None:
    assert found(step=step) == "run.py:10"


@pytest.mark.parametrize(
    "epoch",
    [
        "if epoch == 10: model.backbone.requires_grad_(False)",
        "if epoch in args.milestones: batches = loader_of(64)",
        "late = epoch > 5\n        if late:\n            batches.batch_size = 64",
        "args.seq_len = min(512, 64 * epoch)",
        "batches = loader_of(args.sizes[epoch])",
    ],
)
def test_what_is_set_between_epochs_from_one_on_is_found(epoch: str) -> None:
    assert found(epoch=epoch).startswith("run.py:1")


@pytest.mark.parametrize(
    "step",
    [
        "if step % 100 == 0: loss = loss + spread(out)",
        "if args.spread: loss = loss + spread(out)",
        "if step > 400: break",
        "if step > 0: print(loss)",
        "lr = min(1.0, step / 100)",
        "best = loss if step > 3 else None",
        "if args.phase == 'late': loss = loss + spread(out)",
        "if step == 0: loss = loss + spread(out)",
        "depth = max(round(args.width * 3), 1)",
        "if epoch == Phase.TRAIN: loss.backward()",
    ],
)
def test_what_comes_again_is_an_option_or_only_said_is_no_stage(step: str) -> None:
    assert not found(step=step)


@pytest.mark.parametrize(
    "epoch",
    [
        "if epoch > 10: validate(model)",
        "if epoch == 10: optimizer.param_groups[0]['lr'] = 0.1",
        "if epoch > 3: save(model)",
        "size = len(batches)",
        "if args.validate and epoch in args.listed: loss = validate(model)",
    ],
)
def test_what_leaves_the_steps_as_they_are_is_no_stage(epoch: str) -> None:
    assert not found(epoch=epoch)


def test_a_last_batch_that_is_smaller_is_no_stage() -> None:
    text = """
for epoch in range(args.epochs):
    for start in range(0, 900, args.size):
        size = args.size if start + args.size < 900 else 900 - start
        criterion(model(x[start : start + size])).backward()
"""
    place = Place(path="run.py", line=5)
    program = parsed({"run.py": text}, Places(backward=place, backwards=(place,)), "run.py")
    assert later_stage(program) == ""


def test_which_of_its_parts_a_function_is_at_is_no_stage_of_the_training() -> None:
    frozen = """
def freeze(model):
    for index, block in enumerate(model.blocks):
        if index < 3:
            stage = 1
        else:
            stage = 2
        if stage in model.frozen:
            block.weight.requires_grad = False
"""
    assert not found(epoch="freeze(model)", after=frozen)
    assert found(epoch="freeze(model)", after=frozen.replace("stage = 2", "stage = index"))


def test_a_program_that_was_not_seen_to_train_has_none() -> None:
    assert not later_stage(parsed({"run.py": "if epoch > 3: loss = 1"}, Places(), "run.py"))


@pytest.mark.parametrize(
    "step",
    [
        "if strong: x = attacked(model, x)",
        "if self.seen > args.enough: x = attacked(model, x)",
        "if strong and args.attack: spread(out).backward()",
    ],
)
def test_passes_that_have_not_come_and_may_once_the_training_has_changed_something_are_found(
    step: str,
) -> None:
    assert found(step=step, after=_CHANGES) == "run.py:10"


@pytest.mark.parametrize(
    "step",
    [
        "if args.attack: x = attacked(model, x)",
        "if turn: x = attacked(model, x)",
        "if scaler is not None: spread(out).backward()",
        "if strong: x = x.flip(-1)",
        "if count % 5 == 0: x = attacked(model, x)",
        "if self.training: x = attacked(model, x)",
        "if self.gain.fixed: x = attacked(model, x)",
        "if total > 5: test(model)",
    ],
)
def test_passes_of_another_configuration_or_of_every_so_many_steps_are_of_no_stage(
    step: str,
) -> None:
    assert found(step=step, after=_CHANGES) == ""


@pytest.mark.parametrize(
    ("asks", "place"), [("args.floor is not None", ""), ("total > 5", "run.py:11")]
)
def test_passes_in_the_branch_that_is_not_taken_come_only_where_that_may_turn(
    asks: str, place: str
) -> None:
    branches = f"""if {asks}:
            if loss > args.floor: spread(out).backward()
        else:
            total = total + 1
            loss.backward()"""
    text = PROGRAM.replace("loss.backward()", branches).format(step="pass", epoch="pass", after="")
    line = text.splitlines().index("            loss.backward()") + 1
    seen = Place(path="run.py", line=line)
    places = Places(backward=seen, backwards=(seen,))
    assert later_stage(parsed({"run.py": text}, places, "run.py")) == place


_CHANGES = """\
        turn, scaler = args.turn, args.scaler
        strong = strong or accuracy(out) > 0.8
        self.seen, count = 0.9 * self.seen + accuracy(out), count + 1
        turn = count % 4 == 0

def attacked(model, x):
    (slope,) = torch.autograd.grad(model(x).sum(), x)
    return x + slope
"""
