"""Every page over a broker in which everything is hostile: it is answered, it is whole, and nothing in it runs."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import redis as redis_py
import web_scene
from web_hostile import EVIL, hostile_payloads
from web_hostile_scene import THINGS, fill_hostile
from wsgi_client import Answer, Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE
from goworkers_py.web.views.job_lists import STATES

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

PAYLOADS = cache(lambda: hostile_payloads(1_100))  # made by the first test and not by each import
JOBS_APART = 17  # the page of each of them would take minutes
SLOW = ("/job", "/job/raw", "/status", "/result")  # these search, look twice, or wait
# What no page has of its own.
FOREIGN_TAGS = {"img", "iframe", "base", "object", "embed", "b", "i", "u"}
TAGS = {"style", "plaintext", "xmp", "frame", "applet", "math", *FOREIGN_TAGS}


class Whole(HTMLParser):
    """Reads a page as a browser does. `faults`: what is in it that no template of ours has written."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.faults += [f"<{tag} {name}>" for name in told if name.startswith(("on", "style", "hx-on", "srcdoc"))]
        if tag in TAGS or (tag == "script" and not told.get("src", "").startswith("/static/")):
            self.faults.append(f"<{tag} {told}>")
        for name in {"href", "src", "action", "hx-get", "hx-post", "formaction"}.intersection(told):
            link = urlsplit(told[name])
            if link.scheme or link.netloc:
                self.faults.append(f"{name} {told[name]}")
            if name == "href":
                self.links.append(told[name])


def fill(app: App, redis: redis_py.Redis) -> None:
    fill_hostile(app, redis, PAYLOADS())


@pytest.fixture
def client(app: App, redis: redis_py.Redis) -> Client:
    web_scene.restored(fill, app, redis, lasts_s=600)  # whether its jobs are due makes no page whole
    return Client(application(app, authorize=lambda environ, action: True))


def read(answer: Answer) -> Any:
    """Strict JSON, with numbers of any length."""
    return json.loads(answer.body, parse_constant=lambda word: pytest.fail(word), parse_int=str)


def faults_of(answer: Answer) -> list[str]:
    """Of a page, or of a JSON answer, which must be strict JSON."""
    if answer.status >= 500:
        return [f"{answer.status}: {answer.text[:300]}"]
    if answer.headers["content-type"].startswith("application/json"):
        read(answer)
        return []
    text = answer.body.decode("utf-8")
    bare = "\x00" in text or "\x1b" in text
    return [*Whole(text).faults, *(["a control character"] if bare else []), *(["49"] if " 49 {{" in text else [])]


def query(**fields: str) -> str:
    return urlencode(fields, errors="surrogateescape")


def faults_on_all_pages_of(client: Client, address: str, most: int = 60) -> tuple[dict[str, list[str]], int]:
    """Goes on as a person does who clicks on the next page."""
    found: dict[str, list[str]] = {}
    seen = 0
    while seen < most:
        page, told = client.get(address), client.get(f"/api{address}")
        seen += 1
        for answer, name in ((page, address), (told, f"/api{address}")):
            if faults := faults_of(answer):
                found[name[:300]] = faults[:3]
        after = read(told).get("next") if told.status == 200 else None
        if not after:
            break
        link = urlsplit(address)
        fields = {name: values[0] for name, values in parse_qs(link.query).items()}
        address = f"{link.path}?{query(**{**fields, 'after': after})}"
    return found, seen


@pytest.mark.parametrize(
    "state", [state if state == "dead" else pytest.param(state, marks=pytest.mark.slow) for state in STATES]
)
def test_each_list_of_jobs_is_whole_to_its_last_page(client: Client, state: str) -> None:
    found, pages = faults_on_all_pages_of(client, f"/jobs?state={state}&limit=100")
    assert found == {}
    assert pages > 5 or state not in ("retry", "dead", "scheduled")


@pytest.mark.parametrize("path", [path for path, view in TABLE.views.items() if not any(p.needed for p in view.query)])
def test_each_page_is_whole(client: Client, path: str) -> None:
    found, _ = faults_on_all_pages_of(client, path)
    assert found == {}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow) if path.startswith(("/job", "/queue", "/periodic")) else path
        for path, view in TABLE.views.items()
        if any(p.needed for p in view.query)
    ],
)
def test_each_page_of_one_thing_is_whole_whatever_its_name(client: Client, path: str) -> None:
    found: dict[str, list[str]] = {}
    few = 9 if path in SLOW else 1
    for number, name in [*enumerate(THINGS)][::few]:
        fields = {param.name: name for param in TABLE.views[path].query if param.needed or param.name == "queue"}
        if path == "/group":
            fields |= {"queue": name, "class": name, "name": name}
        elif path == "/batch":
            fields = {"bid": f"b{number}{name.replace('.', ',')}"}
        elif path in ("/job", "/job/raw", "/status", "/result"):
            fields = {"jid": f"tracked{number}{name}"}
        address = f"{path}?{query(**fields)}"
        for asked in (address, f"/api{address}"):
            if faults := faults_of(client.get(asked)):
                found[asked[:300]] = faults[:3]
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("state", ["retry", "dead"])
def test_the_pages_of_jobs_are_whole(client: Client, state: str) -> None:
    links: dict[str, None] = {}
    address = f"/jobs?state={state}&limit=500"
    while True:
        page = client.get(address)
        links |= dict.fromkeys(Whole(page.text).links)
        after = read(client.get(f"/api{address}"))["next"]
        if not after:
            break
        address = f"/jobs?{query(state=state, limit='500', after=after)}"
    jobs = [link for link in links if urlsplit(link).path == "/job"]
    found = {}
    for link in jobs[::JOBS_APART]:
        for asked in (link, f"/api{link}"):
            answer = client.get(asked)
            if faults := [*faults_of(answer), *([] if answer.status == 200 else [str(answer.status)])]:
                found[asked[:300]] = faults[:3]
    assert len(jobs) > 500
    assert found == {}


def test_markup_is_in_the_pages_as_text(client: Client) -> None:
    """Else the other tests would look at pages that show nothing."""
    page = client.get("/queues").text
    assert EVIL in page
    assert f"<script>{EVIL}" not in page
    assert "{{7*7}}" in page
