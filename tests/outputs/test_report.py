import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from autotune.measurement.measurement import Failure
from autotune.outputs.document import from_document, to_document
from autotune.outputs.report import render, write_report
from autotune.profiling.profile import (
    FROM_MEMORY,
    PROCESSORS_TAKEN,
    SHORT_RUN,
    Ceiling,
    Doubt,
    Memory,
)
from autotune.source.edits import EditOutcome, ProcessStatement
from autotune.verdict import Delivered
from tests import builders

RESULTS = [
    builders.search_result,
    builders.no_gain_result,
    builders.profile_result,
    builders.failed_result,
    builders.large_result,
]
HOSTILE = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>{{ 7 * 7 }}"
# Words of closed lists: what they mean is ours, so that nobody else's text stands there.
CLOSED = {"bottleneck", "severity", "status", "type", "outcome", "kind", "device"}


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("</style>")[2]))


def with_every_text(data, text):
    """`data` with `text` instead of every text in it, keys of a closed list left alone."""
    if isinstance(data, dict):
        return {
            key: value if key in CLOSED else with_every_text(value, text)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [with_every_text(value, text) for value in data]
    return text if isinstance(data, str) else data


VOID = frozenset({"meta", "br", "img", "link", "hr"})


class Nesting(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.tags = set()
        self.attributes = set()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("build", RESULTS, ids=lambda build: build.__name__)
class TestEveryPage:
    def test_is_well_formed(self, build):
        nesting = Nesting()
        nesting.feed(render(build()))

        assert nesting.open == []

    def test_needs_nothing_from_anywhere(self, build):
        page = render(build())

        assert not re.search(r"https?:|url\(|@import|\bsrc=|\bhref=|<script|<link|<img", page)
        assert "default-src 'none'" in page

    def test_has_words_for_every_picture(self, build):
        page = render(build())

        pictures = re.findall(r'<svg[^>]*role="img"[^>]*>', page)
        assert pictures
        assert all("aria-label=" in picture for picture in pictures)

    def test_is_small(self, build):
        assert len(render(build()).encode()) < 150_000


def test_a_faster_program_is_said_first_with_its_interval():
    text = text_of(render(builders.search_result()))

    assert text.index("2.12×") < text.index("Before and after")
    assert "1.98× to 2.27×, 95 % interval" in text
    assert "180 → 382" in text
    assert "the same training" in text
    assert "the patched program itself, 1.96× to 2.25×" in text
    assert "paid back after 660 steps of training" in text


def test_sections_come_in_their_order():
    page = render(builders.search_result())

    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "Before and after",
        "What holds it back",
        "Where a step goes",
        "Ceilings",
        "Memory",
        "Every trial",
        "Searched and left out",
        "Is it the same training?",
        "The patch",
        "The machine",
        "How it was measured",
    ]


def test_a_profile_shows_only_what_it_has():
    page = render(builders.profile_result())

    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "What holds it back",
        "Where a step goes",
        "Ceilings",
        "Memory",
        "The machine",
        "How it was measured",
    ]
    assert "Waits for data 71\N{NO-BREAK SPACE}% of" in re.search(r"<h1>(.*?)</h1>", page)[1]


def test_other_programs_on_the_processors_are_said_before_the_headline():
    taken = Doubt(name=PROCESSORS_TAKEN, evidence="In 4 of 6 windows.", advice="")
    doubted = builders.profile(doubts=(taken,))

    profiled = text_of(render(builders.profile_result(profile=doubted)))
    searched = text_of(render(builders.search_result(profile=doubted)))

    caution = "Measured without all the processors that it could have used"
    assert profiled.index(caution) < profiled.index("Waits for data")
    assert searched.index("2.12×") < searched.index(caution) < searched.index("Waits for data")


def test_what_the_figures_leave_out_is_said():
    often = (builders.window(validations=3),)
    profile = builders.profile(validation_share=0.23, windows=often)
    text = text_of(render(builders.search_result(profile=profile)))

    assert text.index("Validation took 23 % of the observed run") < text.index("Before and after")


def test_a_ceiling_below_the_program_as_it_is_gains_nothing():
    ceiling = Ceiling(name="data", samples_per_second=146.0, max_gain=0.81)

    text = text_of(render(builders.profile_result(profile=builders.profile(ceilings=(ceiling,)))))

    assert "146 samples/s would gain nothing" in text


