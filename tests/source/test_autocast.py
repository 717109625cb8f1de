"""`Autocast`: forward and loss under `with torch.autocast`, backward outside of it."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch

from autotune.source.edits import Autocast, OutputPlace, Place, Places
from autotune.source.rewrite import by_hand
from autotune.source.rewrites.outputs import _FUNCTION
from tests.source.programs import PATH, check, places_of, rewritten, source

BF16 = Autocast(device_type="cpu", dtype="bfloat16")
CUDA_BF16 = Autocast(device_type="cuda", dtype="bfloat16")
FP16 = Autocast(device_type="cuda", dtype="float16", scaled=True)


def test_forward_and_loss_are_wrapped() -> None:
    check(
        """
        import torch
        for x, y in loader:
            optimizer.zero_grad()
            # predict
            out = model(x)  # logits
            text = \"\"\"
            as it is
              \"\"\"

            loss = loss_of(
                out,
                y,
            )
            optimizer.zero_grad()
            # learn
            loss.backward()
            optimizer.step()
        """,
        """
        import torch
        for x, y in loader:
            optimizer.zero_grad()
            # predict
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x)  # logits
                text = \"\"\"
            as it is
              \"\"\"

                loss = loss_of(
                    out,
                    y,
                )
            optimizer.zero_grad()
            # learn
            loss.backward()
            optimizer.step()
        """,
        BF16,
    )


def test_semicolons_at_the_ends_of_lines_stay() -> None:
    check(
        """
        import torch
        for x, y in loader:
            optimizer.zero_grad();
            out = model(x);  # logits
            loss = loss_of(out, y);
            loss.backward();
            optimizer.step();
        """,
        """
        import torch
        for x, y in loader:
            optimizer.zero_grad();
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x);  # logits
                loss = loss_of(out, y);
            loss.backward();
            optimizer.step();
        """,
        BF16,
    )


def test_backward_may_share_its_line() -> None:
    check(
        """
        import torch
        for x, y in loader:
            out = model(x)
            loss = loss_of(out, y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
        """
        import torch
        for x, y in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x)
                loss = loss_of(out, y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
        BF16,
    )


def test_gradients_may_be_cleared_now_and_then_in_the_block_of_backward() -> None:
    check(
        """
        import torch
        for step, (x, y) in enumerate(loader):
            loss = loss_of(model(x), y)
            with record("backward"):
                if step % 4 == 0:
                    optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        """
        import torch
        for step, (x, y) in enumerate(loader):
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                loss = loss_of(model(x), y)
            with record("backward"):
                if step % 4 == 0:
                    optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        BF16,
    )


def test_a_teacher_before_the_model_is_wrapped_too() -> None:
    text = source(
        """
        import torch
        for x, y in loader:
            x = augment(x)
            with torch.no_grad():
                wanted = teacher(x)
            optimizer.zero_grad()
            loss = loss_of(model(x), wanted)
            loss.backward()
            optimizer.step()
        """
    )
    seen = replace(places_of(text), frozen=Place(path=PATH, line=5))
    done = rewritten(text, BF16, places=seen)
    assert done.text == source(
        """
        import torch
        for x, y in loader:
            x = augment(x)
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16, cache_enabled=False):
                with torch.no_grad():
                    wanted = teacher(x)
                optimizer.zero_grad()
                loss = loss_of(model(x), wanted)
            loss.backward()
            optimizer.step()
        """
    )


def test_one_that_runs_where_another_function_is_called_is_wrapped_by_its_caller() -> None:
    text = source(
        """
        import torch

        class Teacher:
            def __init__(self, net):
                self.net = net

            @torch.no_grad()
            def __call__(self, x):
                return self.net(x)

        teacher = Teacher(net)
        for x, y in loader:
            x = augment(x)
            net.train()
            wanted = teacher(x).softmax(1)
            loss = loss_of(model(x), wanted)
            loss.backward()
            optimizer.step()
        """
    )
    seen = places_of(text)
    seen = replace(seen, frozen=Place(path=PATH, line=9), forward=Place(path=PATH, line=16))
    done = rewritten(text, BF16, places=seen)
    assert (
        "    net.train()\n"
        '    with torch.autocast(device_type="cpu", dtype=torch.bfloat16, cache_enabled=False):\n'
        "        wanted = teacher(x).softmax(1)\n"
        "        loss = loss_of(model(x), wanted)\n"
        "    loss.backward()\n"
    ) in done.text


def test_a_file_without_torch_gets_its_import_and_keeps_its_tabs() -> None:
    check(
        """
        from torch import nn
        def train():
        \tfor x, y in loader:
        \t\tloss = nn.functional.mse_loss(model(x), y)
        \t\tloss.backward()
        """,
        """
        from torch import nn
        import torch
        def train():
        \tfor x, y in loader:
        \t\twith torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        \t\t\tloss = nn.functional.mse_loss(model(x), y)
        \t\tloss.backward()
        """,
        BF16,
    )


def test_forward_in_a_block_of_its_own_goes_with_the_block() -> None:
    check(
        """
        import torch
        for x, y in loader:
            with torch.set_grad_enabled(training):
                out = model(x)
                loss = criterion(out, y)
                if training:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
        """
        import torch
        for x, y in loader:
            with torch.set_grad_enabled(training):
                with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=training):
                    out = model(x)
                    loss = criterion(out, y)
                if training:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
        BF16,
    )


def test_forward_in_another_function_is_wrapped_where_it_is_called() -> None:
    check(
        """
        import torch

        def forward_pass(x):
            return model(x)

        def loss_of(batch):
            x, y = batch
            return (forward_pass(x) - y).square().mean()

        def train():
            for batch in loader:
                step += 1
                loss = loss_of(batch)
                loss.backward()
        """,
        """
        import torch

        def forward_pass(x):
            return model(x)

        def loss_of(batch):
            x, y = batch
            return (forward_pass(x) - y).square().mean()

        def train():
            for batch in loader:
                step += 1
                with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                    loss = loss_of(batch)
                loss.backward()
        """,
        BF16,
    )


EXISTING = {
    "the same": (
        "with torch.autocast('cuda', torch.bfloat16):",
        "with torch.autocast('cuda', torch.bfloat16):",
    ),
    "another dtype": (
        "with torch.autocast(device_type='cuda', dtype=torch.float16):  # fast",
        "with torch.autocast(device_type='cuda', dtype=torch.bfloat16):  # fast",
    ),
    "no dtype": (
        "with torch.amp.autocast('cuda'):",
        "with torch.amp.autocast('cuda', dtype=torch.bfloat16):",
    ),
    "a switch": (
        "with torch.autocast(device.type, enabled=args.amp):",
        "with torch.autocast(device.type, dtype=torch.bfloat16):",
    ),
    "the old name": (
        "with torch.cuda.amp.autocast(args.amp):",
        "with torch.cuda.amp.autocast(True, dtype=torch.bfloat16):",
    ),
}


@pytest.mark.parametrize(("before", "after"), EXISTING.values(), ids=EXISTING)
def test_an_autocast_that_is_there_is_set(before: str, after: str) -> None:
    body = "        loss = model(x)\n    loss.backward()\n"
    text = f"import torch\nfor x in loader:\n    {before}\n" + body
    outcome = rewritten(text, CUDA_BF16)
    assert outcome.text == f"import torch\nfor x in loader:\n    {after}\n" + body
    assert outcome.statuses == ["already" if before == after else "done"]
    assert rewritten(outcome.text, CUDA_BF16).statuses == ["already"]


def test_an_autocast_that_is_switched_off_for_the_loss_stays() -> None:
    check(
        """
        import torch
        for x in loader:
            out = model(x)
            with torch.autocast("cpu", enabled=False):
                loss = criterion(out.float())
            loss.backward()
        """,
        """
        import torch
        for x in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x)
                with torch.autocast("cpu", enabled=False):
                    loss = criterion(out.float())
            loss.backward()
        """,
        BF16,
    )


REFUSED = {
    "two backwards": (
        "for x in loader:\n    a = model(x)\n    a.backward()\n    critic(x).backward()\n",
        "more than one backward",
    ),
    "all in one expression": (
        "for x in loader:\n    model(x).sum().backward()\n",
        "before backward",
    ),
    "all on one line": (
        "for x in loader:\n    loss = model(x); loss.backward()\n",
        "shares its line",
    ),
    "the loss goes on in another block": (
        "out = model(x)\nif train:\n    loss = f(out)\n    loss.backward()\n",
        "computed on",
    ),
    "backward in a loop of its own": (
        "losses = model(x)\nfor loss in losses:\n    loss.backward()\n",
        "loop of its own",
    ),
    "the loss in one expression with backward": (
        "for x in loader:\n    out = model(x)\n    criterion(out, y).backward()\n",
        "which may compute the loss",
    ),
    "backward as a value": ("out = model(x)\nresult = out.backward()\n", "larger expression"),
    "a helper by torch's name": (
        "with self.autocast():\n    loss = model(x)\nloss.backward()\n",
        "not seen to be torch's own",
    ),
    "a context by another name": (
        "c = one if cpu else autocast('cuda')\nwith c:\n    loss = model(x)\nloss.backward()\n",
        "may be an autocast",
    ),
    "a context that is perhaps switched off": (
        (
            "c = nullcontext() if cpu else autocast('cuda', enabled=args.amp)\n"
            "with c:\n    loss = model(x)\nloss.backward()\n"
        ),
        "may be an autocast",
    ),
}


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("kept.append(loss.item())", "done"),
        ("print(loss.detach(), x.mean())", "done"),
        ("kept.append(loss)", "refused"),
        ("loss.mul_(2)", "refused"),
        ("scale(loss, loss.item())", "refused"),
        ("loss = 2 * loss", "refused"),
        ("loss /= 2", "refused"),
        ("same = loss", "refused"),
        ("kept.append(loss.item)", "refused"),
        ("n += 1", "done"),
        ("began, self.n = time.time(), self.n + 1", "done"),
        ("if n % 10 == 0:\n            print(n, loss.item())", "done"),
        ("for group in optimizer.param_groups:\n            group['lr'] = rate(n)", "done"),
        ("if n:\n            loss = loss + penalty", "refused"),
    ],
)
def test_what_only_reads_the_loss_may_stand_in_the_block_of_backward(
    line: str, status: str
) -> None:
    text = (
        "import torch\nfor x in loader:\n    loss = model(x)\n    if train:\n"
        f"        {line}\n        loss.backward()\n"
    )
    assert rewritten(text, BF16).statuses == [status]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("self.n += 1", "done"),
        ("self.optimizer.zero_grad()", "done"),
        ("self.log(self.loss.item())", "refused"),
        ("self.compute()", "refused"),
        ("compute(self)", "refused"),
        ("self.loss = self.loss * 2", "refused"),
    ],
)
def test_what_has_the_loss_may_give_it_another_value(line: str, status: str) -> None:
    text = (
        "import torch\nfor x in loader:\n    self.loss = model(x)\n    if train:\n"
        f"        {line}\n        self.loss.backward()\n"
    )
    assert rewritten(text, BF16).statuses == [status]


COUNTING = """
import torch

