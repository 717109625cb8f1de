"""What is written into a file has the indentation of the file."""

from dataclasses import replace

import pytest

from autotune.source.edits import (
    Accumulate,
    Autocast,
    Edit,
    LoaderArgument,
    ModelStatement,
    OptimizerArgument,
    OutputPlace,
    Places,
    PrefetchToDevice,
)
from tests.source.programs import PATH, places_of, rewritten, source

TRAINING = source(
    """
    import torch

    model = Net().to(device)
    loader = DataLoader(data, batch_size=32, shuffle=True,  # as ever
    )
    optimizer = torch.optim.Adam(model.parameters())
    if args.resume:
        optimizer.load_state_dict(torch.load(args.resume))
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            x = x.to(device)
            y = y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 100 == 0:
                print(loss.item())
                if args.dry_run:
                    break
    """
)
FUNCTION = "def twice(value):\n    if value:\n        return 2 * value\n    return value\n"
EDITS: dict[str, Edit] = {
    "loads": OptimizerArgument(name="fused", code="True"),
    "brackets": LoaderArgument(name="num_workers", code="2"),
    "a block": ModelStatement(
        code="for part in {model}.parameters():\n    if part.ndim:\n        twice(part)",
        function=FUNCTION,
    ),
    "a class": PrefetchToDevice(),
    "the loop": Accumulate(steps=2),
    "the loop of whole batches": Accumulate(steps=2, drop_last=True),
    "forward": Autocast(device_type="cpu", dtype="bfloat16"),
}


@pytest.mark.parametrize("unit", ["\t", "  ", "   ", "    "])
@pytest.mark.parametrize("name", EDITS)
def test_new_lines_are_indented_as_the_file_is(name: str, unit: str) -> None:
    edit, text = EDITS[name], TRAINING
    if name == "the loop of whole batches":
        text = text.replace("shuffle=True", "shuffle=True, drop_last=True")
    plain, own = (
        rewritten(each, edit, places=_places(each)) for each in (text, text.replace("    ", unit))
    )
    assert own.statuses == plain.statuses == ["done"], own.outcomes
    assert own.text == plain.text.replace("    ", unit)
    again = rewritten(own.text, edit, places=_places(own.text))
    assert again.statuses == ["already"], again.text


def _places(text: str) -> Places:
    seen = places_of(text)
    assert seen.forward is not None
    line = seen.forward.line
    return replace(seen, outputs=(OutputPlace(path=PATH, line=line, callee="model", tensors=True),))
