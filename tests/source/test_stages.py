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
        "if self.args.aug_step > 3: loss = loss + spread(out)",
        "if epoch < 9: beta = epoch / args.warmup\n        loss = loss + beta * spread(out)",
        "for step in range(x.size(1)):\n            if step > 9: loss = loss + spread(out)",
        "line = x[step]\n        for at in range(line.size(0)): out = model(out)",
        "size = min(64, len(x) - step * 64)",
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
        "if epoch == args.epochs - 1:\n            with torch.no_grad(): loss = model(args.grid)",
        "batches = DataLoader(args.sets[epoch], batch_size=8)",
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


@pytest.mark.parametrize(
    ("given", "later"),
    [
        ("cfg['accum_iter']", False),
        ("cfg['accum_iter'] + epoch", True),
        ("trainer.global_step", True),
    ],
)
def test_an_option_that_is_handed_on_tells_only_what_it_is_given(given: str, later: bool) -> None:
    each = f"""
def scaled(loss, out, accum_iter):
    if accum_iter > 1:
        loss = loss + spread(out)
    loss.backward()

def run(model, batches, cfg):
    for epoch in range(9):
        for x in batches:
            out = model(x)
            scaled(out.mean(), out, {given})
"""
    place = Place(path="run.py", line=5)
    program = parsed({"run.py": each}, Places(backward=place, backwards=(place,)), "run.py")
    assert bool(later_stage(program)) is later


def test_a_number_that_a_condition_asks_for_is_more_than_a_factor_of_the_loss() -> None:
    factor = "if epoch > 5: beta = 1.0\n        {}\n        loss = loss + beta * spread(out)"
    assert not found(step=factor.format("pass"))
    assert found(step=factor.format("if beta: out = spread(out)")) == "run.py:10"
    assert found(step=factor.format("beta = spread(out)")) == "run.py:10"


def test_what_is_repeated_before_the_step_of_the_optimizer_comes_again_in_each() -> None:
    text = """
for epoch in range(9):
    for x in batches:
        for turn in range(3):
            criterion(model(x)).backward()
            if turn < 2: x.requires_grad_()
        optimizer.step()
"""
    place, step = Place(path="run.py", line=5), Place(path="run.py", line=7)
    for at, expected in ((step, ""), (None, "run.py:6")):
        places = Places(backward=place, backwards=(place,), step=at)
        assert later_stage(parsed({"run.py": text}, places, "run.py")) == expected


def test_passes_that_each_step_has_itself_are_not_new_after_it() -> None:
    text = """
def slope(x):
    return torch.autograd.grad(model(x).sum(), x)[0]

for step in range(900):
    loss = {}(x).mean()
    loss.backward()
    if loss.item() < best:
        best = loss.item()
        draw(slope(grid))
"""
    place = Place(path="run.py", line=7)
    places = Places(backward=place, backwards=(place,))
    for each, expected in (("slope", ""), ("model", "run.py:8")):
        assert later_stage(parsed({"run.py": text.format(each)}, places, "run.py")) == expected


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
