"""`Accumulate`: micro-batches whose step is the step of the whole batch."""

import itertools
import textwrap

import pytest
import torch

from autotune.source.edits import Accumulate, Autocast
from autotune.source.rewrite import by_hand, rewrite
from tests.source.programs import PATH, check, places_of, rewritten, source

TWO = Accumulate(steps=2)
SCALED = Autocast(device_type="cpu", dtype="float16", scaled=True)

LOOP = """
import torch

loader = DataLoader(data, batch_size=8, shuffle=True)
for x, y in loader:
    # predict
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
"""


def test_the_loop_counts_weighs_and_steps_after_each_group() -> None:
    check(
        LOOP,
        """
        import torch

        loader = DataLoader(data, batch_size=4, shuffle=True)
        for micro_step, (x, y) in enumerate(loader):
            # 2 micro-batches make one step, each weighed by its share of their samples.
            micro_size = loader.batch_size
            samples_left = len(loader.sampler) - micro_size * micro_step
            group_size = min(micro_size * 2, samples_left + micro_size * (micro_step % 2))
            share = min(micro_size, samples_left) / group_size
            # predict
            if micro_step % 2 == 0:
                optimizer.zero_grad()
            loss = criterion(model(x), y)
            (loss * share).backward()
            if (micro_step + 1) % 2 == 0 or micro_step + 1 == len(loader):
                optimizer.step()
            total += loss.item()
        """,
        TWO,
    )


def test_a_loader_that_drops_its_last_batch_goes_on_to_drop_all_of_it() -> None:
    check(
        """
        import torch

        train = DataLoader(data, args.batch, drop_last=True)
        for i, batch in enumerate(tqdm(train), 1):
            loss = model(batch).mean()
            loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            seen += len(batch)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
        """,
        """
        import torch

        train = DataLoader(data, args.batch // 2, drop_last=True)
        for i, batch in enumerate(tqdm(train), 1):
            if (i - 1) >= len(train) // 2 * 2:
                break  # the loader drops its last batch: all the micro-batches of it
            loss = model(batch).mean()
            (loss / 2).backward()
            if ((i - 1) + 1) % 2 == 0:
                clip_grad_norm_(model.parameters(), 1.0)
            seen += len(batch)
            if ((i - 1) + 1) % 2 == 0:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
        """,
        TWO,
    )


TRAINING = """
import torch
from torch.utils.data import DataLoader

def train(data):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    loader = DataLoader(data, batch_size=8, shuffle=True, drop_last={drop_last})
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            schedule.step()
    return model.weight, schedule.last_epoch
"""


@pytest.mark.parametrize(
    ("samples", "drop_last", "steps", "scaled"),
    [
        *itertools.product((24, 21, 17, 13, 5), (False, True), (2, 4), (False,)),
        (21, False, 2, True),
        (21, True, 4, True),
    ],
)
def test_the_same_steps_are_made(samples: int, drop_last: bool, steps: int, scaled: bool) -> None:
    text = TRAINING.format(drop_last=drop_last)
    precision = (SCALED,) if scaled else ()
    patched = rewritten(text, Accumulate(steps=steps), *precision)
    assert patched.statuses == ["done"] * (1 + scaled)
    weight, count = _trained(text, samples)
    new_weight, new_count = _trained(patched.text, samples)
    assert new_count == count
    torch.testing.assert_close(
        new_weight, weight, rtol=1e-2 if scaled else 1e-5, atol=1e-3 * scaled
    )