def test_the_first_trial_was_measured_in_the_profile():
    assert "— measured in the profile" in text_of(render(builders.search_result()))


def test_nothing_to_gain_is_an_answer():
    text = text_of(render(builders.no_gain_result()))

    assert "Nothing found to gain in what was tried The best of 6 settings" in text
    assert "Not tried: num_workers, persistent_workers, channels_last, precision." in text
    assert "Best found 1.01× 0.97× to 1.05×" in text


def test_a_failed_search_says_why():
    assert "The machine was too busy" in text_of(render(builders.failed_result()))


def test_another_training_is_said_in_the_first_line():
    parity = builders.parity(same_training=False, reason="The losses part by 20 %.")

    page = render(builders.search_result(verdict=builders.verdict(parity=parity)))

    assert "but another training" in re.search(r"<h1>(.*?)</h1>", page)[1]
    assert "No. The losses part by 20 %." in text_of(page)


def test_another_training_that_was_allowed_is_called_so_and_has_no_curves():
    parity = builders.parity(
        0, same_training=None, is_another=True, reason="A batch has 64 samples instead of 32."
    )

    page = render(builders.search_result(verdict=builders.verdict(parity=parity)))

    assert "but another training" in re.search(r"<h1>(.*?)</h1>", page)[1]
    assert "No. A batch has 64 samples instead of 32." in text_of(page)
    assert "The curves as a table" not in page and "It cannot be said" not in page


def test_a_program_that_was_not_delivered_says_why():
    delivered = Delivered(
        samples_per_second=None, speedup=None, settings_observed=False, reason="it crashed"
    )

    text = text_of(render(builders.search_result(verdict=builders.verdict(delivered=delivered))))

    assert "Handed back not measured it crashed" in text


def test_every_failure_has_its_reason_and_what_it_printed():
    text = text_of(render(builders.search_result()))

    assert "hung : No step within 12 s" in text
    assert "void : optimizer=fused was asked for and not observed." in text
    assert (
        "RuntimeError: view size is not compatible with input tensor&#39;s size and stride" in text
    )


def test_a_doubt_stands_beside_its_trial():
    text = text_of(render(builders.search_result()))
    assert "unstable: Windows differ by 11 %." in text


def test_why_the_answers_interval_is_of_another_level_is_said():
    once = builders.verdict()
    looked_at_often = replace(once, speedup=replace(once.speedup, confidence=0.978))
    for verdict, said in ((once, False), (looked_at_often, True)):
        text = text_of(render(builders.search_result(verdict=verdict)))
        assert ("The ratio's is one of 98 %: it may be looked at several" in text) is said


def test_what_was_left_out_has_its_reason():
    assert "cudnn_benchmark There is no CUDA device." in text_of(render(builders.search_result()))


def test_every_line_of_the_patch_is_there_in_its_colour():
    page = render(builders.search_result())

    lines = re.findall(r'<code class="(\w+)">(.*?)</code>', page.partition('<pre class="patch"')[2])
    assert ("added", "+torch.set_num_threads(1)") in lines
    assert ("removed", "-    model = ResNet(classes=10)") in lines
    assert ("file", "+++ b/photos.py") in lines
    assert len(lines) >= len(builders.PATCH.splitlines())


def test_every_edit_says_what_became_of_it():
    text = text_of(render(builders.search_result()))

    assert "threads there already" in text
    assert "refused : The loop body is in a library." in text
    assert "By hand: train.py:88 loss = loss / 2" in text


def test_a_setting_of_several_edits_has_one_row_where_the_others_say_no_more():
    threads, environment = (ProcessStatement(code=code) for code in ("limit(1)", "environ"))
    done = {"knob": "blas_threads", "status": "done"}
    edits = (
        EditOutcome(edit=environment, **done),
        EditOutcome(edit=threads, reason="the program then needs the package p", **done),
        *(EditOutcome(edit=each, knob="threads", status="already") for each in (threads, threads)),
        EditOutcome(edit=threads, knob="threads", status="refused", reason="no place"),
        EditOutcome(edit=environment, knob="threads", status="refused", reason="no other"),
    )
    text = text_of(render(builders.search_result(edits=edits))).partition("In the source")[2]

    assert text.startswith(
        " blas_threads done : the program then needs the package p threads there already "
        "threads refused : no place threads refused : no other "
    )


