import json
import math
import os

import pytest

from autotune.errors import UsageError
from autotune.outputs.document import (
    from_document,
    read_document,
    to_document,
    write_document,
)
from tests import builders

RESULTS = [
    builders.search_result,
    builders.no_gain_result,
    builders.profile_result,
    builders.failed_result,
]


@pytest.mark.parametrize("build", RESULTS, ids=lambda build: build.__name__)
def test_a_result_comes_back_from_its_file(build, tmp_path):
    result = build()

    write_document(result, tmp_path / "out" / "result.json")

    assert read_document(tmp_path / "out" / "result.json") == result


def test_the_document_has_the_keys_that_others_rely_on():
    document = to_document(builders.search_result())

    assert document["schema"] == 1
    assert {
        "target",
        "machine",
        "profile",
        "diagnosis",
        "space",
        "trials",
        "verdict",
        "cost",
    } <= set(document)
    assert {
        "samples_per_second",
        "step_seconds",
        "phases",
        "ceilings",
        "memory",
        "overhead",
    } <= set(document["profile"])
    assert {"bottleneck", "severity", "evidence", "max_gain"} <= set(document["diagnosis"][0])
    assert {"choices", "skipped"} <= set(document["space"])
    assert {"knob", "reason"} <= set(document["space"]["skipped"][0])
    for trial in document["trials"]:
        assert {"config", "status", "samples_per_second", "interval", "seconds", "reason"} <= set(
            trial
        )
    verdict = document["verdict"]
    assert {"outcome", "config", "delivered", "parity"} <= set(verdict)
    assert {"baseline_samples_per_second", "tuned_samples_per_second"} <= set(verdict)
    assert {"estimate", "low", "high"} <= set(verdict["speedup"])
    assert {"same_training", "max_relative_loss_difference", "steps"} <= set(verdict["parity"])
    assert {"seconds", "trials", "break_even_steps"} <= set(document["cost"])


def test_a_trial_is_measured_or_says_how_it_failed():
    trials = to_document(builders.search_result())["trials"]

    assert [trial["status"] for trial in trials[:5]] == ["measured"] * 4 + ["hung"]
    assert trials[0]["config"] == {}
    assert trials[4]["samples_per_second"] is None
    assert trials[4]["interval"] is None
    assert trials[4]["reason"].startswith("No step within")


def test_a_profile_alone_has_no_space_and_no_verdict():
    document = to_document(builders.profile_result())

    assert document["space"] is None
    assert document["verdict"] is None
    assert document["trials"] == []


def test_what_is_not_finite_is_null_in_the_file(tmp_path):
    path = tmp_path / "result.json"
    parity = builders.parity(baseline_losses=(1.0, math.nan), tuned_losses=(math.inf, 1.0))

    write_document(builders.search_result(verdict=builders.verdict(parity=parity)), path)

    losses = json.loads(path.read_text())["verdict"]["parity"]
    assert losses["baseline_losses"] == [1.0, None]
    assert losses["tuned_losses"] == [None, 1.0]


def test_a_list_of_numbers_is_one_line(tmp_path):
    write_document(builders.search_result(), tmp_path / "result.json")

    text = (tmp_path / "result.json").read_text()
    assert '"interval": [174.9, 186.1],' in text


def test_text_that_looks_like_a_list_stays_as_it_is(tmp_path):
    result = builders.search_result(patch="[\n  1,\n  2\n]")

    write_document(result, tmp_path / "result.json")

    assert read_document(tmp_path / "result.json") == result


def test_a_file_name_that_is_not_unicode_survives(tmp_path):
    result = builders.search_result(target=builders.target(path="/data/\udcff.py"))

    write_document(result, tmp_path / "result.json")

    assert read_document(tmp_path / "result.json") == result


def test_keys_of_a_later_version_are_left_out():
    document = to_document(builders.search_result())
    document["colour"] = document["profile"]["colour"] = document["trials"][0]["colour"] = "green"

    assert from_document(document) == builders.search_result()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("schema"), "it has no schema"),
        (lambda d: d.update(schema=2), "This result has schema 2; this autotune reads schema 1."),
        (lambda d: d.pop("machine"), "The result is damaged: machine is missing."),
        (lambda d: d.update(trials=None), "The result is damaged: trials is None, not list."),
        (
            lambda d: d["trials"][3].update(interval=[1.0]),
            "The result is damaged: trials[3].interval has 1 items, not 2.",
        ),
        (
            lambda d: d["edits"][0]["edit"].update(type="Spell"),
            "The result is damaged: edits[0].edit.type is 'Spell', which is no edit.",
        ),
        (
            lambda d: d["verdict"].update(outcome=7),
            "The result is damaged: verdict.outcome is 7, not str.",
        ),
    ],
)
def test_a_damaged_document_is_named_at_the_first_wrong_place(change, message):
    document = to_document(builders.search_result())
    change(document)

    with pytest.raises(UsageError) as caught:
        from_document(document)

    assert message in caught.value.message
    assert caught.value.advice


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_file_that_holds_no_result_is_refused_by_its_name(text, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(text)

    with pytest.raises(UsageError) as caught:
        read_document(path)

    assert caught.value.message.startswith(str(path))


def test_a_missing_file_says_what_to_run(tmp_path):
    with pytest.raises(UsageError, match="does not exist") as caught:
        read_document(tmp_path / "result.json")

    assert "autotune search" in caught.value.advice


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "train.py").write_text("")

    with pytest.raises(UsageError, match=r"train\.py is a file") as caught:
        read_document(tmp_path / "train.py" / "result.json")

    assert "folder" in caught.value.advice


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "result.json")

    with pytest.raises(UsageError, match="is no regular file"):
        read_document(tmp_path / "result.json")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    write_document(builders.search_result(), path)
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written"):
        write_document(builders.search_result(), tmp_path / "file" / "result.json")

    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "result.json"]
