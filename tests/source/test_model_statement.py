"""`ModelStatement`: code on the model, right before its optimizer is built."""

from dataclasses import replace

import pytest

from autotune.source.edits import ModelStatement, OutputPlace, Place, Places
from tests.source.programs import PATH, check, rewritten, source

COMPILE = ModelStatement(code="{model}.compile()")
LAST = ModelStatement(
    code="{model}.to(memory_format=torch.channels_last)", imports=("import torch",)
)
CHECKPOINT = ModelStatement(
    code="for block in {model}.blocks:\n    block.forward = partial(checkpoint, block.forward)",
    imports=("from functools import partial", "from torch.utils.checkpoint import checkpoint"),
)


def test_the_statement_stands_before_the_optimizer() -> None:
    check(
        """
        import torch as th

        def main():
        \tnet = Net()
        \t# the usual
        \toptimizer = th.optim.SGD(net.parameters(), lr=0.1)
        """,
        """
        import torch as th

        def main():
        \tnet = Net()
        \t# the usual
        \tnet.to(memory_format=th.channels_last)
        \tnet.compile()
        \toptimizer = th.optim.SGD(net.parameters(), lr=0.1)
        """,
        LAST,
        COMPILE,
    )


def test_what_the_statement_needs_is_imported_once() -> None:
    check(
        """
        import torch
        from functools import partial

        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        """,
        """
        import torch
        from functools import partial
        from torch.utils.checkpoint import checkpoint

        for block in self.model.blocks:
            block.forward = partial(checkpoint, block.forward)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        """,
        CHECKPOINT,
    )


WITH_FUNCTION = replace(
    CHECKPOINT,
    code="for block in {model}.blocks:\n    block.forward = partial(again, block.forward)",
    function="\ndef again(forward, x):\n    return checkpoint(forward, x)\n",
)


def test_the_function_that_the_statement_calls_stands_once_behind_the_imports() -> None:
    text = source("""
        import torch

        def main():
            first = torch.optim.SGD(one.parameters(), lr=0.1)
            second = torch.optim.SGD(other.parameters(), lr=0.1)
        """)
    places = Places(optimizer=Place(path=PATH, line=4), more_optimizers=(Place(path=PATH, line=5),))
    outcome = rewritten(text, WITH_FUNCTION, places=places)
    assert outcome.statuses == ["done"]
    assert outcome.text.count("def again(forward, x):\n    return checkpoint(forward, x)\n") == 1
    assert outcome.text.count("partial(again, ") == 2
    assert outcome.text.index("\ndef again") < outcome.text.index("\ndef main")


def test_the_function_never_takes_a_name_that_the_file_uses() -> None:
    text = "again = 3\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    outcome = rewritten(text, WITH_FUNCTION)
    assert outcome.text == text
    assert "the name again for something else" in outcome.reason


def test_an_import_never_takes_a_name_that_the_file_uses() -> None:
    text = "checkpoint = 'last.pt'\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    outcome = rewritten(text, CHECKPOINT)
    assert outcome.text == text
    assert "checkpoint for something else" in outcome.reason


@pytest.mark.parametrize(
    "parameters",
    [
        "model.parameters()",
        "params=model.parameters()",
        "model.named_parameters()",
        "list(model.parameters())",
        "filter(lambda p: p.requires_grad, model.parameters())",
        '[{"params": model.parameters(), "weight_decay": 0.1}]',
        "[p for p in model.parameters() if p.requires_grad]",
        "(p for n, p in model.named_parameters() if p.requires_grad)",
    ],
)
def test_the_model_is_the_one_whose_parameters_are_given(parameters: str) -> None:
    line = f"optimizer = optim.SGD({parameters}, lr=0.1)\n"
    outcome = rewritten(line, COMPILE)
    assert outcome.text == "model.compile()\n" + line
    assert rewritten(outcome.text, COMPILE).statuses == ["already"]


def test_parameters_may_be_named_before() -> None:
    text = "params = [p for p in net.parameters()]\noptimizer = optim.SGD(params, lr=0.1)\n"
    expected = text.replace("optimizer", "net.compile()\noptimizer")
    assert rewritten(text, COMPILE).text == expected