def run(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps, formats = 0, []
    for train, x in batches:
        with torch.set_grad_enabled(train):
            out = model(x)
            formats.append(out.dtype)
            loss = out.float().mean()
            if train:
                steps += 1
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return steps, formats
"""


def test_a_count_beside_backward_keeps_no_training_from_its_format() -> None:
    done = rewritten(COUNTING, BF16)
    assert done.statuses == ["done"], done.reason
    names: dict[str, Any] = {}
    exec(done.text, names)
    batches = [(True, torch.ones(2, 4)), (False, torch.ones(2, 4))]
    steps, formats = names["run"](torch.nn.Linear(4, 4), batches)
    assert (steps, formats) == (1, [torch.bfloat16, torch.float32])


def test_a_step_by_hand_is_at_its_line_of_the_source_as_it_is() -> None:
    text = "import torch\nfor x in loader:\n    out = model(x)\n    if go:\n        loss = f(out)\n"
    text = f"{text}        loss.backward()\n"
    given = OutputPlace(path=PATH, line=3, callee="model", tensors=True)
    outcome = rewritten(text, BF16, places=replace(places_of(text), outputs=(given,)))
    assert outcome.statuses == ["refused"]
    assert outcome.hand_step.startswith(f"{PATH}:6:")


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_unusual_forms_are_refused_and_left_alone(text: str, reason: str) -> None:
    outcome = rewritten("import torch\n" + text, BF16)
    assert outcome.text == "import torch\n" + text
    assert outcome.statuses == ["refused"]
    assert reason in outcome.reason
    assert "with torch.autocast" in outcome.hand_step
    assert outcome.hand_step.startswith(PATH + ":")


def test_a_context_that_does_nothing_here_is_left_inside() -> None:
    check(
        """
        import torch
        around = nullcontext() if on_cpu else torch.autocast("cuda")
        while True:
            with around:
                loss = model(x)
            loss.backward()
        """,
        """
        import torch
        around = nullcontext() if on_cpu else torch.autocast("cuda")
        while True:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                with around:
                    loss = model(x)
            loss.backward()
        """,
        BF16,
    )


def test_an_autocast_for_another_device_is_left_inside() -> None:
    check(
        """
        import torch
        for x in loader:
            with torch.cuda.amp.autocast(enabled=args.half):
                loss = model(x)
            loss.backward()
        """,
        """
        import torch
        for x in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                with torch.cuda.amp.autocast(enabled=args.half):
                    loss = model(x)
            loss.backward()
        """,
        BF16,
    )


def test_forward_in_a_function_that_the_loop_does_not_call_is_refused() -> None:
    text = source(
        """
        def back(loss):
            loss.backward()

        for x in loader:
            back(model(x))
        """
    )
    outcome = rewritten(text, BF16)
    assert outcome.statuses == ["refused"]
    assert outcome.text == text


SCALED_LOOP = """
import torch

def main():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # plain
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        (loss / 2).backward(retain_graph=True)
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # at last
"""


def test_float16_gets_a_scaler() -> None:
    check(
        SCALED_LOOP,
        """
        import torch

        def main():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # plain
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device_type="cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss / 2).backward(retain_graph=True)
                scaler.unscale_(optimizer)
                if args.clip:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)  # at last
                scaler.update()
        """,
        FP16,
    )


@pytest.mark.parametrize(
    ("between", "unscaled"),
    [
        ("total += loss.item(); print(f'{total:.3f}')", False),
        ("clip(model)", True),
        ("for p in model.parameters(): p.grad *= 0.5", True),
        ("norm = sum(p.grad.norm() for p in params)", True),
        ("nn.utils.clip_grads_with_norm_(params, 1.0, norm)", True),
        ("if norm(model) > 9:\n    print('!')", True),
        ("if not torch.isfinite(loss):\n    print('!')", False),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_are_unscaled_for_whatever_may_look_at_them(
    between: str, unscaled: bool, last: bool
) -> None:
    head, tail = SCALED_LOOP[: SCALED_LOOP.index("        if args")], ["optimizer.step()"]
    indent = " " * (12 if last else 8)
    text = head + ("        if number % 2:\n" if last else "")
    text += "".join(f"{indent}{line}\n" for line in [*between.splitlines(), *tail])
    outcome = rewritten(source(text), FP16)
    assert outcome.statuses == ["done"], outcome.reason
    first = f"{indent}scaler.unscale_(optimizer)\n{indent}{between.splitlines()[0]}\n"
    assert (first in outcome.text) == unscaled
    assert ("unscale_" in outcome.text) == unscaled


LEAVING_OUT = """
import torch