def _trained(text: str, samples: int) -> tuple[torch.Tensor, int]:
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(
        # So small that a scaled gradient does not overflow, which would skip a step.
        torch.randn(samples, 3, generator=generator) / 8,
        torch.randn(samples, 1, generator=generator) / 8,
    )
    names: dict[str, object] = {}
    exec(compile(text, PATH, "exec"), names)
    weight, count = names["train"](data)  # type: ignore[operator]
    return weight.detach(), count


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_with_a_scaler_either_may_come_first(order: tuple[int, int]) -> None:
    text = LOOP.replace("loader =", "optimizer = torch.optim.SGD(model.parameters())\nloader =")
    edits = [(TWO, SCALED)[at] for at in order]
    outcome = rewritten(text, *edits)
    assert outcome.statuses == ["done", "done"]
    assert "    scaler.scale(loss * share).backward()\n" in outcome.text
    assert (
        "== len(loader):\n        scaler.step(optimizer)\n        scaler.update()\n" in outcome.text
    )
    assert rewritten(outcome.text, *edits).statuses == ["already", "already"]


def test_what_goes_over_lines_stays_in_parentheses() -> None:
    loss = "(\n        criterion(model(x), y)\n        .mean\n    ).backward()"
    text = LOOP.replace("loss.backward()", loss).replace(
        "batch_size=8", "batch_size=(\n args\n .size)"
    )
    outcome = rewritten(text, TWO)
    assert outcome.statuses == ["done"], outcome.outcomes
    assert "batch_size=(\n (args\n .size) // 2)" in outcome.text
    assert ".mean) * share).backward()" in outcome.text


def test_the_batch_size_in_an_options_dict_is_divided_at_the_call() -> None:
    text = LOOP.replace("batch_size=8, shuffle=True", "drop_last=False, **options")
    text = "options = {}\noptions.update(batch_size=8)\n" + text
    assert '**{**options, "batch_size": options["batch_size"] // 2})' in rewritten(text, TWO).text


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ("batch_size=8", ""),
        ("batch_size=args.n", "it is the same training where args.n is a multiple of 2"),
        (
            "drop_last=False, **options",
            'it is the same training where options["batch_size"] is a multiple of 2',
        ),
    ],
)
def test_for_which_batch_sizes_it_is_the_same_is_said(size: str, told: str) -> None:
    text = "options = {}\noptions.update(batch_size=8)\n" + LOOP.replace("batch_size=8", size)
    done = rewritten(text, TWO)
    assert (done.statuses, done.reason) == (["done"], told)


def test_a_loop_over_a_bar_made_before_counts_the_loader() -> None:
    text = LOOP.replace("for x, y in loader", "bar = tqdm(loader)\nfor x, y in bar")
    outcome = rewritten(text, TWO)
    assert "for micro_step, (x, y) in enumerate(bar):" in outcome.text
    assert "micro_size = loader.batch_size" in outcome.text


