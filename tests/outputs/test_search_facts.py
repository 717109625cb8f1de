"""How a search went is kept in `result.json`, and its report says it."""

from autotune.outputs.document import from_document, to_document
from autotune.outputs.report import render
from autotune.result import Rematch, Result, SearchFacts
from autotune.trials.front import front
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
        rematch=Rematch(trials=(7, 5), ratio=Ratio(estimate=0.9, low=0.8, high=1.0)),
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