def main():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for p in model.parameters():
            if p.grad is None:
                continue
        if not torch.isfinite(norm):
            left_out += 1
            continue
        optimizer.step()
"""


def test_a_step_that_is_left_out_leaves_a_scaler_that_knows_of_it() -> None:
    check(
        LEAVING_OUT,
        """
        import torch

        def main():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast(device_type="cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for p in model.parameters():
                    if p.grad is None:
                        continue
                if not torch.isfinite(norm):
                    left_out += 1
                    scaler.update()
                    continue
                scaler.step(optimizer)
                scaler.update()
        """,
        FP16,
    )


def test_the_scaler_takes_a_free_name_and_stands_outside_a_choice() -> None:
    check(
        """
        import torch
        scaler = StandardScaler()
        if args.sgd:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        else:
            optimizer = torch.optim.AdamW(model.parameters())
        for x in loader:
            loss = model(x)
            loss.backward()
            optimizer.step()
        """,
        """
        import torch
        scaler = StandardScaler()
        if args.sgd:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        else:
            optimizer = torch.optim.AdamW(model.parameters())
        grad_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = model(x)
            grad_scaler.scale(loss).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
        """,
        FP16,
    )


def test_a_loop_that_is_given_its_optimizer_finds_the_scaler_in_its_module() -> None:
    check(
        """
        import torch

        def train(optimizer):
            for x in loader:
                loss = model(x)
                loss.backward()
                optimizer.step()

        train(torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        """
        import torch

        scaler = torch.amp.GradScaler("cuda")

        def train(optimizer):
            for x in loader:
                with torch.autocast(device_type="cuda", dtype=torch.float16):
                    loss = model(x)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        train(torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        FP16,
    )


def test_what_does_not_lead_to_the_loss_stays_outside() -> None:
    check(
        """
        import torch
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)

            # figures
            right += (out.argmax(1) == y).sum().item()
            loss.backward()
        """,
        """
        import torch
        for x, y in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x)
                loss = criterion(out, y)

            # figures
            right += (out.argmax(1) == y).sum().item()
            loss.backward()
        """,
        BF16,
    )


GIVEN = """
import torch

