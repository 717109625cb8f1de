"""A fused optimizer, weights that are channels last and a checkpoint of neither: not all three."""

import pytest

from autotune.source.edits import Edit, ModelStatement, OptimizerArgument
from tests.source.programs import rewritten, source

FUSED = OptimizerArgument(name="fused", code="True")
REORDERED = ModelStatement(
    code="{model}.to(memory_format=torch.channels_last)", imports=("import torch",), reordered=True
)
PROGRAM = source(
    """
    import torch
    from torch import optim

    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3{given})
    LOADED
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    """
)
RESUMED = 'optimizer.load_state_dict(torch.load("last.pt"))'


@pytest.mark.parametrize(
    ("edits", "given", "loaded", "statuses"),
    [
        ([REORDERED, FUSED], "", RESUMED, ["done", "done"]),
        ([FUSED, REORDERED], "", RESUMED, ["done", "refused"]),
        ([REORDERED], ", fused=True", RESUMED, ["refused"]),
        ([REORDERED], ", fused=args.fused", RESUMED, ["refused"]),
        ([REORDERED], ", fused=False", RESUMED, ["done"]),
        ([REORDERED], "", RESUMED, ["done"]),
        ([FUSED], "", RESUMED, ["done"]),
        ([REORDERED, FUSED], "", "pass", ["done", "done"]),
    ],
)
def test_averages_in_the_usual_order_are_not_mixed_up(
    edits: list[Edit], given: str, loaded: str, statuses: list[str]
) -> None:
    text = PROGRAM.replace("LOADED", loaded).replace("{given}", given)
    done = rewritten(text, *edits)
    assert done.statuses == statuses
    told = '["param_groups"]' in done.text  # that it is fused
    assert told is (edits[0] == FUSED and loaded == RESUMED)
    refused = [each.reason for each in done.outcomes if each.status == "refused"]
    assert all(
        "is given a state (optimizer.load_state_dict), whose averages may lie" in each
        for each in refused
    )