def test_parameters_may_be_put_into_groups_one_by_one() -> None:
    check(
        """
        def main():
            net = Net()
            plain, decayed = [], []
            for name, weight in net.named_parameters():
                (plain if name.endswith("bias") else decayed).append(weight)
                if weight.ndim > 1:
                    decayed.append(weight)
            groups = [{"params": plain}, {"params": decayed, "weight_decay": 0.1}]
            optimizer = torch.optim.SGD(groups, lr=0.1)
        """,
        """
        def main():
            net = Net()
            plain, decayed = [], []
            for name, weight in net.named_parameters():
                (plain if name.endswith("bias") else decayed).append(weight)
                if weight.ndim > 1:
                    decayed.append(weight)
            groups = [{"params": plain}, {"params": decayed, "weight_decay": 0.1}]
            net.compile()
            optimizer = torch.optim.SGD(groups, lr=0.1)
        """,
        COMPILE,
    )


def test_a_model_may_build_its_own_optimizer() -> None:
    check(
        """
        class Net(nn.Module):
            def optimizer(self):
                by_name = dict(self.named_parameters())
                chosen = set()
                for owner, module in self.named_modules():
                    for name, _ in module.named_parameters():
                        chosen.add(owner + name)
                given = [by_name[name] for name in sorted(chosen)]
                return torch.optim.SGD(given, lr=0.1)
        """,
        """
        class Net(nn.Module):
            def optimizer(self):
                by_name = dict(self.named_parameters())
                chosen = set()
                for owner, module in self.named_modules():
                    for name, _ in module.named_parameters():
                        chosen.add(owner + name)
                given = [by_name[name] for name in sorted(chosen)]
                self.compile()
                return torch.optim.SGD(given, lr=0.1)
        """,
        COMPILE,
    )


def test_what_is_meant_for_a_part_is_not_done_to_the_whole() -> None:
    text = "optimizer = optim.SGD(whole.parameters(), lr=0.1)\n"
    outcome = rewritten(text, replace(CHECKPOINT, of="Encoder", shared=True))
    assert outcome.text == text
    assert outcome.reason == (
        "the training calls the Encoder and other modules by themselves: whole may be more than "
        "the Encoder"
    )