def test_every_turn_is_there_to_be_computed_again():
    page = render(builders.search_result())

    turns = page.partition("Every turn, as it was timed")[2]
    assert turns.count('<th scope="row">Tuned</th>') == 8


def test_turns_that_did_not_count_are_said():
    text = text_of(render(builders.search_result()))

    assert "all but one held still, in 8 turns of each program by 2 sets of processes" in text
    assert "as it is. 1 further turn did not count" in text


def test_a_ceiling_that_was_computed_is_not_among_those_that_were_timed():
    timed = Ceiling(name="data", samples_per_second=473.0, max_gain=1.25)
    computed = Ceiling(name="compute", samples_per_second=1083.0, max_gain=2.87, reason="By share.")

    both = text_of(
        render(builders.profile_result(profile=builders.profile(ceilings=(timed, computed))))
    )

    assert "473 samples/s" in both and "1,083 samples/s" not in both
    page = render(builders.profile_result(profile=builders.profile(ceilings=(computed,))))
    assert "<h2>Ceilings</h2>" not in page


def test_a_doubt_that_stands_elsewhere_is_not_told_again():
    doubts = tuple(
        Doubt(name=name, evidence=f"{name}: said.", advice="")
        for name in (SHORT_RUN, FROM_MEMORY, "other")
    )

    text = text_of(render(builders.profile_result(profile=builders.profile(doubts=doubts))))

    assert [text.count(f"{doubt.name}: said.") for doubt in doubts] == [1, 1, 1]


def test_what_was_not_measured_is_never_nought():
    memory = Memory(
        peak_bytes=None,
        parameter_bytes=1024,
        gradient_bytes=1024,
        optimizer_bytes=1024,
        activation_bytes=None,
        capacity_bytes=0,
    )

    text = text_of(render(builders.profile_result(profile=builders.profile(memory=memory))))

    assert "Activations not measured" in text
    assert "Peak not measured" in text
    assert "0 bytes" not in text
    assert "copy not measured" not in text, "there is no device to copy to"


def test_figures_that_are_not_finite_do_not_break_the_page():
    nan = math.nan
    result = builders.search_result(
        profile=builders.profile(samples_per_second=nan, interval=(nan, nan), step_seconds=nan),
        trials=(builders.trial(0, {}, nan), builders.trial(1, {"threads": 1}, 100.0)),
    )

    page = render(result)

    assert "nan" not in re.findall(r'(?:x|y|cy|width)\d?="([^"]*)"', page)


def test_a_search_without_a_single_measurement_is_a_page():
    failed = Failure(kind="out_of_memory", reason="Needed 9.1 GiB.")

    assert "out of memory" in render(
        builders.failed_result(trials=(builders.trial(0, {}, failed),))
    )


@pytest.mark.parametrize("build", RESULTS, ids=lambda build: build.__name__)
def test_every_text_of_the_program_is_escaped(build):
    hostile = from_document(with_every_text(to_document(build()), HOSTILE))

    page = render(hostile)

    nesting = Nesting()
    nesting.feed(page)
    assert not nesting.tags & {"script", "img"}
    assert "&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "onerror" not in nesting.attributes


def test_names_of_settings_are_escaped_too():
    config = {HOSTILE: HOSTILE}
    result = builders.search_result(
        trials=(builders.trial(0, {}, 100.0), builders.trial(1, config, 120.0)),
        verdict=builders.verdict(config=config, turns={HOSTILE: ((1, 1.0), (1, 1.0))}),
        profile=builders.profile(phases={HOSTILE: 1.0}, not_measured={HOSTILE: HOSTILE}),
    )

    nesting = Nesting()
    nesting.feed(render(result))

    assert not nesting.tags & {"script", "img"}


def test_codes_that_colour_a_terminal_are_left_out():
    failed = Failure(kind="crashed", reason="\x1b[31mred\x1b[0m", output="\x1b[1mbold\x1b[0m")

    page = render(builders.failed_result(trials=(builders.trial(0, {}, failed),)))

    assert "\x1b" not in page
    assert "[31m" not in page


def test_the_page_is_written_whole(tmp_path):
    write_report(builders.search_result(), tmp_path / "deep" / "report.html")

    page = (tmp_path / "deep" / "report.html").read_text(encoding="utf-8")
    assert page == render(builders.search_result())
    assert page.startswith("<!doctype html>")