def train(optimizer):
    for x in loader:
        loss = model(x)
        loss.backward()
        optimizer.step()

train(torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("above", "below", "status"),
    [
        ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', "", "done"),
        ("import os\nos.environ.update(CUDA_VISIBLE_DEVICES='0')\n", "", "done"),
        ('import os\ndef f():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', "", "refused"),
        ("import os\n", "os.environ.update(CUDA_VISIBLE_DEVICES='0')\n", "refused"),
        ("import multiprocessing\n", "n = multiprocessing.cpu_count()\n", "done"),
        ("from multiprocessing import Manager\n", "", "done"),
        ("import multiprocessing as mp\n", "p = mp.Process(target=f)\n", "refused"),
        ("from multiprocessing import Pool as P\n", "", "refused"),
    ],
)
def test_what_must_come_before_cuda_keeps_the_scaler_out_of_the_module(
    above: str, below: str, status: str
) -> None:
    text = above + GIVEN.replace("train(torch", f"{below}train(torch")
    outcome = rewritten(text, FP16)
    assert outcome.statuses == [status], outcome.reason
    if status == "done":
        assert outcome.text.index("GradScaler") > outcome.text.index("import torch")
        assert outcome.text.index("GradScaler") > len(above)


@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("(net):\n    optimizer = build(net)\n    net(1).backward()\n", "done"),
        ("(net, optimizer):\n    optimizer.zero_grad()\n    net(1).backward()\n", "done"),
        ("(net, optimizer):\n    net(1).backward()\n    optimizer.zero_grad()\n", "refused"),
        ("(net, optimizer):\n    optimizer.zero_grad()\n", "refused"),
        ("(net):\n    optimizer = build(net)\n", "refused"),
        ("(net):\n    net(1).backward()\n", "refused"),
    ],
)
def test_another_functions_optimizer_may_have_its_name(function: str, status: str) -> None:
    text = f"{SCALED_LOOP}\ndef pretrain{function}    optimizer.step()\n"
    outcome = rewritten(text, FP16)
    assert outcome.statuses == [status], outcome.reason
    assert status == "done" or "in another place too" in outcome.reason


