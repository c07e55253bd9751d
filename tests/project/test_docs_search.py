"""The search of the site, from a file, in a browser: docs/_static/search.js with a few sections, and with all pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, lacks_chromium
from pages import ALL_PAGES, ROOT

DOCS = ROOT / "docs"
SCRIPT = DOCS / "_static/search.js"
SECTIONS = [
    ["trouble.html", "Troubleshooting", "Troubleshooting", "Find the symptom. Nothing below helps? Run the doctor."],
    [
        "trouble.html#stuck",
        "Troubleshooting",
        "Jobs do not run",
        "No process works the queue.",
    ],
    ["limits.html", "Limits", "Limits", "Five jobs run at once, and other jobs wait. A job waits in line."],
    ["api.html#run", "API", "workers.run", "Runs jobs until a signal."],
    ["retries.html", "Retries", "Retries", "A job that fails is tried again."],
]


# What people type, and where the answer is. One of the first three hits must lead there.
QUESTIONS = [
    ("jobs wait and nothing runs", "troubleshooting: Jobs do not run"),
    ("jobs not processed", "troubleshooting: Jobs do not run"),
    ("worker does not pick up jobs", "troubleshooting: Jobs do not run"),
    ("the same job ran twice", "troubleshooting: It runs twice"),
    ("duplicate job", "not-twice: Not twice|unique-jobs: Unique jobs"),
    ("memory of the worker grows", "troubleshooting: Memory grows"),
    ("memory leak", "troubleshooting: Memory grows"),
    ("OOM command not allowed", "troubleshooting: Redis is full"),
    ("redis out of memory", "troubleshooting: Redis is full"),
    ("deploy hangs at stop", "troubleshooting: (A deploy stalls|The process does not end)"),
    ("worker won't stop", "troubleshooting: The process does not end"),
    ("web page shows no jobs", "troubleshooting: The page is empty"),
    ("cannot open web page from another machine", "troubleshooting: The page is empty"),
    ("periodic job did not fire", "troubleshooting: A periodic job did not fire"),
    ("cron job not running", "troubleshooting: A periodic job did not fire"),
    ("limit calls to an API to 100 a minute", "limits: Limits"),
    ("throttling", "limits: Limits|not-too-many-at-once: "),
    ("one job after the other for each customer", "one-after-the-other: "),
    ("sequential jobs per user", "one-after-the-other: "),
    ("which redis rights does a producer need", "access: "),
    ("redis permissions", "access: "),
    ("exponential backoff", "middleware-and-hooks: Retries and the dead set"),
    ("dead letter queue", "troubleshooting: A job is dead|middleware-and-hooks: Retries|operations: Retries"),
    ("kubernetes terminationGracePeriodSeconds", "deploying: Kubernetes"),
    ("k8s", "deploying: Kubernetes"),
    ("prometheus metrics", "metrics: Metrics"),
    ("graceful shutdown", "reliability: TERM and the drain|deploying: Deploying"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from _with_site(tmp_path_factory.mktemp("site"), SECTIONS)


@pytest.fixture(scope="module")
def browser_of_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from _with_site(tmp_path_factory.mktemp("pages"), _sections_of_pages())


def _with_site(site: Path, sections: list[list[str]]) -> Iterator[Browser]:
    if reason := lacks_chromium():
        pytest.skip(reason)
    (site / "_static").mkdir()
    (site / "_static/sections.js").write_text(f"docsSections = {json.dumps(sections)}", "utf-8")
    (site / "_static/search.js").write_bytes(SCRIPT.read_bytes())
    page = '<html data-content_root="./"><script src="_static/search.js"></script><input class="sidebar-search">'
    for name in ("index.html", "trouble.html"):
        (site / name).write_text(f"<!doctype html>{page}", "utf-8")
    with Browser(f"file://{site}/") as browser:
        yield browser


def _sections_of_pages() -> list[list[str]]:
    """As bin/docs finds them, without Sphinx."""
    found = []
    for page in ALL_PAGES:
        if page.name == "README.md":  # no page of the site
            continue
        name = page.with_suffix(".html").relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix().lower()
        text = re.sub(r"(?<=\])\([^)]*\)|<!--.*-->", "", page.read_text("utf-8"))
        text = re.sub(r"^ *```.*?^ *```$", lambda block: block[0].replace("\n#", "\n #"), text, flags=re.M | re.S)
        parts = re.split(r"^#+ (.+)\n", text, flags=re.M)
        for heading, below in zip(parts[1::2], parts[2::2], strict=True):
            found.append([name, parts[1], heading.replace("`", ""), " ".join(below.split())])
    return found


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


def test_a_question_in_the_words_of_people_finds_its_answer_among_the_first_three(browser_of_pages: Browser) -> None:
    browser = browser_of_pages
    browser.open("index.html")
    browser.press("/")
    browser.until(lambda: browser.run("return sections !== null"))
    ask = "return search(arguments[0]).slice(0, 3).map((hit) => `${hit.page}: ${hit.heading}`)"
    missed = {}
    for question, answer in QUESTIONS:
        hits = [hit.replace(".html", "") for hit in browser.run(ask, question)]
        if not any(re.match(answer, hit) for hit in hits):
            missed[question] = hits
    assert missed == {}
