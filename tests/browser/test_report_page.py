"""The report in a real browser: it fits a phone, uses a desk's width, and nothing of it comes from
the network.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autotune.outputs.document import from_document, to_document
from autotune.outputs.report import render
from tests import builders
from tests.conftest import BROWSERS

BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
PAGES = {
    "search": builders.search_result,
    "no_gain": builders.no_gain_result,
    "profile": builders.profile_result,
    "failed": builders.failed_result,
}
# The page's own policy forbids scripts, so the copy that is measured has none.
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
REPORT = """
<script>
addEventListener("load", () => parent.postMessage([NAME, EXPRESSIONS].join(" | "), "*"))
</script>
"""
SHOWN, HAD = "document.documentElement.scrollWidth", "document.documentElement.clientWidth"
COLLECT = """
<!doctype html><body><ul></ul>
<script>
addEventListener("message", (event) => {
  const item = document.createElement("li")
  item.textContent = event.data
  document.querySelector("ul").append(item)
})
</script>
"""

pytestmark = pytest.mark.browser  # skipped where there is none: tests/conftest.py


def long_words(data):
    """`data` with every path and reason a word without a place to break it."""
    if isinstance(data, dict):
        return {
            key: "x" * 300
            if key in {"path", "reason", "headline", "device_name"}
            else long_words(value)
            for key, value in data.items()
        }
    return [long_words(value) for value in data] if isinstance(data, list) else data


def looked_up(
    folder: Path, pages: dict[str, str], width: int, *expressions: str
) -> dict[str, tuple[str, ...]]:
    """What each page gives for each of the expressions, in frames `width` pixels wide.

    A headless window is never narrower than 500 pixels, a frame may be.
    """
    frames = []
    for name, page in pages.items():
        script = REPORT.replace("NAME", f'"{name}"').replace("EXPRESSIONS", ", ".join(expressions))
        (folder / f"{name}.html").write_text(POLICY.sub("", page) + script, encoding="utf-8")
        frames.append(f'<iframe src="{name}.html" width="{width}" height="800"></iframe>')
    (folder / "all.html").write_text(COLLECT + "\n".join(frames), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command += [
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        f"file://{folder / 'all.html'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = (each.split(" | ") for each in re.findall(r"<li>(.*?)</li>", done.stdout))
    return {name: tuple(values) for name, *values in found}


@pytest.mark.parametrize("width", [360, 390, 768])
def test_no_page_is_wider_than_its_window(width, tmp_path):
    pages = {name: render(build()) for name, build in PAGES.items()}
    hostile = from_document(long_words(to_document(builders.search_result())))
    pages["long_words"] = render(hostile)

    found = looked_up(tmp_path, pages, width, SHOWN, HAD)

    assert set(found) == set(pages)
    assert {name: taken for name, (taken, had) in found.items() if int(taken) > int(had)} == {}


def test_on_a_desk_what_came_of_a_trial_has_a_third_of_its_table(tmp_path):
    table, outcome = (
        f"document.querySelector('.trials {each}').offsetWidth" for each in ("tr", "th:last-child")
    )

    found = looked_up(tmp_path, {"search": render(builders.search_result())}, 1280, table, outcome)

    whole, part = map(int, found["search"])
    assert whole > 1000 and 3 * part > whole


def test_only_a_gain_is_in_the_colour_of_one(tmp_path):
    pages = {name: render(PAGES[name]()) for name in ("search", "no_gain")}
    words, answer = (
        f"getComputedStyle(document.querySelector('{each}')).color" for each in ("h1", "h1 b")
    )

    found = looked_up(tmp_path, pages, 1280, words, answer)

    assert found["no_gain"][0] == found["no_gain"][1]
    assert found["search"][0] != found["search"][1]