REFUSED = {
    "it accumulates itself": (
        ("    optimizer.step()", "    if i % args.every == 0:\n        optimizer.step()"),
        "whether the optimizer steps goes by",
    ),
    "an odd batch size": (("batch_size=8", "batch_size=9"), "not a multiple"),
    "no batch size": (("batch_size=8, ", ""), "which batch size"),
    "batches of its own": (("batch_size=8, shuffle=True", "batch_sampler=own"), "batch_sampler"),
    "perhaps drops the last": (("shuffle=True", "drop_last=flag"), "drops its last"),
    "options of another file's": (("shuffle=True", "**options"), "drops its last"),
    "left early": (("    total", "    if total > 9:\n        break\n    total"), "left early"),
    "skips batches": (("    # predict", "    if bad(x):\n        continue"), "left early"),
    "an else": (("    total", "else:\n    total"), "left early"),
    "never clears": (("    optimizer.zero_grad()\n", ""), "calls no zero_grad()"),
    "clears late": (
        ("    optimizer.step()", "    optimizer.zero_grad()\n    optimizer.step()"),
        "between backward and step",
    ),
    "sums": (("criterion(model(x), y)", "mse(model(x), y, reduction='sum')"), "sum over"),
    "sums in the criterion": (
        ("loader =", "criterion = nn.MSELoss(reduction='sum')\nloader ="),
        "sum over",
    ),
    "sums in a part of the loss": (
        ("loss.backward", "total = loss + kl.sum()\n    total.backward"),
        "sum over",
    ),
    "sums at the end": (("loss.backward", "loss.sum().backward"), "sum over"),
    "uses the batch size": (
        ("batch_size=8", "batch_size=B"),
        "batch size at train.py:5",
    ),
    "sums over a dataset's size": (
        ("criterion(model(x), y)", "mse(model(x), y, reduction='sum') / len(data)"),
        "the loss adds up at train.py:7, and may be a sum over",
    ),
    "sums over a part's size": (
        (
            "    loss = criterion(model(x), y)",
            "    x, y = x[y > 0], y[y > 0]\n    loss = ce(model(x), y, reduction='sum') / len(y)",
        ),
        "adds up at train.py:8",
    ),
    "sums of a mask": (
        ("criterion(model(x), y)", "(ce(model(x), y) * mask).sum() / mask.sum()"),
        "adds up at train.py:7",
    ),
    "sums over what comes with the weights": (
        (
            "criterion(model(x), y)",
            "sum((p * x).sum() for p in model.parameters())",
        ),
        "adds up at train.py:7",
    ),
    "sums in a class": (
        (
            "loader =",
            (
                "class Sum:\n    def forward(self, x, y):\n        return self.all(x - y)\n"
                "    def all(self, x):\n        return x.sum()\ncriterion = Sum()\nloader ="
            ),
        ),
        "sum over",
    ),
    "two optimizers": (
        ("    optimizer.step()", "    optimizer.step()\n    for o in others:\n        o.step()"),
        "elsewhere",
    ),
    "two backwards": (
        ("    total", "    critic(x).backward()\n    total"),
        "more than one backward",
    ),
    "own learning rate": (
        ("    # predict", "    for g in optimizer.param_groups: g['lr'] = 1"),
        "the optimizer's param_groups",
    ),
    "looks at gradients": (
        ("    total", "    norm = model.weight.grad.norm()\n    total"),
        "touches",
    ),
    "an average of the weights": (("    total", "    ema.update()\n    total"), "average"),
    "the model in between": (("    total", "    evaluate(model)\n    total"), "used again"),
    "handed on": (("    # predict", "    set_rate(optimizer, 1)"), "handed"),
    "handed on by its name": (("    # predict", "    set_rate(optimizer=optimizer)"), "handed"),
    "handed on to what steps": (
        (
            "loader =",
            "def rate(o):\n    o.add(1)\n    return o.param_groups[0]['lr']\nloader =",
        ),
        "handed",
    ),
    "a scheduler that is told": (
        ("    total", "    sched.step(loss)\n    total"),
        "sched.step() is given arguments",
    ),
    "a counted schedule": (
        ("    total", "    sched.step()\nsteps = 3 * len(loader)\nif 1:\n    total"),
        "something else steps with every batch",
    ),
    "another kind of loop": (("for x, y in loader", "while go"), "for loop"),
    "a wrapped loader": (("in loader", "in prefetched(loader)"), "over prefetched(loader)"),
    "a counter of its own": (
        ("for x, y in loader:", "for i, (x, y) in enumerate(loader):\n    i += 1"),
        "which batch",
    ),
    "step in a function": (
        ("    optimizer.step()", "    update()\ndef update(): \n    optimizer.step()\nif 1:"),
        "",
    ),
    "clips now and then": (
        (
            "    optimizer.step()",
            "    if loss > 1:\n        clip_grad_norm_(p)\n    optimizer.step()",
        ),
        "clipped",
    ),
    "norms that an object keeps": (
        ("    optimizer.step()", "    log.norm = clip_grad_norm_(p, 1.0)\n    optimizer.step()"),
        "clipped in another way",
    ),
    "norms of a part": (
        (
            "    optimizer.step()",
            "    norm = get_total_norm(grads(p))\n    optimizer.step()\n    log(norm)",
        ),
        "the norm of the gradients is used in the loop (train.py:9)",
    ),
    "a scheduler now and then": (
        ("    total", "    if total % 10 == 0:\n        sched.step()\n    total"),
        "elsewhere",
    ),
    "steps first": (
        ("    loss.backward()\n    optimizer.step()", "    optimizer.step()\n    loss.backward()"),
        "steps before backward",
    ),
    "closure": (("loss.backward()", "loss.backward(gradient)"), "arguments"),
    "counts up to an end": (
        ("    total", "    done += 1\n    if done == 10_000:\n        finish()\n    total"),
        "a count in done",
    ),
    "counts for a rate": (
        (
            "    total",
            "    self.done = self.done + 1\n    set_rate(0.1 ** (self.done // 20))\n    total",
        ),
        "a count in self.done",
    ),
    "counts for a share": (
        ("    total", "    done += 1\n    beta = min(1.0, done / 20_000)\n    total"),
        "a count in done",
    ),
    "counts for a function": (
        ("    total", "    done += 1\n    beta = annealed(done)\n    total"),
        "a count in done",
    ),
}