REFUSED = {
    "two models": ("opt = optim.SGD(list(a.parameters()) + list(b.parameters()))", "one model"),
    "two models by way of a variable": (
        "some = list(a.parameters())\nopt = optim.SGD(some + list(b.parameters()))",
        "one model",
    ),
    "a model made on the spot": ("opt = optim.SGD(build().parameters())", "one model"),
    "groups of parameters": ("opt = optim.SGD(groups)", "one model"),
    "a lambda": ("make = lambda m: optim.SGD(m.parameters())", "lambda"),
    "a line shared": ("model = Net(); opt = optim.SGD(model.parameters())", "of its own"),
    "one line of an if": ("if x: opt = optim.SGD(model.parameters())", "of its own"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_model_or_place_that_cannot_be_told_is_refused(text: str, reason: str) -> None:
    outcome = rewritten(text + "\n", COMPILE)
    assert outcome.text == text + "\n"
    assert outcome.statuses == ["refused"]
    assert reason in outcome.reason
    line = 1 + text.count("\n")
    assert outcome.hand_step.startswith(f"{PATH}:{line}: before this statement: ")


def test_a_parameter_of_a_function_is_not_given_another_value() -> None:
    text = "def build(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
    places = Places(optimizer=Place(path=PATH, line=2))
    rebinding = ModelStatement(code="{model} = torch.compile({model})")
    outcome = rewritten("import torch\n" + text, rebinding)
    assert outcome.statuses == ["refused"]
    assert "old model" in outcome.reason
    done = rewritten(text, COMPILE, places=places)
    assert "    model.compile()\n    return" in done.text


def test_a_name_that_the_file_uses_is_left_to_it() -> None:
    check(
        """
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        block = 32
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        print(block)
        """,
        """
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        block = 32
        for model_block in net.blocks:
            model_block.forward = partial(checkpoint, model_block.forward)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        print(block)
        """,
        CHECKPOINT,
    )


@pytest.mark.parametrize(
    ("callee", "changed"), [("self.net", "self.net"), ("net", ""), ("self", "")]
)
def test_parts_of_a_module_that_is_called_stand_for_it(callee: str, changed: str) -> None:
    text = source(
        """
        import torch
        groups = [{"params": self.net.backbone.parameters(), "lr": 0.1}]
        groups.append({"params": self.net.head.parameters(), "lr": 1.0})
        optimizer = torch.optim.SGD(groups)
        """
    )
    outputs = (OutputPlace(path=PATH, line=9, callee=callee, tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=4), outputs=outputs)
    done = rewritten(text, LAST, places=seen)
    statement = f"{changed}.to(memory_format=torch.channels_last)\n"
    assert (statement in done.text) is bool(changed)
    assert done.statuses == (["done"] if changed else ["refused"])


def test_a_part_by_itself_stands_for_the_module_that_is_called() -> None:
    """Momentum contrast: the optimizer has the one encoder, the other follows it."""
    text = source(
        """
        import torch
        optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.1)
        """
    )
    outputs = (OutputPlace(path=PATH, line=9, callee="model", tensors=False),)
    seen = Places(optimizer=Place(path=PATH, line=2), outputs=outputs)
    assert "\nmodel.compile()\n" in rewritten(text, COMPILE, places=seen).text


def test_a_model_that_gives_its_groups_itself_is_the_one_that_is_called() -> None:
    text = source(
        """
        import torch
        optimizer = torch.optim.SGD(model.module.groups(args.lr), lr=args.lr)
        """
    )
    outputs = (OutputPlace(path=PATH, line=9, callee="model", tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=2), outputs=outputs)
    done = rewritten(text, LAST, places=seen)
    assert "\nmodel.to(memory_format=torch.channels_last)\n" in done.text
    assert rewritten(text, LAST, places=replace(seen, outputs=())).statuses == ["refused"]


def test_every_model_that_has_an_optimizer_is_changed() -> None:
    text = source("""
        import torch
        first = torch.optim.SGD(discriminator.parameters(), lr=0.1)
        second = torch.optim.SGD(generator.parameters(), lr=0.1)
        """)
    places = Places(optimizer=Place(path=PATH, line=3), more_optimizers=(Place(path=PATH, line=2),))
    assert rewritten(text, LAST, places=places).text == source("""
        import torch
        discriminator.to(memory_format=torch.channels_last)
        first = torch.optim.SGD(discriminator.parameters(), lr=0.1)
        generator.to(memory_format=torch.channels_last)
        second = torch.optim.SGD(generator.parameters(), lr=0.1)
        """)


def test_what_is_for_models_of_one_class_is_not_done_to_another() -> None:
    text = source("""
        class G(nn.Module): pass
        class D(nn.Module): pass
        judge = D().to(device)
        maker = G().to(device)
        first = torch.optim.SGD(judge.parameters(), lr=0.1)
        second = torch.optim.SGD(maker.parameters(), lr=0.1)
        """)
    places = Places(optimizer=Place(path=PATH, line=5), more_optimizers=(Place(path=PATH, line=6),))
    of = ModelStatement(code="{model}.blocks.compile()", of="G")
    second = "second = torch"
    assert rewritten(text, of, places=places).text == text.replace(
        second, f"maker.blocks.compile()\n{second}"
    )


HOLDING = """
    class Net(nn.Module):
        pass

    class Lit(LightningModule):
        def __init__(self):
            self.net = Net()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Mine(Lit):
        pass

    class Own(Mine):
        pass
    """


@pytest.mark.parametrize(
    ("of", "status"), [("Lit", "done"), ("Mine", "done"), ("Own", "done"), ("Net", "refused")]
)
def test_a_module_that_holds_the_one_that_is_trained_is_not_taken_for_it(
    of: str, status: str
) -> None:
    found = rewritten(source(HOLDING), ModelStatement(code="{model}.compile()", of=of))

    assert found.statuses == [status]
    if status == "refused":
        assert found.reason.endswith("in another class than the Net which is trained")
        assert found.hand_step.startswith(f"{PATH}:")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("model = Whole().to(device)", "refused"),
        ("first, model = Encoder(), Whole()", "refused"),
        ("model = Whole()\n    model = DDP(model)", "refused"),
        ("model = Encoder().to(device)", "done"),
        ("model = Wrapper(Encoder())", "done"),
        ("model = Whole() if args.whole else build(args)", "done"),
        ("model = Whole()\n    model = build(args)", "done"),
    ],
)
def test_a_model_that_is_built_as_another_is_not_the_one_that_is_called(
    given: str, status: str
) -> None:
    text = (
        "class Encoder(nn.Module): pass\nclass Whole(nn.Module): pass\ndef main(args):\n"
        f"    {given}\n    optimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    )
    found = rewritten(text, ModelStatement(code="{model}.compile()", of="Encoder"))
    assert found.statuses == [status]
    said = "the loop calls an object of Encoder, and model is one of Whole"
    assert found.reason == said * (status == "refused")
    assert found.hand_step.endswith("where … is your Encoder" * (status == "refused"))
    taken = text.replace("def main(args)", "def main(args, model)")
    assert rewritten(taken, ModelStatement(code="{model}.compile()", of="Encoder")).statuses == [
        "done"
    ]


@pytest.mark.parametrize(("callee", "status"), [("model", "refused"), ("heads.fc", "done")])
def test_the_head_of_a_frozen_model_is_not_the_model(callee: str, status: str) -> None:
    text = source("import torch\noptimizer = torch.optim.SGD(net.fc.parameters(), lr=0.1)\n")
    place = OutputPlace(path=PATH, line=9, callee=callee, tensors=True)
    seen = Places(optimizer=Place(path=PATH, line=2), outputs=(place,))
    done = rewritten(text, LAST, places=seen)
    assert done.statuses == [status]
    assert status == "done" or "net.fc, which may be a part of what the loop calls" in done.reason


def test_a_model_that_is_chosen_between_two_keeps_its_parentheses() -> None:
    check(
        "opt = optim.SGD((net.module if parallel else net).parameters(), lr=0.1)\n",
        "(net.module if parallel else net).compile()\n"
        "opt = optim.SGD((net.module if parallel else net).parameters(), lr=0.1)\n",
        COMPILE,
    )


def test_the_groups_that_a_function_makes_of_the_model_are_of_the_model() -> None:
    text = source(
        """
        import torch
        model = build(args.kind)
        groups = utils.set_weight_decay(model, args.decay, norms=args.norms)
        optimizer = torch.optim.SGD(groups, lr=args.lr)
        """
    )
    outputs = (OutputPlace(path=PATH, line=9, callee="model", tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=4), outputs=outputs)
    assert "\nmodel.compile()\noptimizer" in rewritten(text, COMPILE, places=seen).text
    assert rewritten(text, COMPILE, places=replace(seen, outputs=())).statuses == ["refused"]


def test_parameters_may_be_put_into_numbered_groups_module_by_module() -> None:
    text = source(
        """
        import torch
        g = [], [], []
        for part in net.modules():
            for name, weight in part.named_parameters(recurse=False):
                if name == "bias":
                    g[2].append(weight)
                else:
                    g[0].append(weight)
        optimizer = torch.optim.SGD(g[2], lr=0.1)
        """
    )
    assert "\nnet.compile()\noptimizer" in rewritten(text, COMPILE).text


def test_of_several_models_that_are_built_in_turn_each_is_changed() -> None:
    text = "for net in nets:\n    optimizer = optim.SGD(net.parameters(), lr=0.1)\n"
    assert "    net.compile()\n" in rewritten(text, COMPILE).text


def test_what_a_notebook_defines_stands_above_its_use() -> None:
    check(
        """
        import torch
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        import time
        """,
        """
        import torch
        from functools import partial
        from torch.utils.checkpoint import checkpoint


        def again(forward, x):
            return checkpoint(forward, x)


        net = Net()
        for block in net.blocks:
            block.forward = partial(again, block.forward)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        import time
        """,
        WITH_FUNCTION,
    )


HINDERED = ("torch.jit.script", "torch.jit.trace", "torch.onnx.export", "add_graph", "torch.save")
UNDONE = replace(COMPILE, hinders=HINDERED, undone="{model}._compiled_call_impl = None")
TRAINED = "import torch\nnet = Net()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("torch.jit.script(net).save('net.pt')", "torch.jit.script"),
        ("torch.jit.trace(net.eval(), x)", "torch.jit.trace"),
        ("torch.onnx.export(net, x, 'net.onnx')", "torch.onnx.export"),
        ("writer.add_graph(net, x)", "add_graph"),
        ("torch.save(net, 'net.pt')", "torch.save"),
        ("torch.save(net.cpu(), 'net.pt')", "torch.save"),
        ("torch.save(net.module, 'net.pt')", "torch.save"),
        ("torch.save({'net': net, 'epoch': 1}, 'net.pt')", "torch.save"),
        ("torch.save(copy.deepcopy(net), 'net.pt')", "torch.save"),
        ("torch.save(unwrap(net).eval(), 'net.pt')", "torch.save"),
        ("torch.save(self.net if rank else None, 'net.pt')", "torch.save"),
    ],
)
def test_a_model_that_is_exported_at_the_end_stays_as_it_is(line: str, called: str) -> None:
    text = f"{TRAINED}{line}\n"
    outcome = rewritten(text, UNDONE)
    assert outcome.text == text
    assert outcome.reason == (
        f"the program may hand a model to {called} at train.py:4, which may not work so"
    )
    assert outcome.hand_step == (
        f"{PATH}:3: before this statement: net.compile()\n"
        f"before train.py:4: net._compiled_call_impl = None"
    )
    assert rewritten(text, COMPILE).statuses == ["done"]