SCALER_REFUSED = {
    "another scaler": (
        SCALED_LOOP.replace("def main", "amp = torch.amp.GradScaler()\n\ndef main"),
        "names a GradScaler elsewhere",
    ),
    "a scaler that is off": (
        SCALED_LOOP.replace("(loss / 2).backward(", "amp.scale(loss).backward(")
        .replace("optimizer.step()", "amp.step(optimizer)")
        .replace("def main", "amp = torch.amp.GradScaler(enabled=args.amp)\n\ndef main"),
        "may switch its own GradScaler off",
    ),
    "a closure": (SCALED_LOOP.replace("step()", "step(closure)"), "is given arguments (closure)"),
    "a norm that ends the program": (
        SCALED_LOOP.replace(
            "        if args.clip:\n            torch",
            "        if not torch.isfinite(norm := torch",
        ).replace("1.0)\n", "1.0)):\n            raise ValueError('diverged')\n"),
        "may end by what it sees of gradients",
    ),
    "an assertion on the gradients": (
        SCALED_LOOP.replace("if args.clip:", "assert is_finite(model)\n        if args.clip:"),
        "may end by what it sees of gradients",
    ),
    "an exit by a norm": (
        SCALED_LOOP.replace(
            "if args.clip:",
            "norm = norm_of(model)\n        if norm > 9: sys.exit(1)\n        if 1:",
        ),
        "may end by what it sees of gradients",
    ),
    "a norm that ends the loop": (
        SCALED_LOOP.replace(
            "if args.clip:",
            "norm = norm_of(model)\n        if isinf(norm):\n            break\n        if 1:",
        ),
        "may end by what it sees of gradients",
    ),
    "a norm that ends the program after the step": (
        SCALED_LOOP.replace("if args.clip:", "norm = norm_of(model)\n        if 1:").replace(
            "step()  # at last\n",
            "step()\n        if torch.isinf(norm):\n            raise ValueError\n",
        ),
        "may end by what it sees of gradients",
    ),
    "an assertion in a function of its own": (
        SCALED_LOOP.replace("if args.clip:", "check(model)\n        if 1:")
        + "\ndef check(net):\n    for p in net.parameters():\n"
        "        assert torch.isfinite(p.grad).all()\n",
        "may end by what it sees of gradients",
    ),
    "a hook on gradients": (
        SCALED_LOOP.replace("    for x", "    weight.register_hook(clipped)\n    for x"),
        "a hook may be handed gradients",
    ),
    "a clip that raises": (
        SCALED_LOOP.replace("1.0)\n", "1.0, error_if_nonfinite=True)\n"),
        "may end by what it sees of gradients",
    ),
    "a look at gradients of a part": (
        SCALED_LOOP.replace(
            "        optimizer.step()", "        if go:\n            optimizer.step()"
        ),
        "may be looked at",
    ),
    "a step left out on one line": (
        LEAVING_OUT.replace(":\n            left_out += 1\n            continue", ": continue"),
        "leaves the step out",
    ),
    "another optimizer in another stage": (
        SCALED_LOOP.rstrip("\n")
        + "\n    if encoder_optimizer:\n        encoder_optimizer.step()\n",
        "encoder_optimizer may step on the scaled gradients",
    ),
    "a step for what is left of an epoch": (
        SCALED_LOOP.rstrip("\n") + "\n    if rest:\n        optimizer.step()\n",
        "steps in another place too",
    ),
    "a module that chooses its GPUs later": (
        """
import os, torch
def train(optimizer):
    for x in loader:
        loss = model(x)
        loss.backward()
        optimizer.step()
os.environ["CUDA_VISIBLE_DEVICES"] = gpu
train(torch.optim.SGD(model.parameters(), lr=0.1))
""",
        "wake CUDA up",
    ),
    "a backward pass in another branch": (
        (
            "for x in loader:\n    loss = model(x)\n    if amp:\n        loss.backward()\n"
            "    else:\n        loss.mean().backward()\n    optimizer.step()\n"
        ),
        "may come to another backward pass instead, which would need the scaler too",
    ),
    "a step in another function": (
        SCALED_LOOP.replace(
            "        optimizer.step()", "        go()\ndef go():\n    optimizer.step()"
        ),
        "different functions",
    ),
}