REFUSED |= {
    "counts for a named argument": (
        ("    total", "    done += 1\n    sched.step_update(num_updates=done)\n    total"),
        "a count in done",
    ),
    "counts for a table": (
        ("    total", "    done += 1\n    beta = betas[done]\n    total"),
        "a count in done",
    ),
    "a count in a table": (
        ("    total", "    s['n'] += 1\n    end = s['n'] > 100\n    total"),
        "a count in s['n']",
    ),
    "a model of an object's": (
        (
            "    total",
            "    averaged.update_it(self.net)\nself.net.train()\nif 1:\n    total",
        ),
        "used again",
    ),
    "another net that follows": (("    total", "    self.update_target()\n    total"), "average"),
    "a bar by the loader's name": (
        ("for x, y in loader", "def train(bar):\n  bar = tqdm(bar)\n  for x, y in bar"),
        "goes over bar, which is given a wrapped loader",
    ),
    "another loader later": (
        ("for x, y", "if late:\n    loader = DataLoader(more, batch_size=8)\nfor x, y"),
        "several values go by the name",
    ),
    "a loop that is given several loaders": (
        (
            "for x, y in loader:",
            "train(loader)\ntrain(fine)\ndef train(batches):\n  for x, y in batches:",
        ),
        "train is given several loaders",
    ),
}
REFUSED |= {
    "an average by hand": (
        (
            "    total",
            "    for p, q in zip(net.parameters(), own):\n        q.mul_(0.9).add_(p)\n    total",
        ),
        "goes over weights and changes something in place",
    ),
    "decay by hand": (
        ("    total", "    for p in model.parameters():\n        p.data *= 0.99\n    total"),
        "goes over weights and changes something in place",
    ),
    "a loss that goes by the batch": (
        (
            "for x, y in loader:",
            "for i, (x, y) in enumerate(loader):\n    criterion = Loss(min(1, (n + i) / 50))",
        ),
        "which batch of the epoch",
    ),
    "a rate that goes by the batch": (
        ("for x, y in loader:", "for i, (x, y) in enumerate(loader):\n    set_rate(i / 100)"),
        "which batch of the epoch",
    ),
    "something done at a batch": (
        (
            "for x, y in loader:",
            "for i, (x, y) in enumerate(loader):\n    if i == 100:\n        unfreeze()",
        ),
        "which batch of the epoch",
    ),
}
REFUSED["a loader of another class"] = (
    ("batch_size=8, shuffle=True)\n", "batch_size=8)\nloader = Prefetcher(loader)\n"),
    "Prefetcher makes of the loader",
)
REFUSED["a loader of another class by its own name"] = (
    (
        "for x, y in loader:",
        (
            "loader = OnDevice(loader, device)\ntrain(loader)\ndef train(batches):\n"
            "  for x, y in batches:"
        ),
    ),
    "OnDevice makes of the loader",
)
REFUSED["a loader of another class in a call"] = (
    (
        "for x, y in loader:",
        "train(Wrapped(loader, view))\ndef train(batches):\n  for x, y in batches:",
    ),
    "Wrapped makes of the loader",
)
REFUSED["a loader of another class in a branch"] = (
    (
        "for x, y in loader:",
        "train(Wrapped(loader) if cuda else loader)\ndef train(batches):\n  for x, y in batches:",
    ),
    "Wrapped makes of the loader",
)

