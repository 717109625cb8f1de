"""What a program does beyond the steps that a run comes to, which settings would break."""

from dataclasses import replace

import pytest

from autotune.source.edits import LoaderArgument, ModelStatement
from tests.source.programs import places_of, rewritten

LAST = ModelStatement(
    code="{model}.to(memory_format=torch.channels_last)",
    imports=("import torch",),
    reordered=True,
)
KEPT = LoaderArgument(name="persistent_workers", code="True")
PROGRAM = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader

class Net(nn.Module):
    def forward(self, x):
        x = self.features(x)
        {forward}
        return self.head(x.view(x.size(0), -1))

    def features(self, x):
        return self.body(x).view(-1)

    def descriptor(self, x):
        return {descriptor}

class Unused(nn.Module):
    def forward(self, x):
        return x

    def other(self, x):
        return x.view(-1)

def validate(net):
    {validate}

def main(args):
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    data = make()
    loader = DataLoader(data, num_workers=2)
    for epoch in range(9):
        {epoch}
        for x, y in loader:
            {step}
            criterion(net(x), y).backward()
            optimizer.step()
        validate(net)
"""


def program(**parts: str) -> str:
    names = ("forward", "validate", "epoch", "step")
    return PROGRAM.format(**{**dict.fromkeys(names, "pass"), "descriptor": "x", **parts})


@pytest.mark.parametrize(
    ("part", "code", "refused"),
    [
        ("descriptor", "self.body(x).view(x.size(0), -1)", True),
        ("descriptor", "self.body(x).reshape(x.size(0), -1)", False),
        ("descriptor", "self.body(x).view(2, 3, -1)", False),
        ("forward", "if not self.training: x = x.view(-1)", True),
        ("forward", "if self.training: x = x.view(-1)", False),
        ("forward", "if self.training: return x", True),  # and views below
        ("validate", "norms = [p.view(-1).norm() for p in net.parameters()]", True),
        ("validate", "for name, p in net.state_dict().items(): p.data.view(-1)", True),
        ("validate", "net.conv.weight.view(8, -1).sum(1)", True),
        ("validate", "all = nn.utils.parameters_to_vector(net.parameters())", True),
        ("validate", "norms = list(map(lambda p: p.view(-1).norm(), net.parameters()))", True),
        ("validate", "prune.l1_unstructured(net.conv, 'weight', 0.1)", True),
        ("validate", "refined = optim.LBFGS(net.parameters())", True),
        ("validate", "right = y.view(-1) == 3", False),
        ("validate", "n = sum(p.numel() for p in net.parameters()); p = n.view(-1)", False),
        ("validate", "scaled = optim.LBFGS([temperature], lr=0.01)", False),
        ("step", "penalty = sum(p.view(-1).norm() for p in net.parameters())", False),
        ("step", "found = net.descriptor(x)", False),
    ],
)
def test_views_that_no_step_comes_to_forbid_another_order(
    part: str, code: str, refused: bool
) -> None:
    parts = {part: code}
    if part == "step":
        parts["descriptor"] = "self.body(x).view(-1)"
        parts["step"] += "; net.descriptor(x)"
    outcome = rewritten(program(**parts), LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("may merge dimensions of a tensor" in outcome.reason) == refused


@pytest.mark.parametrize(
    ("step", "refused"),
    [
        ("for p in net.parameters(): p.grad = flat[:9].view_as(p)", True),
        ("for p, g in zip(weights, mean): p.grad = g.reshape(p.shape)", True),
        ("for p in net.parameters(): p.grad = None", False),
        ("for p in net.parameters(): p.grad = p.grad * 0.5", False),
        ("for p in net.parameters(): p.grad.mul_(0.5)", False),
    ],
)
def test_gradients_in_the_usual_order_forbid_another_order(step: str, refused: bool) -> None:
    outcome = rewritten(program(step=step), LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("would then mix up which is whose" in outcome.reason) == refused


STAGES = """\
import torch
from torch.utils.data import DataLoader

def stability(deep):
    return deep.view(deep.size(0), -1).norm()