@pytest.mark.parametrize(("text", "reason"), SCALER_REFUSED.values(), ids=SCALER_REFUSED)
def test_float16_without_a_place_for_its_scaler_is_refused_as_a_whole(
    text: str, reason: str
) -> None:
    outcome = rewritten(text, FP16)
    assert outcome.text == text
    assert outcome.statuses == ["refused"]
    assert reason in outcome.reason
    assert_has_both_halves(outcome.hand_step)


def assert_has_both_halves(hand_step: str) -> None:
    """Neither float16 without a scaler nor a scaler without float16 is what was measured."""
    header = 'with torch.autocast(device_type="cuda", dtype=torch.float16): round forward'
    assert hand_step.startswith(f"{PATH}:")
    assert header in hand_step
    assert "GradScaler(" in hand_step


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_float16_by_hand_has_a_scaler(text: str, reason: str) -> None:
    outcome = rewritten("import torch\n" + text, FP16)
    assert outcome.statuses == ["refused"]
    assert_has_both_halves(outcome.hand_step)
    assert_has_both_halves(by_hand(FP16, places_of(text), PATH))


@pytest.mark.parametrize(
    ("added", "refused"),
    [
        ("mask + 1e-45", True),
        ("1e-45 + mask.sum()", True),
        ("mask + 1e-40", False),
        ("mask.float() + 1e-45", False),
        ("1e-45 + mask.to(torch.float32)", False),
    ],
)
def test_what_is_zero_in_bfloat16_is_not_added_in_it(added: str, refused: bool) -> None:
    masked = f"    y = y + ({added}).log()\n    optimizer.zero_grad()"
    text = source(OWN_LOSS).replace("    optimizer.zero_grad()", masked)
    outcome = rewritten(text, BF16)
    assert ("is 0 in bfloat16" in outcome.reason) is refused
    assert "0 in bfloat16" not in rewritten(text, FP16).reason


def test_a_scaler_in_a_comment_is_none() -> None:
    text = SCALED_LOOP.rstrip("\n") + "\n# scaler = torch.amp.GradScaler()\n"
    assert rewritten(text, FP16).statuses == ["done"]


def test_a_scheduler_of_an_optimizer_is_none() -> None:
    text = SCALED_LOOP.rstrip("\n") + "\n        optimizer_scheduler.step()\n"
    assert rewritten(text, FP16).statuses == ["done"]


