"""The page of one knob, from its module's docstring: a first sentence and four headings."""

import sys
import textwrap
from dataclasses import dataclass

from autotune.knobs import KNOBS
from autotune.knobs.knob import Knob, Semantics

HEADINGS = ("What it does", "When it helps", "What it costs", "What it changes")

_SAME_TRAINING = {
    Semantics.IDENTICAL: "the same numbers",
    Semantics.EQUIVALENT: "other rounding or random stream",
    Semantics.DIFFERENT: "another training",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is to be said of a knob: its name, one sentence, and a paragraph by heading, in
    order.
    """

    name: str
    summary: str
    sections: dict[str, str]


def page_of(knob: Knob) -> Page:
    """The page of `knob`.

    Raises:
        ValueError: its module's docstring lacks a heading, has another one, or says nothing under
        one.
    """
    doc = sys.modules[type(knob).__module__].__doc__ or ""
    summary, *paragraphs = textwrap.dedent(doc).strip().split("\n\n")
    sections = {}
    for paragraph in paragraphs:
        heading, _, text = paragraph.partition("\n")
        sections[heading] = " ".join(text.split())
    if tuple(sections) != HEADINGS or not all(sections.values()):
        raise ValueError(
            f"the docstring of {knob.name} must have, in this order, {', '.join(HEADINGS)}"
        )
    return Page(name=knob.name, summary=" ".join(summary.split()), sections=sections)


def knob_table() -> str:
    """Every knob as a Markdown table: its name, values, what it does, and what it may change about
    the training.
    """
    rows = [
        (f"`{knob.name}`", _values(knob), page_of(knob).summary, _SAME_TRAINING[knob.semantics])
        for knob in KNOBS
    ]
    head = (("knob", "values", "what it is", "what it may change"), ("---",) * 4)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (*head, *rows))


def _values(knob: Knob) -> str:
    admits = knob.admits
    if isinstance(admits, range):
        return "..., -1, 0, 1, ..." if admits[0] < 0 else f"{admits[0]}, {admits[1]}, ..."
    return ", ".join(
        f"`{str(value).lower() if isinstance(value, bool) else value}`" for value in admits
    )