def main(net, data):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data)
    for epoch in range(9):
        for x, y in loader:
            out = net(x)
            loss = criterion(out, y)
            {each}
            if epoch >= 5:
                {late}
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("late", "each", "refused"),
    [
        ("loss = loss + stability(out)", "pass", True),
        ("loss = loss + out.view(len(out), -1).norm()", "pass", True),
        ("loss = loss + stability(out)", "loss = loss + stability(out)", False),  # it has failed
        ("loss = loss + criterion(out, y.view(-1))", "pass", False),
        ("loss = loss + out.flatten(1).norm()", "pass", False),
    ],
)
def test_views_that_only_a_later_stage_comes_to_forbid_another_order(
    late: str, each: str, refused: bool
) -> None:
    text = STAGES.format(late=late, each=each)
    seen = places_of(text)
    assert seen.backward is not None
    outcome = rewritten(text, LAST, places=replace(seen, backwards=(seen.backward,)))
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("may merge dimensions of a tensor" in outcome.reason) == refused


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("import safetensors.torch as st; st.save_file(net.state_dict(), 'a')", True),
        ("from safetensors.torch import save; open('a', 'wb').write(save(net.state_dict()))", True),
        ("from safetensors.torch import save_model; save_model(net, 'a')", False),  # puts in order
        ("from safetensors.torch import save_file; save_file({'a': w.contiguous()}, 'a')", False),
        ("torch.save(net.state_dict(), 'a')", False),
        ("import safetensors.torch as st; w = w.contiguous(); st.save_file(w, 'a')", False),
    ],
)
def test_weights_that_are_saved_with_safetensors_forbid_another_order(
    code: str, refused: bool
) -> None:
    outcome = rewritten(program(epoch=code), LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("tensors are saved at train.py:" in outcome.reason) == refused


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("open('a', 'wb').write(bytes(net.weight.untyped_storage()))", True),
        ("print([w.data.storage() for w in net.parameters()])", True),
        ("write(net, storage='disk')", False),
        ("print(net.weight.untyped_storage().nbytes())", False),
        ("import ctypes; ctypes.string_at(net.weight.data_ptr(), 9)", True),
        ("shared = {w.data_ptr() for w in net.parameters()}", False),
        ("validate(net(x).as_strided((2, 3), (3, 1)))", True),
        ("validate(torch.as_strided(net(x), (2, 3), (3, 1)))", True),
        ("net.weight.detach().numpy().tofile('a')", False),  # in the usual order
        ("import numpy as np; np.lib.stride_tricks.as_strided(wave, (2, 3), (3, 1))", False),
    ],
)
def test_memory_that_is_read_as_it_lies_forbids_another_order(code: str, refused: bool) -> None:
    outcome = rewritten(program(epoch=code), LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("memory may be read at train.py:" in outcome.reason) == refused


@pytest.mark.parametrize(
    ("step", "refused"),
    [
        ("tiles = x.as_strided((2, 3), (3, 1))", True),
        ("tiles = x.as_strided((2, 3), x.stride()[:2])", False),
        ("tiles = x.contiguous().as_strided((2, 3), (3, 1))", False),
        ("x = x.contiguous(); tiles = torch.as_strided(x, (2, 3), (3, 1))", False),
        ("a, b = x.stride()[:2]; tiles = x.as_strided((2, 3), (a, b))", False),
        ("y = y.contiguous(); tiles = x.as_strided((2, 3), (3, 1))", True),  # another one
    ],
)
def test_strides_that_the_training_makes_up_forbid_another_order(step: str, refused: bool) -> None:
    outcome = rewritten(program(step=step), LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("flat = w.reshape(-1)\n    flat[flat.abs().topk(k).indices] = 0.0", True),
        ("flat = w.flatten()\n    flat *= 0.5", True),
        ("flat = w.contiguous()\n    flat.mul_(0.5)", True),
        ("w.reshape(-1)[:k] = 0.0", True),
        ("w.flatten().clamp_(0, 1)", True),
        ("flat = w.view(-1)\n    flat[:k] = 0.0", False),  # which fails there
        ("flat = w.reshape(-1)\n    flat[:k] = 0.0\n    return flat", False),
        ("flat = w.reshape(-1)\n    flat[:k] = 0.0\n    w.copy_(flat.view_as(w))", False),
        ("flat = w.reshape(-1)\n    flat[:k] = 0.0\n    w = rebuild(flat)", False),
        ("flat = w.reshape(-1)\n    print(flat.abs().amax())", False),
        ("flat = torch.zeros(9)\n    flat[:k] = 0.0", False),
        ("w.detach().reshape(-1).mul_(0.5)", True),
        ("k.sub_(w.reshape(1, -1)).div_(w.reshape(1, -1))", False),
        ("k = w.reshape(-1, 2).float().requires_grad_()", False),
        ("kept = w.flatten().sigmoid_()", False),
        ("w = w.reshape(9, 3)\n    w[:, 0] = -w[:, 0]\n    return w, k", False),
        ("w = w.reshape(9, 3)\n    w[:, 0] = -w[:, 0]\n    print(w[0])", True),
        ("k = torch.rand(9).reshape(3, 3).mul_(2)", False),
        ("flat = boxes(w).reshape(3, -1)\n    flat[..., 0] = 1\n    k = max(flat[0])", False),
    ],
)
def test_what_flattens_and_is_written_into_forbids_another_order(code: str, refused: bool) -> None:
    outcome = rewritten(f"{program()}\ndef prune(w, k):\n    {code}\n", LAST)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("may be written into at" in outcome.reason) == refused


def test_what_is_saved_forbids_another_order_where_the_optimizer_is_built_elsewhere_too() -> None:
    text = program(epoch="import safetensors.torch as st; st.save_file(net.state_dict(), 'a')")
    text = text.replace("optim.SGD(net.parameters(), lr=0.1)", "build(net)")
    assert "build(net)" in text
    assert "with safetensors" in rewritten(text, LAST).reason