@pytest.mark.parametrize(
    "text",
    [
        f"{TRAINED}torch.save(net.state_dict(), 'net.pt')\n",
        f"{TRAINED}torch.save(best, 'best.pt')\n",
        f"{TRAINED}torch.save({{'net': net.module.state_dict()}}, 'net.pt')\n",
        f"{TRAINED}torch.save({{'arch': args.net, 'width': net.config['width']}}, 'net.pt')\n",
        f"{TRAINED}torch.save(unwrap(net).state_dict(), 'net.pt')\n",
        f"def gelu(x):\n    return x\n{TRAINED}gelu = torch.jit.script(gelu)\n",
        TRAINED.replace("optimizer", "writer.add_graph(net, x)\noptimizer"),
    ],
)
def test_what_is_exported_before_or_is_no_model_hinders_nothing(text: str) -> None:
    assert rewritten(text, UNDONE).statuses == ["done"]


REPLAYED = replace(COMPILE, replayed=True)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("found.append(net(x))", True),
        ("found.append((net(x).detach(), y))", True),
        ("found = [net(x) for x in loader]", True),
        ("out = net(x).squeeze(1); found.extend(out)", True),
        ("h = net(x)[0]; g = h; found.append(g)", True),
        ("found[y] = net(x)", True),
        ("found = {n: net(x) for n, x in loader}", True),
        ("found.append(net(x).cpu())", False),
        ("found.append(net(x).argmax(1))", False),
        ("loss += criterion(net(x), y).item()", False),
        ("out = net(x); right += (out.argmax(1) == y).sum()", False),
    ],
)
def test_what_a_graph_overwrites_is_not_kept(line: str, kept: bool) -> None:
    text = f"{TRAINED}def validate(net, loader):\n    for x, y in loader:\n        {line}\n"
    outputs = (OutputPlace(path=PATH, line=9, callee="self.net", tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=3), outputs=outputs)
    outcome = rewritten(text, REPLAYED, places=seen)
    assert outcome.statuses == (["refused"] if kept else ["done"]), outcome.reason
    if kept:
        assert "what a model gives may be kept at train.py:6" in outcome.reason
        assert outcome.hand_step.endswith("\nat train.py:6: .clone() what is kept")


