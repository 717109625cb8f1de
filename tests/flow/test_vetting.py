"""Settings are held to their promise before they are searched."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.flow import sooner, vetting, vetting_workers, workers_by_text
from autotune.measurement.untimed.vetted import Vetted
from autotune.outputs.patch import Emission
from autotune.profiling.profile import Profile
from autotune.source.edits import Place
from autotune.source.program import Program, parsed
from autotune.source.refusals.settings import Setting
from autotune.trials.space import BY_TEXT, Space
from autotune.workload.found import Again, Apart
from autotune.workload.program.target import OBJECTS, SCRIPT
from tests import builders
from tests.flow.device import Device

REFUSED = next(edit for edit in builders.edits() if edit.status == "refused")
TRIALS_END = 1e9
SPACE = Space(choices={"micro_batches": (1, 2, 4)}, own={"micro_batches": 1}, skipped=())


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch, device: Device) -> list[Any]:
    """The rehearsals that were run; all of them find that parts add up."""
    runs: list[Any] = []

    def rehearse(start: Any, seen: Any, values: tuple[int, ...]) -> Vetted:
        assert device.is_held
        runs.append(values)
        return Vetted(values=values)

    monkeypatch.setattr(vetting, "vet_micro_batches", rehearse)
    return runs


def vetted(
    monkeypatch: pytest.MonkeyPatch,
    device: Device,
    kind: str,
    emission: Emission | Callable[..., Emission],
    space: Space = SPACE,
    profiled: Profile | None = None,
) -> Space:
    context: Any = SimpleNamespace(
        target=SimpleNamespace(kind=kind, path=""),
        deadline=float("inf"),
        trials_deadline=TRIALS_END,
        seconds=lambda share, limits: limits[0],
        device=device,
        listener=SimpleNamespace(stage=lambda _: None),
        bench=SimpleNamespace(start=lambda _: None),
    )
    emit = (lambda *_: emission) if isinstance(emission, Emission) else emission
    monkeypatch.setattr(vetting, "emit", emit)
    return vetting.vet(context, profiled or builders.profile(), space)


def test_a_loop_that_the_patch_cannot_divide_is_not_divided_at_run_time_either(
    monkeypatch: pytest.MonkeyPatch, device: Device, rehearsed: list[Any]
) -> None:
    space = vetted(monkeypatch, device, SCRIPT, Emission(edits=(REFUSED,)))
    assert "micro_batches" not in space.choices
    said = f"the source does not show that parts of a batch would train the same: {REFUSED.reason}"
    assert space.skipped[-1].reason == said
    assert not rehearsed


@pytest.mark.parametrize("name", ["prefetch_to_device", "flush_denormal"])
@pytest.mark.parametrize(("forbidden", "tried"), [(True, False), (False, True)])
def test_what_the_source_forbids_is_not_tried_at_run_time_either(
    monkeypatch: pytest.MonkeyPatch, device: Device, forbidden: bool, tried: bool, name: str
) -> None:
    monkeypatch.setattr(vetting, "vet_flushing", lambda _, values, **__: Vetted(values=values))
    refused = Emission(edits=(replace(REFUSED, knob=name, forbidden=forbidden),))
    switch = Space(choices={name: (False, True)}, own={name: False}, skipped=())
    space = vetted(monkeypatch, device, SCRIPT, refused, switch)
    assert (name in space.choices) is tried
    assert tried or space.skipped[-1].reason == f"{REFUSED.reason} {BY_TEXT}"


@pytest.mark.parametrize(
    ("forbidden", "left"),
    [(True, ("fp32", "tf32", "fp16")), (False, ("fp32", "tf32", "bf16", "fp16"))],
)
def test_a_format_that_numpy_does_not_know_is_not_tried_at_run_time_either(
    monkeypatch: pytest.MonkeyPatch, device: Device, forbidden: bool, left: tuple[str, ...]
) -> None:
    monkeypatch.setattr(vetting, "vet_formats", lambda _, values, *__, **___: Vetted(values=values))
    refused = Emission(edits=(replace(REFUSED, knob="precision", forbidden=forbidden),))
    values = ("fp32", "tf32", "bf16", "fp16")
    formats = Space(choices={"precision": values}, own={"precision": "fp32"}, skipped=())

    def emitted(_: Any, config: dict[str, str], seen: Any) -> Emission:
        return refused if config == {"precision": "bf16"} else Emission()

    space = vetted(monkeypatch, device, SCRIPT, emitted, formats)
    assert space.choices["precision"] == left
    assert len(left) == len(values) or space.skipped[-1].reason.startswith(REFUSED.reason)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("It steps by hand.", f"foreach: {REFUSED.reason}; fused: It steps by hand. {BY_TEXT}"),
        (REFUSED.reason, f"{REFUSED.reason} {BY_TEXT}"),
    ],
)
def test_values_that_the_source_forbids_for_reasons_of_their_own_have_each_its_own(
    monkeypatch: pytest.MonkeyPatch, device: Device, second: str, said: str
) -> None:
    reasons = {"foreach": REFUSED.reason, "fused": second}
    ways = Space(
        choices={"optimizer": ("default", *reasons)}, own={"optimizer": "default"}, skipped=()
    )

    def emitted(_: Any, config: dict[str, str], seen: Any) -> Emission:
        reason = reasons[config["optimizer"]]
        edit = replace(REFUSED, knob="optimizer", reason=reason, forbidden=True)
        return Emission(edits=(edit,))

    space = vetted(monkeypatch, device, SCRIPT, emitted, ways)
    assert "optimizer" not in space.choices
    assert space.skipped[-1].reason == said


@pytest.mark.parametrize(("kind", "looked"), [(SCRIPT, True), (OBJECTS, False)])
def test_formats_are_looked_at_unless_a_program_is_given_as_objects(
    monkeypatch: pytest.MonkeyPatch, device: Device, kind: str, looked: bool
) -> None:
    def vet(
        start: Any, values: tuple[str, ...], seconds: float, *, trials_deadline: float
    ) -> Vetted:
        assert device.is_held and trials_deadline == TRIALS_END
        return Vetted(values=values[:1], reason="rounded")

    monkeypatch.setattr(vetting, "vet_formats", vet)
    formats = Space(choices={"precision": ("fp32", "bf16")}, own={"precision": "fp32"}, skipped=())
    space = vetted(monkeypatch, device, kind, Emission(), formats)
    assert ("precision" not in space.choices) is looked


def test_one_that_it_can_divide_is_rehearsed(
    monkeypatch: pytest.MonkeyPatch, device: Device, rehearsed: list[Any]
) -> None:
    assert vetted(monkeypatch, device, SCRIPT, Emission()).choices == SPACE.choices
    assert rehearsed == [(1, 2, 4)]


def test_objects_have_no_source_and_a_loop_of_ours(
    monkeypatch: pytest.MonkeyPatch, device: Device, rehearsed: list[Any]
) -> None:
    assert vetted(monkeypatch, device, OBJECTS, Emission(edits=(REFUSED,))).choices == SPACE.choices
    assert rehearsed


def test_workers_are_compared_while_nobody_else_has_the_device(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    def compare(start: Any, target: Any, loader: Any, values: tuple[int, ...], **_: Any) -> Vetted:
        assert device.is_held
        return Vetted(values=values[:1], reason="other data")

    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", compare)
    space = Space(choices={"num_workers": (0, 2)}, own={"num_workers": 0}, skipped=())
    assert not vetted(monkeypatch, device, SCRIPT, Emission(), space).choices
    assert not device.is_held


TOLD = """\
for epoch in range(9):
    {epoch}
    for x, y in loader:
        loss_of(x, y).backward()
        {step}