USUAL = {
    "a function that the model has a method of that name of": (
        "for x, y in loader:",
        (
            "train(model, loader, 1)\ntrain(model, loader, 2)\nmodel.train()\n"
            "def train(net, batches, epoch):\n  net.train()\n  for x, y in batches:"
        ),
    ),
    "figures now and then": (
        "for x, y in loader:",
        (
            "for i, (x, y) in enumerate(loader):\n    if i % 100 == 0:\n"
            "        out, current = 1 / n, i * 8\n        print(current, i / len(loader))\n"
            "        running = 0.0"
        ),
    ),
    "figures by the name of the loss": (
        "    total",
        "    if i % 9 == 0:\n        loss, at = loss.item(), i\n        print(at)\n    total",
    ),
    "a log of torchvision's": ("in loader:", "in metric_logger.log_every(loader, 10, header):"),
    "a way out that was not taken": ("    total", "    if args.dry_run:\n        break\n    total"),
    "sums for the figures only": ("    total", "    right += (out == y).sum()\n    total"),
    "counts to say so": (
        "    total",
        "    done += 1\n    if done % 10 == 0:\n        print(done, total / done)\n    total",
    ),
    "counts to keep it": (
        "    total",
        "    done += 1\n    seen.append(done)\n    say(str(done))\n    total",
    ),
    "sums over the weights": (
        "    total",
        "    l2 = 0\n    for p in model.parameters():\n        l2 += p.pow(2).sum()\n    total",
    ),
    "a penalty on the weights": (
        "criterion(model(x), y)",
        "criterion(model(x), y) + 1e-4 * sum(p.pow(2).sum() for p in model.parameters())",
    ),
    "a penalty on the weights in a loop": (
        "    loss.backward",
        (
            "    for name, p in model.named_parameters():\n"
            "        loss = loss + 1e-5 * torch.sum(torch.abs(p))\n    loss.backward"
        ),
    ),
    "a sum over the batch's size": (
        "criterion(model(x), y)",
        "mse(model(x), y, reduction='sum') / len(x)",
    ),
    "a sum over the batch's shape": ("criterion(model(x), y)", "mse(x, y).sum() / x.shape[0]"),
    "a sum over the batch's size on a device": (
        "    loss = criterion(model(x), y)",
        "    x, y = x.to(device), y.to(device)\n    loss = mse(model(x), y).sum() / len(x)",
    ),
    "a norm that is kept as a number": (
        "    optimizer.step()",
        "    norm = clip_grad_norm_(model.parameters(), 1.0).item()\n    optimizer.step()",
    ),
    "a norm that is kept as a float": (
        "    optimizer.step()",
        "    norm = float(clip_grad_norm_(model.parameters(), 1.0))\n    optimizer.step()",
    ),
    "a norm that is kept": (
        "    optimizer.step()",
        "    norm = clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()",
    ),
    "a rate that is asked for": (
        "for x, y in loader:",
        (
            "def rate(o):\n    for g in o.param_groups:\n        return g['lr']\n"
            "for x, y in loader:\n    bar.set_postfix(lr=rate(optimizer), more=rate(o=optimizer))"
        ),
    ),
    "an average of the figures": ("    total", "    print(loss_meter.average())\n    total"),
    "words that only look like an average's": (
        "    total",
        "    schema.check()\n    semantic(total)\n    total",
    ),
    "sums in validation": (
        "loader =",
        "def validate():\n    return mse(model(x), y, reduction='sum')\nloader =",
    ),
    "sums in a method for the figures": (
        "loader =",
        (
            "class Net:\n    def forward(self, x):\n        return self.fc(x)\n"
            "    def accuracy(self, x, y):\n        return (x == y).sum()\nmodel = Net()\nloader ="
        ),
    ),
    "sums along one dimension": ("loss.backward", "(loss + r.sum(1).mean()).backward"),
    "options without a word of the last batch": (
        "loader = DataLoader(data, batch_size=8, shuffle=True)",
        (
            "pinned = {'pin_memory': True} if cuda else {}\noptions = {'batch_size': 8}\n"
            "options.update(pinned)\nloader = DataLoader(data, **options)"
        ),
    ),
}


