"""All edits together: on many habits of writing, in any order, twice."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.source.edits import (
    Accumulate,
    Autocast,
    Edit,
    LoaderArgument,
    ModelStatement,
    NonBlockingCopies,
    OptimizerArgument,
    Places,
    PrefetchToDevice,
    ProcessStatement,
    ZeroGradToNone,
)
from autotune.source.rewrite import by_hand, rewrite
from tests.source.programs import PATH, places_of, rewritten, source

EDITS: tuple[Edit, ...] = (
    LoaderArgument(name="num_workers", code="4"),
    LoaderArgument(name="pin_memory", code="True"),
    LoaderArgument(name="persistent_workers", code="True"),
    ProcessStatement(code="torch.set_num_threads(1)"),
    ProcessStatement(code='torch.set_float32_matmul_precision("high")'),
    ModelStatement(code="{model}.to(memory_format=torch.channels_last)"),
    ModelStatement(code="{model}.compile()"),
    OptimizerArgument(name="fused", code="True"),
    Accumulate(steps=2),
    Autocast(device_type="cuda", dtype="float16", scaled=True),
    NonBlockingCopies(),
    PrefetchToDevice(),
    ZeroGradToNone(),
)

OPTIONS = source(
    """
    import argparse
    import torch

    args = argparse.ArgumentParser().parse_args()
    torch.set_num_threads({threads})
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, fused={fused})
    for x, y in loader:
        optimizer.zero_grad(set_to_none={none})
        with torch.autocast("cuda", torch.bfloat16, enabled={amp}):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    """
)
GIVEN = {"threads": "4", "fused": "False", "none": "False", "amp": "False"}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("threads", ProcessStatement(code="torch.set_num_threads(1)")),
        ("fused", OptimizerArgument(name="fused", code="True")),
        ("none", ZeroGradToNone()),
        ("amp", Autocast(device_type="cuda", dtype="bfloat16")),
        ("amp", Autocast(device_type="cuda", dtype="float16", scaled=True)),
    ],
)
@pytest.mark.parametrize("option", ["args.it", "config['it']", "it", ""])
def test_an_option_that_is_not_read_any_more_is_said(name: str, edit: Edit, option: str) -> None:
    done = rewritten(OPTIONS.format(**{**GIVEN, name: option or GIVEN[name]}), edit)
    assert done.statuses == ["done"], done.reason
    assert done.reason == (f"it was {option}, which has no effect here any more" if option else "")


FLAT = source(
    '''
    """Trains."""
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(data, batch_size=64, shuffle=True)  # the data
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)  # the loss
            loss.backward()
            optimizer.step()
    '''
)

CLASS = source(
    """
    from torch import nn, optim
    import torch as th
    from torch.utils.data import DataLoader

    class Trainer:
    \tdef fit(self, epochs=3):
    \t\tself.model = Net()
    \t\tself.loader = DataLoader(
    \t\t\tself.data,
    \t\t\t64,
    \t\t\tTrue,
    \t\t)
    \t\toptimizer = optim.AdamW(
    \t\t\tself.model.parameters(), lr=1e-3
    \t\t)
    \t\tfor epoch in range(epochs):
    \t\t\tfor step, batch in enumerate(self.loader, 1):
    \t\t\t\tx = batch['x'].cuda()
    \t\t\t\ty = batch['y'].cuda()
    \t\t\t\tloss = nn.functional.mse_loss(
    \t\t\t\t\tself.model(x),
    \t\t\t\t\ty,  # the truth
    \t\t\t\t)
    \t\t\t\toptimizer.zero_grad(set_to_none=False)
    \t\t\t\tloss.backward()
    \t\t\t\t# never too far
    \t\t\t\tnn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
    \t\t\t\toptimizer.step()
    \t\t\t\tself.log(f'''
    loss {loss.item()}
    ''')

    if __name__ == '__main__':
    \tTrainer().fit()
    """
)

FUNCTIONS = source(
    """
    import argparse, torch
    import torch.nn.functional as F
    from torch import optim
    from torch.utils.data import DataLoader

    def train(model, loader, optimizer, device):
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            output = model(x)
            loss = F.nll_loss(output, y)
            loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(i, loss.item())

    def main():
        options = {'batch_size': args.batch_size}
        options.update(shuffle=True, drop_last=True)
        loader = DataLoader(data, **options)
        model = Net().to(device)
        optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
        for epoch in range(3):
            train(model, loader, optimizer, device)

    main()
    """
).replace("optim.Adadelta", "optim.SGD")

PROGRAMS = {
    "flat": FLAT,
    "class": CLASS,
    "functions": FUNCTIONS,
    "carriage returns": FLAT.replace("\n", "\r\n"),
    "no line end": FLAT.rstrip("\n"),
    "byte order mark": "\ufeff" + FLAT,
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_all_edits_together_leave_a_program_that_says_so_already(text: str) -> None:
    first = rewritten(text, *EDITS)
    ast.parse(first.text.removeprefix("\ufeff"))
    again = rewritten(first.text, *EDITS)
    assert again.text == first.text
    done = [status for status in first.statuses if status != "refused"]
    assert [at for at in again.statuses if at != "refused"] == ["already"] * len(done)


@pytest.mark.parametrize("name", ["flat", "class"])
def test_the_usual_loop_takes_every_edit(name: str) -> None:
    assert "refused" not in rewritten(PROGRAMS[name], *EDITS).statuses


def test_a_loader_of_which_too_little_is_known_is_not_given_micro_batches() -> None:
    outcome = rewritten(FUNCTIONS, *EDITS)
    refused = [at.edit for at in outcome.outcomes if at.status == "refused"]
    assert refused == [EDITS[8]]


@given(st.permutations(EDITS), st.integers(0, len(EDITS)), st.sampled_from(sorted(PROGRAMS)))
def test_any_edits_in_any_order_are_made_once(order: list[Edit], count: int, name: str) -> None:
    edits = order[:count]
    first = rewritten(PROGRAMS[name], *edits)
    again = rewritten(first.text, *edits)
    assert again.text == first.text
    assert "done" not in again.statuses


@given(st.permutations(EDITS), st.sampled_from(sorted(PROGRAMS)))
def test_comments_and_line_ends_survive(order: list[Edit], name: str) -> None:
    text = PROGRAMS[name]
    outcome = rewritten(text, *order).text
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert all(comment in outcome for comment in comments)
    assert outcome.count("\r") == (outcome.count("\n") if "\r" in text else 0)


def test_no_edits_change_nothing_not_even_what_is_not_python() -> None:
    sources = {PATH: "%magic\n", "/project/b.py": "\ufeffx = 1\r\n"}
    assert rewrite(sources, [], Places()).sources == sources


def test_each_edit_has_its_outcome_under_its_knob() -> None:
    requests = [("workers", EDITS[0]), ("none", EDITS[-1])]
    outcomes = rewrite({PATH: FLAT}, requests, places_of(FLAT)).outcomes
    assert [(at.knob, at.edit, at.status) for at in outcomes] == [
        ("workers", EDITS[0], "done"),
        ("none", EDITS[-1], "already"),
    ]


def test_an_edit_that_would_break_the_file_is_refused() -> None:
    broken = LoaderArgument(name="num_workers", code="(yield)")
    outcome = rewritten("loader = DataLoader(data, num_workers=1)\n", broken)
    assert outcome.statuses == ["refused"]
    assert "broken" in outcome.reason
    assert outcome.text == "loader = DataLoader(data, num_workers=1)\n"


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_person_would_write_says_where(edit: Edit) -> None:
    told = by_hand(edit, places_of(FLAT), PATH)
    assert told.startswith(f"{PATH}:") and len(told) > len(PATH) + 10
    line = told.removeprefix(f"{PATH}:").partition(":")[0]
    assert line.isdigit() or isinstance(edit, ProcessStatement)


def test_what_needs_workers_says_where_they_would_be() -> None:
    broken = LoaderArgument(name="num_workers", code="(yield)")
    edits = [broken, LoaderArgument(name="prefetch_factor", code="4")]
    outcome = rewritten("loader = DataLoader(data, num_workers=1)\n", *edits)
    assert outcome.statuses == ["refused", "refused"]
    assert outcome.outcomes[1].hand_step == (
        f"{PATH}:1: DataLoader(..., prefetch_factor=4), with the workers"
    )


def test_an_edit_that_would_break_the_file_is_left_to_a_person() -> None:
    broken = LoaderArgument(name="num_workers", code="(yield)")
    outcome = rewritten("loader = DataLoader(data, num_workers=1)\n", broken)
    assert outcome.hand_step == f"{PATH}:1: DataLoader(..., num_workers=(yield))"


@pytest.mark.parametrize("imported", [False, True])
def test_a_package_that_the_program_does_not_import_is_named(imported: bool) -> None:
    """And none of Python's own."""
    edits = [
        ProcessStatement(
            code="threadpoolctl.threadpool_limits(1)", imports=("import threadpoolctl  # its own",)
        ),
        ProcessStatement(code='os.environ["A"] = "1"', imports=("import os",)),
    ]
    text = f"import {'threadpoolctl' if imported else 'torch'}\nprint(1)\n"
    requests = [("blas_threads", edit) for edit in edits]
    done, other = rewrite({"/p/t.py": text}, requests, Places(), main="/p/t.py").outcomes
    said = "the program then needs the package threadpoolctl, which is installed here"
    assert (done.status, done.reason) == ("done", "" if imported else said)
    assert (other.status, other.reason) == ("done", "")