"""


DATASET, SAMPLER = "dataset.config['scale']", "sampler.config['scale']"


@pytest.mark.parametrize(
    ("path", "epoch", "step", "left"),
    [
        (DATASET, "pass", "pass", {"num_workers", "persistent_workers"}),
        (DATASET, "config['scale'] = epoch", "pass", {"num_workers"}),
        (DATASET, "pass", "config['scale'] *= 0.5", set()),
        # It chooses where the training is, but ahead of it.
        (SAMPLER, "config['scale'] = epoch", "pass", {"num_workers", "persistent_workers"}),
        (SAMPLER, "pass", "config['scale'] *= 0.5", set()),
    ],
)
def test_workers_are_not_offered_where_they_would_not_see_what_the_training_sets(
    monkeypatch: pytest.MonkeyPatch,
    device: Device,
    path: str,
    epoch: str,
    step: str,
    left: set[str],
) -> None:
    def compare(*_: Any, **__: Any) -> Vetted:
        scale = Setting(path=path, name="scale")
        return Vetted(values=(0, 2), settings=(scale,))

    text, seen = TOLD.format(epoch=epoch, step=step), builders.seen()
    places = replace(seen.places, backward=Place(path="train.py", line=4))
    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", compare)
    monkeypatch.setattr(vetting_workers, "why_not_living_on", lambda *_, **__: "")
    monkeypatch.setattr(vetting_workers, "why_not_trained", lambda *_, **__: "")
    program = parsed({"train.py": text}, places, "train.py")
    monkeypatch.setattr(vetting_workers, "whole_program", lambda *_: program)
    monkeypatch.setattr(workers_by_text, "whole_program", lambda *_: program)
    space = Space(
        choices={"num_workers": (0, 2), "persistent_workers": (False, True)},
        own={"num_workers": 0, "persistent_workers": False},
        skipped=(),
    )
    profiled = builders.profile(seen=replace(seen, places=places))
    found = vetted(monkeypatch, device, SCRIPT, Emission(), space, profiled)
    assert found.choices.keys() == left
    said = [each.reason for each in found.skipped if "by which samples are" in each.reason]
    assert len(said) == (len(left) < 2) and all(f"`{path}`" in at for at in said)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("if epoch % 300 == 0: mend()", "if epoch % max(1, min(300, 2)) == 0: mend()"),
        ("if epoch >= 300: mend()", "if epoch >= min(300, 2): mend()"),
        ("mend()", ""),
    ],
)
def test_trainings_are_compared_with_what_they_do_late_sooner(
    monkeypatch: pytest.MonkeyPatch, device: Device, step: str, text: str
) -> None:
    given: list[Any] = []

    def compare(*_: Any, **options: Any) -> str:
        given.append(options["sooner"])
        return ""

    places = replace(builders.seen().places, backward=Place(path="train.py", line=4))
    program = parsed({"train.py": TOLD.format(epoch="pass", step=step)}, places, "train.py")
    same = Vetted(values=(0, 2))
    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", lambda *_, **__: same)
    monkeypatch.setattr(vetting_workers, "why_not_trained", compare)
    monkeypatch.setattr(vetting_workers, "whole_program", lambda *_: program)
    monkeypatch.setattr(workers_by_text, "whole_program", lambda *_: program)
    monkeypatch.setattr(sooner, "whole_program", lambda *_: program)
    space = Space(choices={"num_workers": (0, 2)}, own={"num_workers": 0}, skipped=())
    profiled = builders.profile(step_seconds=1 / 24, startup_seconds=1.0, compiling_seconds=0.0)
    vetted(monkeypatch, device, SCRIPT, Emission(), space, profiled)
    (found,) = given
    assert found.keywords["epoch_batches"] == 8
    sources = found.keywords["sources"]
    assert sources == ({"train.py": TOLD.format(epoch="pass", step=text)} if text else {})


def with_workers(
    monkeypatch: pytest.MonkeyPatch, device: Device, program: Program, delivered: Vetted
) -> Space:
    """What is left of two workers for `program`, whose training is the same with them."""
    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", lambda *_, **__: delivered)
    monkeypatch.setattr(vetting_workers, "why_not_trained", lambda *_, **__: "")
    monkeypatch.setattr(vetting_workers, "whole_program", lambda *_: program)
    monkeypatch.setattr(workers_by_text, "whole_program", lambda *_: program)
    monkeypatch.setattr(sooner, "whole_program", lambda *_: program)
    space = Space(choices={"num_workers": (0, 2)}, own={"num_workers": 0}, skipped=())
    return vetted(monkeypatch, device, SCRIPT, Emission(), space)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "batch.Note.hard",
            "batches hold what the dataset keeps, and the training may set `Note.hard`",
        ),
        ("sampler.hard", "by which samples are chosen: workers read ahead of it"),
        ("dataset.notes[0].hard", "by which samples are made: workers read from copies of it"),
    ],
)
def test_what_the_training_sets_is_said_by_where_it_lies(
    monkeypatch: pytest.MonkeyPatch, device: Device, path: str, said: str
) -> None:
    setting = Setting(path=path, name="hard", kinds=("Note",))
    same = Vetted(values=(0, 2), settings=(setting,))
    text = TOLD.format(epoch="pass", step="note.hard = True")
    places = replace(builders.seen().places, backward=Place(path="train.py", line=4))
    program = parsed({"train.py": text}, places, "train.py")
    found = with_workers(monkeypatch, device, program, same)
    assert "num_workers" not in found.choices
    assert said in " ".join(each.reason for each in found.skipped)


CAUGHT = """\
batches = iter(loader)
while True:
    try:
        x, y = next(batches)
    except {kind}:
        continue
    loss_of(x, y).backward()