@pytest.mark.parametrize("change", USUAL.values(), ids=USUAL)
def test_what_changes_nothing_for_the_step_is_taken(change: tuple[str, str]) -> None:
    text = source(LOOP).replace(*change)
    if "if i %" in text and "enumerate" not in text:
        text = text.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    outcome = rewritten(text, TWO)
    assert outcome.statuses == ["done"], outcome.outcomes
    assert rewritten(outcome.text, TWO).statuses == ["already"]


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("(i + 1) % 2 == 0", "already"),
        ("(i + 1) % 2 == 0 or i + 1 == len(loader)", "already"),
        ("i % 2", "refused"),
        ("i % 2 != 0", "refused"),
        ("(i + 1) % 4 == 0", "refused"),
    ],
)
def test_one_step_after_so_many_backward_passes_accumulates(condition: str, status: str) -> None:
    text = LOOP.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    step = f"    if {condition}:\n        optimizer.step()\n"
    assert rewritten(text.replace("    optimizer.step()\n", step), TWO).statuses == [status]
    otherwise = step.replace(":\n", ":\n        pass\n    else:\n")
    outcome = rewritten(text.replace("    optimizer.step()\n", otherwise), TWO)
    assert outcome.reason.startswith("whether the optimizer steps goes by ")


def test_what_is_round_backward_too_is_no_accumulation() -> None:
    loop = textwrap.indent(LOOP[LOOP.index("for x") :], "    ")
    text = f"{LOOP[: LOOP.index('for x')]}if seed % 2 == 0:\n{loop}"
    assert rewritten(text, TWO).statuses == ["done"]
    inside = "    if i % 2 == 0:\n        loss.backward()\n        optimizer.step()\n"
    text = LOOP.replace("    loss.backward()\n    optimizer.step()\n", inside)
    text = text.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    outcome = rewritten(text, TWO)
    assert (outcome.statuses, "not both statements" in outcome.reason) == (["refused"], True)


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_unusual_loop_is_refused_and_left_alone(change: tuple[str, str], reason: str) -> None:
    text = source(LOOP).replace(*change)
    if "def rate" in text:
        text = text.replace("# predict", "print(rate(optimizer))")
    if "batch size at" in reason:
        text = text.replace("# predict", "x = x.view(B, -1)")
    outcome = rewritten(text, TWO)
    assert outcome.statuses == ["refused"], outcome.text
    assert outcome.text == text
    assert reason in outcome.reason
    assert "(loss * share).backward()" in outcome.hand_step


@pytest.mark.parametrize(
    ("argument", "same"),
    [
        ("collate_fn=lambda b: mix(*default_collate(b))", False),
        ("collate_fn=pad", False),
        ("collate_fn=default_collate", True),
        ("collate_fn=torch.utils.data.default_collate", True),
        ("collate_fn=mine.default_collate", False),
        ("collate_fn=None", True),
        ("drop_last=False, **options", False),
        ("drop_last=False, **{'collate_fn': pad}", False),
        ("drop_last=False, **{'pin_memory': True}", True),
    ],
)
def test_a_batch_that_is_more_than_its_samples_stacked_is_not_divided(
    argument: str, same: bool
) -> None:
    imports = "from torch.utils.data import default_collate\nimport mine\n"
    text = imports + source(LOOP).replace("shuffle=True", argument)
    outcome = rewritten(text, TWO)
    assert outcome.statuses == (["done"] if same else ["refused"]), outcome.outcomes
    if not same:
        assert outcome.text == text
        assert "collate_fn" in outcome.reason
        assert "x.chunk(2)" in outcome.hand_step