@pytest.mark.parametrize(
    ("epoch", "refused"),
    [
        ("if epoch == 5: data.close_mosaic()", True),
        ("loader.dataset.transform = strong", True),
        ("data.crop = 32 + epoch", True),
        ("data.sizes[0] += 1", True),
        ("loader.sampler.set_epoch(epoch)", False),
        ("print(len(data), data.classes)", False),
        ("size = data.size()", False),
        ("for data in validation: data.requires_grad_()", False),
    ],
)
def test_a_dataset_that_is_changed_between_epochs_forbids_workers_that_live_on(
    epoch: str, refused: bool
) -> None:
    outcome = rewritten(program(epoch=epoch), KEPT)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("would not see what train.py:33 may change of the dataset" in outcome.reason) == refused
    before = program().replace(
        "    for epoch", f"    {epoch.replace('epoch', 'args.n')}\n    for epoch"
    )
    assert rewritten(before, KEPT).statuses == ["done"]


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ("self.labels[:2] = guesses", True),
        ("self.round += 1", True),
        ("labels = self.labels + guesses", False),
    ],
)
def test_a_method_that_changes_its_dataset_may_give_something_too(
    change: str, refused: bool
) -> None:
    text = program(epoch="taken = data.assign(epoch)") + (
        f"class Slides:\n    def assign(self, guesses):\n        {change}\n        return 3\n"
    )
    assert rewritten(text, KEPT).statuses == (["refused"] if refused else ["done"])


@pytest.mark.parametrize(
    ("does", "refused"),
    [
        ("return 1 / len(batches)", False),
        ("print(len(batches.dataset))", False),
        ("return next(iter(batches))", True),
        ("return other(batches)", True),
    ],
)
def test_a_loader_that_is_given_away_to_be_asked_is_not_drawn_from(
    does: str, refused: bool
) -> None:
    text = program(step="rate(loader)") + f"def rate(batches):\n    {does}\n"
    assert rewritten(text, KEPT).statuses == (["refused"] if refused else ["done"])


def test_a_change_in_what_an_epoch_calls_is_seen_too() -> None:
    text = program(epoch="begin(epoch, loader)") + (
        "def begin(epoch, loader):\n    loader.dataset.set_epoch(epoch)\n"
    )
    assert f"train.py:{len(text.splitlines())}" in rewritten(text, KEPT).reason


WORKERS = LoaderArgument(name="num_workers", code="4")


@pytest.mark.parametrize(
    ("step", "refused"),
    [
        ("schedule.at(1)", True),
        ("loader.dataset.side += 8", True),
        ("data.push(x)", True),
        ("meter.update(x); print(len(data))", False),
        ("net.weight.data.mul_(0.9)", False),
    ],
)
def test_a_dataset_that_is_changed_between_steps_forbids_workers(step: str, refused: bool) -> None:
    text = program(step=step).replace("num_workers=2", "num_workers={}") + (
        "class Schedule:\n    def at(self, step):\n        self.dataset.side = step\n"
    )
    outcome = rewritten(text.format(0), WORKERS)
    assert outcome.statuses == (["refused"] if refused else ["done"]), outcome.reason
    assert ("would see what the loop may change" in outcome.reason) == refused
    never_saw_it = replace(WORKERS, had_workers=True)
    assert rewritten(text.format(2), never_saw_it).statuses == ["done"]
    without = LoaderArgument(name="num_workers", code="0")
    assert rewritten(text.format(2), without).statuses == ["done"]


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("print(f'{step}: {len(self.files)} files')", False),
        ("best = max(self.scores); log.info('%s', best)", False),
        ("self.seen = step", True),
        ("self.scores[step] = 1", True),
        ("scores = self.scores; scores.append(step)", True),
        ("heapq.heappush(self.scores, step)", True),
        ("self.reset()", True),
        ("super().describe(step)", True),
        ("setattr(self, 'seen', step)", True),
    ],
)
def test_a_method_of_the_dataset_that_only_reads_is_none(body: str, refused: bool) -> None:
    text = program(step="data.describe(1)").replace("num_workers=2", "num_workers=0") + (
        f"class Slides:\n    def describe(self, step):\n        {body}\n"
    )
    assert rewritten(text, WORKERS).statuses == (["refused"] if refused else ["done"])


def test_one_that_is_changed_between_epochs_does_not() -> None:
    text = program(epoch="data.crop = 32 + epoch").replace("num_workers=2", "num_workers=0")
    assert rewritten(text, WORKERS).statuses == ["done"]


def test_a_function_round_the_loop_is_not_taken_for_what_is_called_in_it() -> None:
    text = program(epoch="data.sample_anew()", step="net.main()").replace("=2", "=0")
    assert rewritten(text, WORKERS).statuses == ["done"]