@pytest.mark.parametrize(
    ("line", "viewed"),
    [
        ("found += net(x).view(-1).sum()", True),
        ("out = net(x).cpu(); flat = out.view(out.size(0), -1)", True),
        ("out = net(x).contiguous(); found += out.view(-1)", False),
        ("out = net(x); found += out.reshape(-1)", False),
        ("out = net(x); flat = out.view(n, 3, -1)", False),
        ("out = net(x).argmax(1); flat = out.view(-1)", False),
    ],
)
def test_what_lies_in_another_order_is_not_viewed_as_one_dimension(line: str, viewed: bool) -> None:
    text = f"{TRAINED}def validate(net, loader):\n    for x, y in loader:\n        {line}\n"
    outputs = (OutputPlace(path=PATH, line=9, callee="self.net", tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=3), outputs=outputs)
    outcome = rewritten(text, replace(LAST, reordered=True), places=seen)
    assert outcome.statuses == (["refused"] if viewed else ["done"]), outcome.reason
    assert outcome.hand_step.endswith("at train.py:6: .reshape(...) instead of .view(...)" * viewed)
    assert rewritten(text, LAST, places=seen).statuses == ["done"]


def test_what_a_function_returns_is_kept_by_its_caller() -> None:
    text = f"{TRAINED}def predict(x):\n    return net(x)\nfound.append(predict(x))\n"
    outputs = (OutputPlace(path=PATH, line=5, callee="net", tensors=True),)
    seen = Places(optimizer=Place(path=PATH, line=3), outputs=outputs)
    assert "kept at train.py:6" in rewritten(text, REPLAYED, places=seen).reason
    other = text.replace("found.append(predict(x))", "found.append(predict(x).cpu())")
    assert rewritten(other, REPLAYED, places=seen).statuses == ["done"]


