"""Words can be read: contrast as WCAG 2.2 defines it, in the light and in the dark."""

import re
from importlib.resources import files

import pytest

STYLE = (files("autotune.outputs") / "templates" / "style.css").read_text(encoding="utf-8")
ENOUGH = 4.5  # WCAG 2.2, criterion 1.4.3, level AA
ON_PAPER = [("ink", "paper"), ("quiet", "paper"), ("accent", "paper"), ("bad", "paper")]
ON_FILL = [
    ("ink", "raised"),
    ("quiet", "raised"),
    ("on-accent", "accent"),
    ("accent", "accent-soft"),
    ("bad", "bad-soft"),
    *((("ink", f"shade-{number}")) for number in range(4)),
]
SCHEMES = dict(
    zip(("light", "dark", "paper"), re.findall(r":root \{(.*?)\}", STYLE, re.S), strict=True)
)


def colours(scheme):
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", SCHEMES[scheme]))


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("words", "ground"), ON_PAPER + ON_FILL)
def test_words_stand_out_from_their_ground(scheme, words, ground):
    palette = colours(scheme)

    assert contrast(palette[words], palette[ground]) >= ENOUGH


def test_every_scheme_has_every_colour():
    assert len({frozenset(colours(scheme)) for scheme in SCHEMES}) == 1
