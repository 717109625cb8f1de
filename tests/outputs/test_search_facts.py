"""How a search went is kept in `result.json`, and its report says it."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.measurement.measurement import Measurement
from autotune.outputs.document import from_document, to_document
from autotune.outputs.energy import least, least_in_words
from autotune.outputs.report import render
from autotune.result import Rematch, Result, SearchFacts
from autotune.trials.front import ENERGY, front
from autotune.trials.trial import Ending
from autotune.verdict import Ratio
from tests import builders


def searched() -> Result:
    facts = SearchFacts(
        key="photos-1-2",
        sampler="profile",
        patience_seconds=3.0,
        memory_limit_bytes=300 * builders.MIB,
        ending=Ending(why="patience", reason="Of what is left, nothing is worth its time."),
        rematch=Rematch(trials=(7, 5), ratio=Ratio(estimate=0.9, low=0.8, high=1.0), taken=7),
        front=front(builders.trials()),
    )
    return builders.search_result(search=facts)


def test_how_a_search_went_survives_its_document() -> None:
    assert from_document(to_document(searched())) == searched()
    assert to_document(searched())["search"]["key"] == "photos-1-2"


def test_a_result_from_before_there_were_such_facts_is_read() -> None:
    document = to_document(searched())
    del document["search"]
    assert from_document(document).search is None


def test_the_page_says_why_the_search_ended_and_sets_speed_against_memory() -> None:
    page = render(searched())
    assert "Of what is left, nothing is worth its time." in page
    assert "Speed against memory" in page and "(over the limit)" in page
    assert "Speed against memory" not in render(builders.search_result())


def thrifty(**changes: Any) -> Result:
    """A search that set energy against speed, on a device that reports it."""
    trials = builders.energies()
    facts = builders.search_facts(energy=True, front=front(trials, (ENERGY,)))
    return builders.search_result(trials=trials, search=facts, **changes)


def test_energy_survives_the_document_and_is_unknown_in_one_from_before() -> None:
    document = to_document(thrifty())
    assert from_document(document) == thrifty()
    assert document["trials"][5]["joules_per_sample"] == 1.2
    for trial in document["trials"]:
        trial.pop("joules_per_sample", None)
    assert all(
        getattr(trial.outcome, "joules_per_sample", None) is None
        for trial in from_document(document).trials
    )


def test_the_page_sets_speed_against_energy_where_that_was_asked_for() -> None:
    page = render(thrifty())
    assert "Speed against energy, the Pareto front: " in page and "Peak memory" not in page
    assert page.count('class="number">J/sample</th>') == 2
    assert (
        "Least energy: trial 5 (num_workers 4, threads 1, persistent_workers on): 1.20 J a sample"
        " at 322 samples/s, where the program as it is takes 2.30 J a sample; the least of what"
        " is no slower, by one short run each." in page
    )


def test_the_page_has_the_energy_of_trials_where_it_is_known_and_no_more_was_asked_for() -> None:
    asked_for_nothing = replace(thrifty(), search=builders.search_facts())
    page = render(asked_for_nothing)
    assert page.count('class="number">J/sample</th>') == 1
    assert "Speed against" not in page and "Least energy" not in page
    assert "J/sample</th>" not in render(builders.search_result())


def test_energy_and_memory_are_set_against_speed_together() -> None:
    limit = 300 * builders.MIB
    facts = builders.search_facts(energy=True, memory_limit_bytes=limit, front=(5, 9))
    page = render(replace(thrifty(), search=facts))
    assert "Speed against energy and memory, at most 300 MiB, the Pareto front: " in page
    assert page.count("(over the limit)") == 2


def test_what_was_forbidden_or_trains_otherwise_is_not_what_takes_the_least() -> None:
    found = thrifty()
    assert found.space is not None and found.search is not None
    few = {**found.space.choices, "num_workers": (0, 2)}
    forbidden = replace(found, space=replace(found.space, choices=few))
    tight = replace(found, search=replace(found.search, memory_limit_bytes=builders.MIB))
    otherwise = builders.verdict(
        outcome="no_gain", parity=builders.parity(same_training=False), suspect="num_workers"
    )
    passed = builders.verdict(
        passed_over="num_workers 4, threads 1, persistent_workers on: the losses part",
        suspect="persistent_workers",
    )
    numbers = [
        each.number if (each := least(changed)) else None
        for changed in (
            *(found, forbidden, tight),
            *(replace(found, verdict=verdict) for verdict in (otherwise, passed)),
        )
    ]
    assert numbers == [5, 3, None, 0, 7]


def test_what_may_need_more_than_the_limit_is_not_what_takes_the_least() -> None:
    unknown = tuple(
        replace(each, outcome=replace(each.outcome, peak_bytes=None))
        if isinstance(each.outcome, Measurement)
        else each
        for each in builders.energies()
    )
    facts = builders.search_facts(energy=True, memory_limit_bytes=builders.GIB)
    found = least(replace(thrifty(), trials=unknown, search=facts))
    assert found is not None and found.config == {}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "not known of any trial that may be chosen and was as fast as the program as it is"),
        (
            {0: 2.3, 1: 2.4},
            "the program as it is (2.30 J a sample): of the trials that may be chosen none",
        ),
        ({1: 2.4}, "trial 1 (num_workers 2): 2.40 J a sample at 180 samples/s; the least of"),
        ({9: 2.4}, "what is handed back, trial 9 (num_workers 4, threads 1"),
    ],
)
def test_the_least_energy_is_said_in_words(known: dict[int, float], said: str) -> None:
    trials = tuple(
        builders.trial(
            each.number,
            each.config,
            builders.measurement(180.4, joules_per_sample=known.get(each.number)),
        )
        for each in builders.trials()
    )
    assert said in least_in_words(replace(thrifty(), trials=trials))
    assert least_in_words(builders.search_result()) == ""
