"""A button acts on the thing that its page shows, whatever characters its name has."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import redis as redis_py
from wsgi_client import Answer, Client

# Each is the name of a queue, of a class and of a jid.
NAMES = [
    "mail", "zero\u200bwidth", "\u202eturned", "\u2066isolated\u2069", "\ufeffmark", "soft\xadhyphen",
    " before", "behind ",
    "two  spaces", "tab\tbed", "line\nend", "carriage\rreturn", "both\r\nends", "nul\x00l", "escape\x1b[31m",
    'quote"<b>&amp;', "no\xa0break", "percent%20plus+", "filler\u3164", "star*", "e\u0301 and \xe9",
    "\u2028separator", "tag\U000e0041",
]  # fmt: skip


class Forms(HTMLParser):
    """The forms of a page: where their buttons lead, and the fields as a browser sends them with each box checked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[list[str], list[tuple[str, str]]]] = []
        self.feed(page.replace("\r\n", "\n").replace("\r", "\n"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: (value or "").replace("\0", "\ufffd") for name, value in attrs}
        if tag == "form":
            self.forms.append(([told.get("action", "")], []))
        elif tag == "button" and "formaction" in told:
            self.forms[-1][0].append(told["formaction"])
        elif tag == "input" and told.get("type") in ("hidden", "checkbox") and told.get("name", "all") != "all":
            value = told.get("value", "on").replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
            self.forms[-1][1].append((told["name"], value))


def press(client: Client, page: Answer, path: str) -> Answer:
    """Presses the button, and answers the question that may follow."""
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    action, fields = next(
        (action, fields) for actions, fields in Forms(page.text).forms for action in actions if action.startswith(path)
    )
    answer = client.ask("POST", action, urlencode(fields).encode(), kind)
    return press(client, answer, path) if answer.status == 200 else answer


def test_a_queue_is_paused_and_cleared_by_its_own_button(client: Client, redis: redis_py.Redis) -> None:
    for name in NAMES:
        for queue in (name, "other"):
            redis.sadd("queues", queue)
            redis.lpush(f"queue:{queue}", json.dumps({"class": "C", "args": [], "jid": "j"}))
        page = client.get(f"/queue?name={quote(name, safe='')}")
        assert press(client, page, "/queue/pause").status == 303
        assert redis.smembers("paused") == {name.encode()}
        assert press(client, page, "/queue/clear").status == 303
        assert redis.smembers("queues") == {b"other"}
        redis.delete("paused")


def test_a_selected_job_is_deleted_in_its_queue(client: Client, redis: redis_py.Redis) -> None:
    for name in NAMES:
        redis.sadd("queues", name)
        redis.lpush(f"queue:{name}", json.dumps({"class": name, "args": [], "jid": name}))
        page = client.get(f"/jobs?{urlencode({'state': 'waiting', 'queue': name, 'class': name})}")
        assert press(client, page, "/jobs/delete").status == 303
        assert not redis.exists(f"queue:{name}"), name


def test_half_of_a_surrogate_pair_survives_a_form(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {'{"class":"C","args":[],"jid":"half\\ud800"}': 5.0})
    page = client.get("/jobs?state=dead")
    assert press(client, page, "/jobs/delete").status == 303
    assert not redis.exists("dead")