"""


@pytest.mark.parametrize("kind", ["ValueError", "KeyError"])
def test_workers_are_not_offered_where_the_training_goes_by_what_samples_raise(
    monkeypatch: pytest.MonkeyPatch, device: Device, kind: str
) -> None:
    text = CAUGHT.format(kind=kind)
    places = replace(builders.seen().places, backward=Place(path="train.py", line=7))
    program = parsed({"train.py": text}, places, "train.py")
    same = Vetted(values=(0, 2))
    found = with_workers(monkeypatch, device, program, same)
    is_lost = kind == "ValueError"  # as json.JSONDecodeError is
    assert ("num_workers" not in found.choices) is is_lost
    assert ("caught at train.py:5" in " ".join(each.reason for each in found.skipped)) is is_lost


REWRITTEN = """\
class Rows:
    def __getitem__(self, at):
        return noisy(self.rows[at], json.load(open("level.json")))

for x, y in loader:
    loss_of(x, y).backward()
    json.dump(level, open("{name}", "w"))
"""


@pytest.mark.parametrize("name", ["level.json", "log.json"])
def test_workers_are_not_offered_where_the_training_writes_what_samples_are_made_from(
    monkeypatch: pytest.MonkeyPatch, device: Device, name: str
) -> None:
    places = replace(builders.seen().places, backward=Place(path="train.py", line=6))
    program = parsed({"train.py": REWRITTEN.format(name=name)}, places, "train.py")
    found = with_workers(monkeypatch, device, program, Vetted(values=(0, 2)))
    said = "the training writes level.json (train.py:7), and what makes or chooses samples "
    said += "reads something of that name (train.py:3)"
    is_read = name == "level.json"
    assert ("num_workers" not in found.choices) is is_read
    assert any(each.reason.startswith(said) for each in found.skipped) is is_read


@pytest.mark.parametrize(
    ("startup_seconds", "differs", "left", "said"),
    [
        (1.0, (), (0, 2, 4), []),
        (1.0, (4,), (0, 2), ["with 4 workers, another; what is left to try is 0"]),
        (1.0, (0,), (2, 4), ["with no worker, another; what is left to try is 4"]),
        (60.0, (0, 4), (0, 2, 4), []),
    ],
)
def test_a_training_with_workers_of_its_own_is_compared_with_more_and_with_none(
    monkeypatch: pytest.MonkeyPatch,
    device: Device,
    startup_seconds: float,
    differs: tuple[int, ...],
    left: tuple[int, ...],
    said: list[str],
) -> None:
    def compare(_: Any, workers: int, **__: Any) -> str:
        return "another" if workers in differs else ""

    same = Vetted(values=(0, 2, 4))
    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", lambda *_, **__: same)
    monkeypatch.setattr(vetting_workers, "why_not_trained", compare)
    seen = builders.seen()
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, num_workers=2))
    profiled = builders.profile(seen=seen, startup_seconds=startup_seconds, compiling_seconds=0.0)
    space = Space(choices={"num_workers": (0, 2, 4)}, own={"num_workers": 2}, skipped=())
    found = vetted(monkeypatch, device, SCRIPT, Emission(), space, profiled)
    assert found.choices["num_workers"] == left
    assert [each.reason for each in found.skipped] == said
    told = [doubt.name for doubt in found.doubts.values()]
    assert told == (["training not compared"] if startup_seconds > 2 else [])


@pytest.mark.parametrize("steady", [False, True])
def test_workers_of_its_own_live_on_only_where_the_training_stays_the_same(
    monkeypatch: pytest.MonkeyPatch, device: Device, steady: bool
) -> None:
    same = Vetted(values=(2,), steady=steady)
    monkeypatch.setattr(vetting_workers.vetting, "vet_workers", lambda *_, **__: same)
    monkeypatch.setattr(vetting_workers, "why_not_living_on", lambda *_, **__: "another")
    seen = builders.seen()
    assert seen.loader is not None
    seen = replace(seen, loader=replace(seen.loader, num_workers=2))
    choices = {"persistent_workers": (False, True)}
    space = Space(choices=choices, own={"persistent_workers": False}, skipped=())
    found = vetted(monkeypatch, device, SCRIPT, Emission(), space, builders.profile(seen=seen))
    assert "persistent_workers" not in found.choices


def test_parts_are_held_to_the_rounding_that_the_device_computes_with(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    asked: list[str] = []

    def rehearse(start: Any, precision: str, values: tuple[int, ...]) -> Vetted:
        asked.append(precision)
        return Vetted(values=values)

    monkeypatch.setattr(vetting, "vet_micro_batches", rehearse)
    ampere = builders.machine(device="cuda", capability=(8, 0))
    for machine in (ampere, builders.machine()):  # the network convolves
        vetted(monkeypatch, device, SCRIPT, Emission(), profiled=builders.profile(machine=machine))
    assert asked == ["tf32", "fp32"]


def test_freed_gradients_are_looked_at_alone_in_the_time_that_the_budget_has(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    started: list[Any] = []

    def look(
        start: Any, values: tuple[bool, ...], own: bool, *, step_seconds: float, **_: Any
    ) -> Vetted:
        assert device.is_held
        started.append(step_seconds)
        return Vetted(values=(own,), reason="no gradient in some steps")

    monkeypatch.setattr(vetting, "vet_freed_gradients", look)
    space = Space(choices={"set_to_none": (False, True)}, own={"set_to_none": False}, skipped=())
    found = vetted(monkeypatch, device, SCRIPT, Emission(), space)
    assert not found.choices
    assert found.skipped[-1].refused and found.skipped[-1].knob == "set_to_none"
    assert started == [builders.profile().step_seconds]


def test_what_the_profile_found_to_be_another_training_is_left_out(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    far = Apart(apart=0.9, by_chance=0.01)
    profiled = replace(
        builders.profile(), again=Again(channels_last=far, formats={"bfloat16": far})
    )
    space = Space(
        choices={"channels_last": (False, True), "precision": ("fp32", "bf16", "fp16")},
        own={"channels_last": False, "precision": "fp32"},
        skipped=(),
    )
    left = vetted(monkeypatch, device, OBJECTS, Emission(), space, profiled)
    assert left.choices == {"precision": ("fp32", "fp16")}
    said = {each.knob: each.reason for each in left.skipped if each.refused}
    assert said["channels_last"].endswith("code of its own may go by the order in memory")
    assert said["precision"].endswith("part of it may need float32; what is left to try is fp16")
