"""The report in a real browser: it fits a phone, and nothing of it comes from the network."""

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
REPORT_WIDTH = """
<script>
addEventListener("load", () => parent.postMessage(
  [NAME, ...["scrollWidth", "clientWidth"].map((each) => document.documentElement[each])].join(" "),
  "*"))
</script>
"""
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


def widths(folder: Path, pages: dict[str, str], width: int) -> dict[str, tuple[int, int]]:
    """The width that each page takes and the width that it has, in frames `width` pixels wide.

    A headless window is never narrower than 500 pixels, a frame may be.
    """
    frames = []
    for name, page in pages.items():
        script = REPORT_WIDTH.replace("NAME", f'"{name}"')
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
    found = re.findall(r"<li>(\w+) (\d+) (\d+)</li>", done.stdout)
    return {name: (int(taken), int(had)) for name, taken, had in found}


@pytest.mark.parametrize("width", [360, 390, 768])
def test_no_page_is_wider_than_its_window(width, tmp_path):
    pages = {name: render(build()) for name, build in PAGES.items()}
    hostile = from_document(long_words(to_document(builders.search_result())))
    pages["long_words"] = render(hostile)

    found = widths(tmp_path, pages, width)

    assert set(found) == set(pages)
    assert {name: taken for name, (taken, had) in found.items() if taken > had} == {}
