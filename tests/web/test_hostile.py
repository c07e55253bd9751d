"""A thousand hostile jobs in every state: no page breaks, and nothing of theirs gets out of its text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
import redis as redis_py
from apps import own_app
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application

EVIL = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '" onmouseover="alert(1)', "' autofocus onfocus='x",
    "javascript:alert(1)", "{{7*7}}{% raw %}", "</title></textarea></script>", "<!--", "]]>", "\x1b[2J\x1b[31mred",
    "\u202egnp.exe", "zero\u200bwidth", "\x00nul", "\ud800half", "a/../../b?c#d%2e", "ünïcödé 日本 🙂", "x" * 5_000,
    "line\nbreak\r\ttab", "&lt;b&gt;&amp;", "<svg/onload=alert(1)>", "\u2028\u2029", "`${7*7}`", "password",
)  # fmt: skip
COUNT = 1_000
LONG = b"<b>" * 350_000  # a megabyte
STATES = ("retry", "dead", "scheduled")


class Tags(HTMLParser):
    """Collects what a page's markup consists of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action", "formaction")]


def payloads() -> Iterator[bytes]:
    chance = random.Random(3)

    def text() -> str:
        return chance.choice(EVIL)

    for number in range(COUNT):
        fields: dict[str, object] = {
            "class": text(), "args": [text(), {text(): text()}, [[text()]], number], "jid": f"{number}{text()}",
            "queue": text(), "error_class": text(), "error_message": text(), "error_backtrace": [text(), text()],
            "tags": [text(), text()], "wrapped": text(), "retry_count": number, text(): text(), "created_at": 1.5e9,
        }  # fmt: skip
        wrong = chance.choice(["class", "args", "jid", "queue", "tags", "error_class", "retry_count", "created_at", ""])
        if number % 3 == 0 and wrong:
            fields[wrong] = chance.choice([None, 7, True, {"a": 1}, [1, [2]], "x", 1e308, -1, 10**400])
        if number % 5 == 0:
            del fields["wrapped"]
        raw = json.dumps(fields).encode()
        yield {
            11: b"\xff\xfe broken <b>", 23: raw[:-1], 37: b"[]", 41: b'"text <i>"', 53: raw.replace(b"1.5e9", b"NaN"),
            59: b"[" * 300 + b"]" * 300,
            61: raw if number > 300 else raw.replace(b'"args": [', b'"args": ["%s", ' % LONG),
        }.get(number % 97, raw)  # fmt: skip


# Thirty megabytes go through each page. test_hostile_places.py has fewer jobs, in more places.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def client(redis_url: str, redis: redis_py.Redis) -> Iterator[Client]:
    with own_app(redis_url) as app:
        fill(app, redis)
        yield Client(application(app, authorize=lambda environ, action: True))


def fill(app: App, redis: redis_py.Redis) -> None:
    jobs = list(payloads())
    redis.zadd("retry", {raw: 4e9 + n for n, raw in enumerate(jobs)})
    redis.zadd("dead", {raw: 1e9 + n for n, raw in enumerate(jobs)})
    redis.zadd("schedule", {raw: 4e9 + n for n, raw in enumerate(jobs)})
    redis.zadd("dead", {b'{"class":"Infinite"}': float("inf"), b'{"class":"Long ago"}': -1e12})
    for name in EVIL:
        raw = name.encode("utf-8", "surrogatepass")
        redis.sadd("queues", raw)
        redis.lpush(b"queue:" + raw, *jobs[:30])
    process = json.dumps({"hostname": EVIL[0], "queues": list(EVIL), "tag": EVIL[1], "labels": [EVIL[2]],
                          "concurrency": 7, "started_at": 1e9, "pid": 1, "identity": EVIL[0]})  # fmt: skip
    redis.sadd("processes", EVIL[0])
    redis.hset(EVIL[0], mapping={"info": process, "busy": "x", "beat": "nan", "quiet": "?", "rss": "-",
                                  "cpu_share": "1e308"})  # fmt: skip
    works = {f"t{n}": json.dumps({"queue": EVIL[n % 20], "payload": raw.decode("utf-8", "replace"), "run_at": "x"})
             for n, raw in enumerate(jobs[:50])}  # fmt: skip
    redis.hset(f"{EVIL[0]}:work", mapping=works)