def test_what_is_left_to_a_person_has_all_its_code() -> None:
    text = "again = 3\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    assert rewritten(text, WITH_FUNCTION).hand_step == (
        f"{PATH}:2: before this statement: from functools import partial\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "def again(forward, x):\n    return checkpoint(forward, x)\n"
        "for block in model.blocks:\n    block.forward = partial(again, block.forward)"
    )
    other = "checkpoint = 'last.pt'\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    assert "def again(forward, x):" in rewritten(other, WITH_FUNCTION).hand_step


TWO_MODELS = """
opt = optim.SGD([*online.parameters(), *head.parameters()], lr=0.1)
"""
PARTS = """
opt = optim.SGD([*whole.body.parameters(), *whole.head.parameters()], lr=0.1)
"""
UNKNOWN = """
opt = optim.SGD(build().parameters(), lr=0.1)
"""


ORDER = ".to(memory_format=torch.channels_last)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TWO_MODELS, f"online{ORDER}\nhead{ORDER}"),
        (PARTS, f"…{ORDER}, where … is your model"),
        (UNKNOWN, f"…{ORDER}, where … is your model"),
    ],
)
def test_a_person_is_told_the_programs_own_names_of_models(text: str, said: str) -> None:
    outcome = rewritten(text, LAST)
    assert outcome.statuses == ["refused"]
    assert outcome.hand_step == f"{PATH}:2: before this statement: {said}"


GAN = """
first = optim.Adam(critic.parameters())
second = optim.Adam(policy.parameters())
"""
GAN_PLACES = Places(optimizer=Place(path=PATH, line=2), more_optimizers=(Place(path=PATH, line=3),))


def test_what_could_be_written_before_several_optimizers_is_said_of_each() -> None:
    outcome = rewritten(GAN, COMPILE, places=GAN_PLACES)
    assert outcome.statuses == ["done"]
    assert outcome.outcomes[0].line == (
        f"{PATH}:2: before this statement: critic.compile()\nbefore {PATH}:3: policy.compile()"
    )
    text = GAN.replace("critic.parameters()", "made()")
    assert rewritten(text, COMPILE, places=GAN_PLACES).hand_step == (
        f"{PATH}:2: before this statement: ….compile(), where … is your model\n"
        f"before {PATH}:3: policy.compile()"
    )