BY_HAND = """for micro_step, batch in enumerate(loader):
    micro_size = loader.batch_size
    samples_left = len(loader.sampler) - micro_size * micro_step
    group_size = min(micro_size * 2, samples_left + micro_size * (micro_step % 2))
    share = min(micro_size, samples_left) / group_size
    (loss * share).backward()
    if (micro_step + 1) % 2 == 0 or micro_step + 1 == len(loader):
        what clips gradients, optimizer.step(), scheduler.step() and optimizer.zero_grad()"""
BY_HAND_WITHOUT_THE_LAST = """for micro_step, batch in enumerate(loader):
    if micro_step >= len(loader) // 2 * 2: break
    (loss / 2).backward()
    if (micro_step + 1) % 2 == 0:
        what clips gradients, optimizer.step(), scheduler.step() and optimizer.zero_grad()"""


@pytest.mark.parametrize(
    ("drop_last", "told"), [(None, BY_HAND), (False, BY_HAND), (True, BY_HAND_WITHOUT_THE_LAST)]
)
def test_what_a_person_would_write_is_the_same_training(drop_last: bool | None, told: str) -> None:
    step = by_hand(Accumulate(steps=2, drop_last=drop_last), places_of(source(LOOP)), PATH)
    assert step == f"{PATH}:9: divide the DataLoader's batch_size by 2; {told}"


def test_a_loader_built_in_another_module_is_divided_there() -> None:
    loop = source(LOOP).replace("loader = DataLoader(data, batch_size=8, shuffle=True)\n", "")
    data = "def make(n):\n    return DataLoader(sets, n, shuffle=True)\n"
    beside = places_of(data, "/project/data.py").loader
    seen = places_of(loop)
    places = type(seen)(
        loader=beside,
        forward=seen.forward,
        backward=seen.backward,
        step=seen.step,
        zero_grad=seen.zero_grad,
    )
    done = rewrite({PATH: loop, "/project/data.py": data}, [("micro", TWO)], places)
    assert [outcome.status for outcome in done.outcomes] == ["done"]
    assert "DataLoader(sets, n // 2, shuffle=True)" in done.sources["/project/data.py"]
    assert "share" in done.sources[PATH]


def test_a_progress_bar_that_is_entered_is_seen_through() -> None:
    text = source(LOOP)
    at = text.index("for x, y in loader:")
    loop = "with tqdm(loader) as bar:\n" + textwrap.indent(
        text[at:].replace("in loader:", "in bar:", 1), "    "
    )
    outcome = rewritten(text[:at] + loop, TWO)
    assert outcome.statuses == ["done"], outcome.outcomes
    assert "loader.batch_size" in outcome.text
    assert "bar.batch_size" not in outcome.text


def test_a_schedule_may_count_the_batches_under_another_name() -> None:
    helper = (
        "def steps_of(loader):\n    return 9 * len(loader)\n\nscheduler = S(steps_of(loader))\n"
    )
    text = LOOP.replace("loader = DataLoader", f"{helper}samples = DataLoader", 1).replace(
        "    optimizer.step()\n", "    optimizer.step()\n    scheduler.step()\n"
    )
    text = text.replace("in loader:", "in samples:")
    assert rewritten(text.replace("len(loader)", "len(dataset)"), TWO).statuses == ["done"]
    assert "number of the loader's batches" in rewritten(text, TWO).reason