def test_a_forward_seen_in_a_library_is_refused() -> None:
    text = source(SCALED_LOOP)
    seen = places_of(text)
    places = Places(backward=seen.backward, forward=Place(path="/lib/trainer.py", line=3))
    assert "outside the project" in rewritten(text, BF16, places=places).reason


def _given(line: int, callee: str, *, tensors: bool = True) -> OutputPlace:
    return OutputPlace(path=PATH, line=line, callee=callee, tensors=tensors)


OWN_LOSS = """
    import torch
    for x, y in loader:
        mean, spread = coder(
            x)
        out = model(mean)
        loss = loss_of(out, y) + (spread + head(out)[1].float()).sum() + size(x := y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
CALLS = (_given(3, "coder"), _given(5, "model"), _given(6, "head"), _given(6, "size"))


def test_what_models_give_on_a_cpu_is_float32_for_the_loss() -> None:
    text = source(OWN_LOSS)
    seen = replace(places_of(text), forward=Place(path=PATH, line=3), outputs=CALLS)
    done = rewritten(text, BF16, places=seen)
    head, _, body = done.text.partition("for x, y")
    function = _FUNCTION.replace("NAME", "in_float32")
    assert head == f"import torch\n\n{function}\n\n"
    assert "for x, y" + body == source(
        """
        for x, y in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                mean, spread = in_float32(coder(
                    x))
                out = in_float32(model(mean))
                loss = loss_of(out, y) + (spread + in_float32(head(out))[1].float()).sum() + {SIZE}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    ).replace("{SIZE}", "in_float32(size(x := y))")
    lines = done.text.splitlines()
    moved = [
        _given(
            1 + next(at for at, line in enumerate(lines) if each.callee + "(" in line), each.callee
        )
        for each in CALLS
    ]
    again = replace(places_of(done.text), forward=moved[0], outputs=tuple(moved))
    assert rewritten(done.text, BF16, places=again).statuses == ["already"]


@pytest.mark.parametrize("others", [[], [{"single": False}], [{"tensors": False}]])
def test_of_a_call_that_gives_one_tensor_each_time_that_is_widened_itself(
    others: list[dict[str, bool]],
) -> None:
    text = source(OWN_LOSS)
    one = replace(_given(5, "model"), single=True)
    outputs = (one, *(replace(one, **other) for other in others))
    done = rewritten(text, BF16, places=replace(places_of(text), outputs=outputs)).text
    assert ("out = model(mean).float()\n" in done) is (not others)
    assert ("def in_float32" in done) is bool(others)
    line = 1 + done.splitlines().index("        out = model(mean).float()") if not others else 0
    again = replace(places_of(done), outputs=(replace(one, line=line),))
    assert others or rewritten(done, BF16, places=again).statuses == ["already"]


def test_what_models_give_on_a_gpu_or_without_tensors_stays() -> None:
    text = source(OWN_LOSS)
    seen = replace(places_of(text), forward=Place(path=PATH, line=3), outputs=CALLS)
    assert "in_float32" not in rewritten(text, CUDA_BF16, places=seen).text
    none = tuple(replace(each, tensors=False) for each in CALLS)
    assert "in_float32" not in rewritten(text, BF16, places=replace(seen, outputs=none)).text


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("in_float32 = 1", "outputs_in_float32"),
        ("from helpers import in_float32", "outputs_in_float32"),
        ("in_float32 = outputs_in_float32 = 1", "outputs_in_float32_2"),
        ("from helpers import *", "in_float32"),
    ],
)
def test_a_name_that_a_file_has_for_something_else_stays_its_own(own: str, name: str) -> None:
    text = source(OWN_LOSS).replace("import torch", f"import torch\n{own}")
    seen = replace(places_of(text), outputs=(_given(6, "model"),))
    done = rewritten(text, BF16, places=seen).text
    assert f" {name}(model" in done
    assert f"def {name}(given)" in done


class Scored(NamedTuple):
    scores: torch.Tensor
    count: int


def test_what_is_written_turns_bf16_alone_to_float32() -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(_FUNCTION.replace("NAME", "in_float32"), names)
    narrow, whole = torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.int64)
    given = {"a": (narrow, None), "b": [whole, "c"], "d": OrderedDict(out=Scored(narrow, 1))}
    found = names["in_float32"](given)
    assert found["a"][0].dtype == torch.float32 and found["a"][1] is None
    assert found["b"][0] is whole and found["b"][1] == "c"
    assert type(found["d"]) is OrderedDict and type(found["d"]["out"]) is Scored
    assert found["d"]["out"].scores.dtype == torch.float32 and found["d"]["out"].count == 1
    assert given["d"]["out"].scores is narrow


