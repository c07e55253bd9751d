"""The search of the site, from a file, in a browser: docs/_static/search.js with some sections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, lacks_chromium

SCRIPT = Path(__file__).resolve().parents[2] / "docs/_static/search.js"
SECTIONS = [
    ["trouble.html", "Troubleshooting", "Troubleshooting", 1, "Find the symptom. Nothing below helps? Run the doctor."],
    [
        "trouble.html#stuck",
        "Troubleshooting",
        "Jobs do not run",
        1,
        "No process works the queue.",
    ],
    ["limits.html", "Limits", "Limits", 1, "Five jobs run at once, and other jobs wait. A job waits in line."],
    ["api.html#run", "API", "workers.run", 0.5, "Runs jobs until a signal."],
    ["retries.html", "Retries", "Retries", 1, "A job that fails is tried again."],
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := lacks_chromium():
        pytest.skip(reason)
    site = tmp_path_factory.mktemp("site")
    (site / "_static").mkdir()
    (site / "_static/sections.js").write_text(f"docsSections = {json.dumps(SECTIONS)}", "utf-8")
    (site / "_static/search.js").write_bytes(SCRIPT.read_bytes())
    page = '<html data-content_root="./"><script src="_static/search.js"></script><input class="sidebar-search">'
    for name in ("index.html", "trouble.html"):
        (site / name).write_text(f"<!doctype html>{page}", "utf-8")
    with Browser(f"file://{site}/") as browser:
        yield browser


# One script, for each key lets the page write its list anew.
ANSWER = """
    const asked = document.querySelector(".docs-search input")?.value === arguments[0];
    const items = [...document.querySelectorAll(".docs-search li")];
    return asked ? items.map(item => (item.querySelector("strong") || item).innerText) : [];
"""


def _found(browser: Browser, question: str) -> list[str]:
    browser.open("index.html")
    browser.press("/")
    for sign in question:
        browser.press(sign)
    found: list[str] = browser.until(lambda: browser.run(ANSWER, question))
    return found


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("jobs do not run", "Jobs do not run"),  # the words of a heading, weak ones too
        ("my job does not run", "Jobs do not run"),  # other forms, and a word that no section has
        ("retry", "Retries"),
        ("doc", "Troubleshooting"),  # the beginning of a word
        ("workers.run", "workers.run"),
        ("zebra", "Nothing was found."),
    ],
)
def test_a_question_finds_its_section_first(browser: Browser, question: str, first: str) -> None:
    assert _found(browser, question)[0] == first


def test_enter_opens_the_first_section(browser: Browser) -> None:
    _found(browser, "jobs do not run")
    browser.press("Enter")
    assert browser.until(lambda: browser.address == "trouble.html#stuck")
