"""Workers are refused where a training keeps what they have sent from epoch to epoch."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.kept_batches import kept_for_good

TEXT = """\
history, seen = [], {}
for epoch in range(25):
    ANEW
    for batch in loader:
        images, labels, indices = batch
        loss = loss_of(net(images), labels)
        loss.backward()
        optimizer.step()
        KEPT
"""


def place(kept: str, anew: str = "pass") -> str:
    """Where a program with these statements keeps tensors of its batches for good."""
    text = TEXT.replace("KEPT", kept).replace("ANEW", anew)
    places = Places(backward=Place(path="/p/train.py", line=7))
    return kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py"))


@pytest.mark.parametrize(
    "kept",
    [
        "history.append(indices)",
        "history.append((indices, loss.item()))",
        "history.append(batch[2])",
        "history += [labels.detach()]",
        "history.extend(labels)",
        "seen[epoch] = indices",
        "rows = indices\n        history.append({'rows': rows})",
    ],
)
def test_kept(kept: str) -> None:
    assert place(kept) == f"train.py:{9 + kept.count(chr(10))}"
    assert place(kept, "history = []; seen = {}") == ""
    assert place(kept, "history.clear(); seen.clear()") == ""


@pytest.mark.parametrize(
    "kept",
    [
        "history.append(indices.clone())",
        "history.append(indices.tolist())",
        "history.append(loss.item())",
        "history.append(len(indices))",
        "history.append(indices.numpy().copy())",
        "labels = labels + 1",
        "table[indices.numpy()] = labels.numpy()",
        "table[epoch : epoch + 8] = labels",
        "table[:8, epoch] = labels",
        "history.extend(labels.cpu().numpy())",
    ],
)
def test_copies_and_numbers(kept: str) -> None:
    assert place(kept) == ""


def test_the_number_of_a_batch_is_none_of_its_tensors() -> None:
    text = TEXT.replace("in loader", "in enumerate(loader)").replace("ANEW", "pass")
    text = text.replace("for batch", "for step, batch").replace("KEPT", "history.append(step)")
    places = Places(backward=Place(path="/p/train.py", line=7))
    assert kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py")) == ""
    kept = text.replace("append(step)", "append(labels)")
    assert kept_for_good(parsed({"/p/train.py": kept}, places, "/p/train.py")) != ""


@pytest.mark.parametrize(
    ("copy", "kept", "harmful"),
    [
        ("images, labels = images.to(device), labels.cuda()", "labels", False),
        ("images, labels = images.to(device), labels.cuda()", "indices", True),
        ("images, labels = images.to(device), labels", "labels", True),
        ("labels = labels.to(device).long()", "labels.detach()", False),
        ("rows = labels; labels = labels.to(device)", "rows", True),
        ("labels = labels.to(device); rows = labels", "rows", False),
        ("batch = [each.to(device) for each in batch]", "batch[1]", False),
        ("both = (labels, labels.to(device))", "both", True),
        ("if epoch: labels = labels.to(device)", "labels", True),
        ("history.append(labels); labels = labels.cuda()", "loss.item()", True),
        ("images, labels = images.to(device), labels.to(torch.int64)", "labels", True),
        ("images, labels = images.to(device), labels.to(dtype=kind)", "labels", True),
        ("labels = labels.to(device, torch.int64)", "labels", False),
        ("labels = labels.to(device=device, dtype=torch.int64)", "labels", False),
        ("batch = {k: v.to(device) for k, v in batch.items()}", "batch['id']", False),
        (
            "batch = {k: v.to(device) if k != 'id' else v for k, v in batch.items()}",
            "batch['id']",
            True,
        ),
        ("batch = {'x': images.to(device), 'y': labels.to(device)}", "batch['y']", False),
        ("batch = {'x': images.to(device), 'y': labels}", "batch['y']", True),
        ("images, labels = (each.to(device) for each in batch[:2])", "labels", False),
        ("batch = tuple(each.to(device) for each in batch)", "batch[1]", False),
        ("batch = batch.to(device)", "batch.y", False),
        ("labels = batch.to(device)['y'].squeeze()", "labels", False),
        ("batch = batch._replace(x=batch.x.to(device))", "batch.y", True),
        ("batch = dict(batch, x=batch['x'].to(device))", "batch['y']", True),
        ("labels = labels.cuda(); labels = batch[1]", "labels", True),
        ("labels = labels.cuda(); labels = next(other)", "labels", True),
        ("labels = labels.cuda(); labels = labels.squeeze()", "labels", False),
        ("labels = labels.cuda(); labels = labels + 1", "labels", False),
    ],
)
def test_a_copy_on_a_device_is_another_tensor(copy: str, kept: str, harmful: bool) -> None:
    text = TEXT.replace("loss = loss_of", f"{copy}\n        loss = loss_of")
    text = text.replace("ANEW", "pass").replace("KEPT", f"history.append({kept})")
    for line, found in ((6, harmful), (2, True)):  # on a CPU `.to(device)` is the tensor itself
        copied = (Place(path="/p/train.py", line=line),)
        places = Places(backward=Place(path="/p/train.py", line=8), copies=copied)
        program = parsed({"/p/train.py": text}, places, "/p/train.py")
        assert (kept_for_good(program) != "") is found


CLASS = """class Scores:
    def update(self, rows, losses):
        STATEMENT

"""


@pytest.mark.parametrize(
    ("statement", "keeps"),
    [
        ("self.score[rows.numpy()] = losses.numpy()", False),
        ("self.score[rows] = losses", False),
        ("self.score[rows.numpy()] = losses + 1", False),
        ("self.seen.append(rows)", True),
    ],
)
def test_a_method_of_its_own_that_is_called_as_those_of_lists_are(
    statement: str, keeps: bool
) -> None:
    text = CLASS.replace("STATEMENT", statement) + TEXT
    text = text.replace("KEPT", "scores.update(indices, loss.detach())").replace("ANEW", "pass")
    places = Places(backward=Place(path="/p/train.py", line=11))
    found = kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py"))
    assert found == ("train.py:13" if keeps else "")


def test_a_metric_of_a_library_is_no_list() -> None:
    assert place("metric.update(labels, images)") == ""


def test_in_a_function_that_begins_its_list_anew() -> None:
    text = (
        "def fit():\n    history = []\n    for x, y in loader:\n"
        "        loss_of(net(x), y).backward()\n        history.append(y)\n    return history\n\n"
        "for epoch in range(3):\n    fit()\n"
    )
    places = Places(backward=Place(path="/p/train.py", line=4))
    assert kept_for_good(parsed({"/p/train.py": text}, places, "/p/train.py")) == ""
    kept = text.replace("    history = []\n", "").replace("fit():", "fit(history):")
    places = Places(backward=Place(path="/p/train.py", line=3))
    assert kept_for_good(parsed({"/p/train.py": kept}, places, "/p/train.py")) == "train.py:4"