def test_two_backward_passes_in_functions_of_their_own_are_refused() -> None:
    text = source(OWN_LOSS)
    seen = places_of(text)
    beside = Place(path=PATH, line=40)
    assert seen.backward is not None
    several = replace(seen, backwards=(seen.backward, beside))
    outcome = rewritten(text, BF16, places=several)
    assert "more than one backward" in outcome.reason
    told = f"behind what models give, and the same for the backward at {PATH}:40"
    assert outcome.hand_step.endswith(told)
    assert by_hand(BF16, several, PATH) == outcome.hand_step


def test_each_backward_pass_is_named_for_a_person() -> None:
    text = "for x in loader:\n    a = model(x)\n    a.backward()\n    critic(x).backward()\n"
    assert rewritten(text, BF16).hand_step.endswith(f"and the same for the backward at {PATH}:4")
    one = text.replace("    critic(x).backward()\n", "")
    assert rewritten(one.replace("    a = model(x)\n", ""), BF16).hand_step.endswith("models give")


def test_what_evaluates_now_and_then_by_the_same_function_stays_outside() -> None:
    check(
        """
        import torch

        def loss_of(batch):
            return model(batch)

        def evaluate():
            return loss_of(held_out)

        def train():
            for step, batch in enumerate(loader):
                if step % 500 == 0:
                    print(evaluate())
                    self.evaluate()
                seen = evaluate()
                loss = self.weight * loss_of(batch)
                loss.backward()
        """,
        """
        import torch

        def loss_of(batch):
            return model(batch)

        def evaluate():
            return loss_of(held_out)

        def train():
            for step, batch in enumerate(loader):
                if step % 500 == 0:
                    print(evaluate())
                    self.evaluate()
                seen = evaluate()
                with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                    loss = self.weight * loss_of(batch)
                loss.backward()
        """,
        BF16,
    )


def test_losses_that_are_gathered_stay_together() -> None:
    check(
        """
        import torch
        for x, y in loader:
            out = model(x)
            losses = {"ce": ce(out, y)}
            losses["dice"] = dice(out, y)
            more.append(out.detach())
            sum(losses.values()).backward()
        """,
        """
        import torch
        for x, y in loader:
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = model(x)
                losses = {"ce": ce(out, y)}
                losses["dice"] = dice(out, y)
            more.append(out.detach())
            sum(losses.values()).backward()
        """,
        BF16,
    )


PHASES = """
import torch

def run(phases):
    for phase in phases:
        for x, y in loaders[phase]:
            with torch.set_grad_enabled(phase == "train"):
                out = model(x)
                loss = loss_of(out, y)
                if phase == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "enabled"),
    [
        (("", ""), 'enabled=phase == "train"'),
        (('if phase == "train":', "if isfinite(loss):"), ""),
        (
            (
                "optimizer.step()\n",
                "optimizer.step()\n                else:\n                    x.sum().backward()\n",
            ),
            "",
        ),
        (
            (
                'if phase == "train":',
                'if phase != "train":\n                    pass\n                else:',
            ),
            'enabled=not (phase != "train")',
        ),
    ],
)
def test_what_evaluates_in_the_same_block_stays_outside(
    change: tuple[str, str], enabled: str
) -> None:
    text = source(PHASES).replace(*change)
    done = rewritten(text, BF16, places=places_of(text))
    header = next(line for line in done.text.splitlines() if "with torch.autocast" in line)
    assert ("enabled" in header) == bool(enabled)
    assert enabled in header
    again = rewritten(done.text, BF16, places=places_of(done.text))
    assert again.statuses == ["already"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("", ""), "done"),
        (
            ("loss.backward()", "if amp:\n    scale(loss).backward()\nelse:\n    loss.backward()"),
            "done",
        ),
        (("loss.backward()", "loss.backward()\nself.after_backward()"), "done"),
        (("loss.backward()", "loss.backward()\n(out * 2).backward()"), "refused"),
    ],
)
def test_one_backward_pass_of_several_in_the_text_is_one(
    change: tuple[str, str], status: str
) -> None:
    old, new = change
    indented = new.replace("\n", "\n                    ")
    text = source(PHASES.replace(old, indented))
    line = max(
        n for n, each in enumerate(text.splitlines(), 1) if each.strip() == "loss.backward()"
    )
    seen = replace(places_of(text), backward=Place(path=PATH, line=line))
    assert rewritten(text, BF16, places=seen).statuses == [status]