@pytest.mark.parametrize("loader", ['loaders["train"]', "dm.train_dataloader()", "get_loader()"])
def test_a_schedule_counts_the_batches_of_a_loader_without_a_name(loader: str) -> None:
    text = LOOP.replace(
        "for x, y", f"sched = OneCycle(opt, steps_per_epoch=len({loader}))\nfor x, y"
    )
    text = text.replace("    total", "    sched.step()\n    total")
    assert "number of the loader's batches" in rewritten(source(text), TWO).reason


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("epochs = 10_000 // len(loader)", True),
        ("epochs = math.ceil(args.steps / len(loader))", True),
        ("print(total / (len(loader) * 32))", True),
        ("print(total / len(loader))", False),
        ("total /= len(loader)", False),
        ("number = len(loader)\ntotal /= number", False),
        ("number = len(loader)\nplan(number)", True),
        ("mean = sum(losses) / len(loader)", False),
        ("print(len(loader), f'{len(loader)} batches')", False),
        ("kept = int(0.8 * len(train_set))", False),
        ("order = np.random.permutation(len(X_train))", False),
        ("rows = range(len(train_df))", False),
        ("known = len(pretrained_dict)", False),
        ("steps = 9 * len(train)", True),
        ("steps = 9 * len(train_dl)", True),
        ("right = right / (len(val_loader) * 32)", False),
    ],
)
def test_a_number_of_batches_is_for_means_over_them(line: str, counts: bool) -> None:
    outcome = rewritten(source(LOOP) + line + "\n", TWO)
    assert outcome.statuses == (["refused"] if counts else ["done"]), outcome.outcomes
    assert not counts or "number of the loader's batches" in outcome.reason


@pytest.mark.parametrize(
    ("line", "loader", "counts"),
    [
        ('shift = sum(train[i]["y"] / len(train[i]["z"]) for i in range(9))', "loader", False),
        ("steps = 9 * len(train)", "loader", False),
        ("steps = 9 * len(train)", "train", True),
        ("steps = 9 * len(loader)", "loader", True),
    ],
)
def test_the_dataset_and_its_samples_are_no_loader(line: str, loader: str, counts: bool) -> None:
    text = source(LOOP).replace("DataLoader(data,", "DataLoader(train,")
    text = text.replace("loader = DataLoader", f"{loader} = DataLoader")
    text = text.replace("in loader:", f"in {loader}:")
    outcome = rewritten(f"{text}{line}\n", TWO)
    assert outcome.statuses == (["refused"] if counts else ["done"]), outcome.outcomes


@pytest.mark.parametrize(
    ("built", "alone"),
    [
        ("loader = make(data, 8)\n", True),
        ("loader = make(data, 8)\nheld_out = make(other, 8)\n", False),
        ("loader = make(data, 8)\nmodel.make()\n", True),
        ("loader = sets.make(data, 8)\nheld_out = sets.make(other, 8)\n", False),
    ],
)
def test_a_line_that_builds_several_loaders_is_not_divided(built: str, alone: bool) -> None:
    function = "import sets\ndef make(d, n):\n    return DataLoader(d, batch_size=n)\n"
    loop = source(LOOP).replace("loader = DataLoader(data, batch_size=8, shuffle=True)\n", built)
    text = function + loop
    outcome = rewritten(text, TWO)
    assert outcome.statuses == (["done"] if alone else ["refused"]), outcome.outcomes
    if not alone:
        assert outcome.text == text
        assert outcome.reason == "this line builds other loaders as well"
        assert outcome.hand_step.startswith(f"{PATH}:3: divide the DataLoader's batch_size by 2")


@pytest.mark.parametrize(
    ("line", "shared"),
    [
        ("loaders = {k: DataLoader(d, batch_size=8) for k, d in sets.items()}", False),
        ("loader = DataLoader(data, batch_size=8)", True),
    ],
)
def test_a_line_that_was_seen_to_build_several_loaders_is_not_divided(
    line: str, shared: bool
) -> None:
    text = source(LOOP).replace("loader = DataLoader(data, batch_size=8, shuffle=True)", line)
    text = text.replace("in loader:", "in loaders['train']:") if "loaders" in line else text
    outcome = rewritten(text, Accumulate(steps=2, shared=shared))
    assert outcome.text == text
    assert outcome.reason == "this line builds other loaders as well"