TAGS = {
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "svg", "rect", "form", "input", "kbd",
    "button", "details", "summary", "nav", "main", "div", "h1", "h2", "h3", "p", "span", "strong", "table", "thead",
    "tbody", "tr", "th", "td", "time", "bdi", "footer", "dialog", "label", "section", "dl", "dt", "dd", "pre", "ul",
    "ol", "li", "textarea", "code", "desc", "g", "line", "text", "polyline", "progress", "meter", "select", "option",
    "datalist",
}  # fmt: skip


def check(page: str, where: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.tags <= TAGS, f"{where}: {tags.tags - TAGS}"
    assert not {name for name in tags.attributes if name.startswith("on") or name == "style"}, where
    assert all(one.startswith(("/", "?", "#")) and not one.startswith("//") for one in tags.addresses), where
    assert page.count("<script") == 3, where
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u200b]", page), where


def told(text: str) -> str:
    """The text in an address."""
    return quote(text.encode("utf-8", "surrogatepass"))


def test_every_list_shows_them_and_stays_a_page(client: Client) -> None:
    for state in STATES:
        after, seen = "", 0
        while True:
            found = client.get(f"/api/jobs?state={state}&limit=500&after={told(after)}")
            assert found.status == 200
            page = client.get(f"/jobs?state={state}&limit=500&after={told(after)}")
            assert page.status == 200, page.text[:500]
            check(page.text, state)
            seen += len(found.json["jobs"])
            after = found.json["next"]
            if not after:
                break
        assert seen >= 900, state


def test_every_job_has_a_page_and_a_file(client: Client) -> None:
    for state in STATES:
        for row in client.get(f"/api/jobs?state={state}&limit=500").json["jobs"][:: 23 if state == "retry" else 91]:
            asked = f"jid={told(row['jid'])}&state={state}&key={told(row['key'])}"
            for path in ("/job", "/api/job"):
                answer = client.get(f"{path}?{asked}")
                assert answer.status == 200, (path, row["jid"], answer.text[:300])
                if path == "/job":
                    check(answer.text, row["jid"])
            assert client.get(f"/job/raw?{asked}").status in (200, 404)


def test_every_other_page_and_every_queue_stays_a_page(client: Client) -> None:
    paths = [
        "/",
        "/queues",
        "/failures",
        "/processes",
        "/jobs?state=running",
        "/jobs?state=waiting",
        "/find?q=%3Cscript",
    ]
    paths += [f"/queue?name={told(name)}" for name in EVIL]
    paths += [f"/jobs?state=waiting&queue={told(name)}" for name in EVIL]
    paths += [f"/process?identity={quote(EVIL[0])}"]
    for path in paths:
        for address in (path, f"/api{path}"):
            answer = client.get(address)
            assert answer.status in (200, 404) or "%ED%A0%80" in address, (address, answer.text[:500])
            assert answer.status != 500, address
            if address == path:
                check(answer.text, path)
            else:
                assert answer.json is not None


def test_hostile_filters_are_echoed_as_text(client: Client) -> None:
    for evil in EVIL:
        shown = told(evil)
        for name in ("class", "error", "tag", "argument", "match", "since", "after", "order", "state", "limit"):
            answer = client.get(f"/jobs?state=retry&{name}={shown}")
            assert answer.status in (200, 400), (name, evil, answer.text[:300])
            check(answer.text, f"{name}={evil}")


def test_hostile_jobs_are_retried_killed_and_deleted(client: Client, redis: redis_py.Redis) -> None:
    rows = client.get("/api/jobs?state=retry&limit=100").json["jobs"]
    keys = [row["key"] for row in rows]
    done = client.api("/api/jobs/kill", {"state": "retry", "job": keys[:50]}).json
    assert done["count"] + len(done["problems"]) == 50, done
    done = client.api("/api/jobs/delete", {"state": "retry", "job": keys[50:]}).json
    assert done["count"] == len(keys[50:]), done
    done = client.api("/api/jobs/delete", {"state": "dead", "all": True}).json
    while "go_on" in done:
        done = client.api("/api/jobs/delete", done["go_on"]["fields"]).json
    assert redis.zcard("dead") == 0
