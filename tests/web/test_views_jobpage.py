"""The page of a job: how it is found, what it shows, what its actions leave."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html import unescape
from urllib.parse import urlencode

import pytest
import redis as redis_py
from page_jobs import AT, HOSTILE, failed, in_retry, job, where
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.web import application
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.views import job_finding
from goworkers_py.web.views.rows import key_of
from goworkers_py.wire import failure

# --- finding


def test_a_job_of_a_list_is_found_by_its_key_among_many_of_one_jid(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {failed(args=[number]): AT + number for number in range(30)})
    (row, *_) = [one for one in client.get("/api/jobs?state=retry").json["jobs"] if one["at"] == AT + 7]
    shown = client.get("/api" + where("j1", state="retry", key=row["key"])).json
    assert (shown["state"], shown["args"], shown["row"]["at"]) == ("retry", [7], AT + 7)


def test_every_place_that_holds_the_jid_is_listed(client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed())
    redis.zadd("dead", {failed(args=[2]): 1_700_000_000.5})
    redis.lpush("queue:mail", job(args=[3]))
    redis.sadd("queues", "mail")
    shown = client.get("/api" + where(**place)).json
    assert [one["state"] for one in shown["elsewhere"]] == ["waiting", "dead"]
    links = re.findall(r'href="(/job\?[^"]*state=(?:waiting|dead)[^"]*)"', client.get(where(**place)).text)
    states = [client.get("/api" + unescape(link)).json for link in links]
    assert [(one["state"], one["args"]) for one in states] == [("waiting", [3]), ("dead", [2])]


def test_a_tracked_job_is_found_by_its_jid_alone_with_its_timeline(app: App, client: Client) -> None:
    jid = app.enqueue_with_options("mail", "Mail", ["ada"], EnqueueOptions(track=True))
    for _ in range(50):
        app.enqueue("mail", "Mail", ["bob"])
    shown = client.get("/api" + where(jid or "")).json
    assert (shown["state"], shown["row"]["queue"], shown["args"]) == ("waiting", "mail", ["ada"])
    assert [move["state"] for move in shown["timeline"]] == ["waiting"]


def test_a_job_that_has_left_is_not_shown_and_the_page_says_so(client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed())
    redis.delete("retry")
    assert "No place holds a job with this jid" in client.get(where(**place)).text
    shown = client.get("/api" + where(**place)).json
    assert (shown["state"], shown["row"], shown["search"]["value"]["complete"]) == ("unknown", None, True)


def test_a_job_that_has_moved_since_the_last_search_is_searched_for_again(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = in_retry(redis, failed())
    assert client.get("/api" + where("j1")).json["state"] == "retry"
    redis.delete("retry")
    redis.zadd("dead", {failed(): AT})
    monkeypatch.setattr(job_finding, "FRESH_S", 0.0)
    for path in (where("j1"), where(**place)):
        assert client.get("/api" + path).json["state"] == "dead"


def test_a_search_gives_up_in_a_long_queue_and_says_how_many_jobs_it_looked_at(
    client: Client, redis: redis_py.Redis
) -> None:
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *[job(f"n{number}") for number in range(9_000)])
    missing = client.get("/api" + where("n4500")).json
    assert (missing["row"], missing["search"]["value"]["complete"]) == (None, False)
    assert "Not seen among the first 4,000 jobs" in client.get(where("n4500")).text
    for near in ("n8999", "n0"):  # the newest, and the next to run
        assert client.get("/api" + where(near, state="waiting", queue="mail")).json["row"]["jid"] == near


def test_a_key_that_is_none_and_a_missing_jid_are_refused(client: Client) -> None:
    assert client.get(where("j1", state="retry", key="no-time|j1")).status == 400
    assert client.get("/job").status == 400


def test_a_jid_that_is_no_text_has_a_page(client: Client) -> None:
    assert client.get("/job?jid=%FF").status == 200


# --- what is shown


def test_the_page_shows_class_error_backtrace_arguments_times_and_other_fields(
    client: Client, redis: redis_py.Redis
) -> None:
    packed = base64.b64encode(zlib.compress(json.dumps(["mail.rb:7:in `send'"]).encode())).decode()
    place = in_retry(redis, failed(error_backtrace=packed, tags=["eu"], kwargs={"cc": "bob"}, lock_digest="d1"))
    page = client.get(where(**place)).text
    for told in (
        "Mail",
        "Timeout",
        "no answer",
        "mail.rb:7:in `send&#39;",
        "eu",
        "Next try",
        "2 of 5 used",
        "lock_digest",
    ):
        assert told in page, told
    shown = client.get("/api" + where(**place)).json
    assert (shown["args"], shown["kwargs"]) == ([1, {"to": "ada"}], {"cc": "bob"})
    assert shown["fields"] == [["retry", "5"], ["lock_digest", '"d1"']]


def test_a_plain_list_is_a_backtrace_too(client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed(error_backtrace=["a.rb:1", "b.rb:2"]))
    assert client.get("/api" + where(**place)).json["error"]["backtrace"] == ["a.rb:1", "b.rb:2"]


def test_a_backtrace_that_would_unpack_to_gigabytes_is_not_unpacked(client: Client, redis: redis_py.Redis) -> None:
    bomb = base64.b64encode(zlib.compress(b'["' + b"x" * 3 * failure.LONGEST_BACKTRACE + b'"]')).decode()
    shown = client.get("/api" + where(**in_retry(redis, failed(error_backtrace=bomb)))).json["error"]
    assert (shown["backtrace"], shown["unread"]) == ([], True)


def test_long_arguments_are_cut_and_the_payload_is_a_file(client: Client, redis: redis_py.Redis) -> None:
    raw = failed(args=["x" * 900_000, list(range(5_000)), {"to": "ada"}])
    place = in_retry(redis, raw)
    page = client.get(where(**place)).text
    assert len(page) < 150_000
    assert "Left out of the arguments: 4,700 values, the ends of long texts." in page
    assert "&#34;ada&#34;" in page, "a long list hides nothing beside it"
    answer = client.get("/job/raw?" + urlencode(place))
    assert answer.headers["content-disposition"] == 'attachment; filename="job-j1.txt"'
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.body == raw.encode()


def test_the_file_has_no_value_that_is_to_be_hidden(client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed(args=[{"password": "s3cret"}]))
    assert "s3cret" not in client.get(where(**place)).text + client.get("/api" + where(**place)).text
    answer = client.get("/job/raw?" + urlencode(place))
    assert json.loads(answer.body)["args"] == [{"password": "(hidden)"}]


def test_the_key_of_a_job_tells_no_hidden_value_to_who_tries_all(client: Client, redis: redis_py.Redis) -> None:
    keys = []
    for cvv in ("123", "124"):
        in_retry(redis, failed(args=[{"cvv": cvv}]))
        keys += [row["key"] for row in client.get("/api/jobs?state=retry").json["jobs"]]
        redis.delete("retry")
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    "raw",
    [
        "no json", "[]", "{", '{"class":[],"args":{"a":1},"jid":7,"queue":3,"tags":"x","retry":"y","at":"z"}',
        '{"class":"A","args":[' + "9" * 6_000 + '],"jid":"j1"}', '{"class":"A","args":"' + "\\ud800" + '","jid":"j1"}',
        '{"class":"A","args":' + "[" * 90 + "]" * 90 + ',"jid":"j1","error_backtrace":{"a":1},"error_class":[1]}',
        '{"class":"A","args":[1e999,"\\u202e\\u0000"],"jid":"j1","created_at":1e300,"pyworkers":7,"kwargs":[1]}',
    ],
)  # fmt: skip
def test_any_payload_has_a_page(app: App, client: Client, redis: redis_py.Redis, raw: str) -> None:
    redis.zadd("dead", {raw: AT})
    (stored,) = app.inspector.first(DEAD, 2)
    place = {"jid": stored.jid, "state": "dead", "key": key_of(stored, Hiding())}
    assert client.get("/api/jobs?state=dead").status == 200
    for path in ("/job?", "/api/job?", "/job/raw?", "/failures?", "/find?q="):
        answer = client.get(path + urlencode(place))
        assert answer.status == 200, (path, answer.text)


def test_hostile_names_are_shown_as_text(client: Client, redis: redis_py.Redis) -> None:
    raw = failed(
        HOSTILE, job_class=HOSTILE, error=HOSTILE, queue=HOSTILE, tags=[HOSTILE], args=[HOSTILE], kwargs={HOSTILE: 1},
        error_backtrace=[HOSTILE], bid=HOSTILE,
    )  # fmt: skip
    place = in_retry(redis, raw)
    redis.sadd("queues", HOSTILE)
    redis.lpush(f"queue:{HOSTILE}", raw)
    pages = [where(**place), "/failures", "/failures?" + urlencode({"class": HOSTILE}), "/processes",
             "/find?" + urlencode({"q": HOSTILE[:8]}), "/process?" + urlencode({"identity": HOSTILE})]  # fmt: skip
    for path in pages:
        answer = client.get(path)
        assert answer.status == 200
        assert "<script>alert" not in answer.text, path
        assert "49" not in re.sub(r"\d{3,}|v=\w+", "", answer.text) or "{{7*7}}" in answer.text


# --- changes


def test_the_buttons_of_the_page_change_just_this_job(app: App, client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed("a"))
    in_retry(redis, failed("b"))
    page = client.get(where(**place)).text
    form = next(one for one in re.findall(r"<form.*?</form>", page, re.DOTALL) if "/jobs/kill" in one)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))
    client.sure("/jobs/kill", {name: unescape(value) for name, value in fields.items()})
    assert [one.jid for one in app.inspector.jobs(DEAD)] == ["a"]
    assert [one.jid for one in app.inspector.jobs(RETRIES)] == ["b"]


def test_another_time_is_set_as_the_command_does(app: App, client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed())
    client.post("/jobs/reschedule", {"state": "retry", "job": place["key"], "at": "2100000000"})
    assert [one.at for one in app.inspector.jobs(RETRIES)] == [2_100_000_000.0]


def test_again_pushes_the_same_job_with_a_jid_of_its_own(app: App, client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed(args=[{"password": "s3cret"}]))
    text = edited(client, place)
    assert "(hidden)" in text
    answer = client.post("/job/again", {**place, "args": text.replace("\n", "\r\n")})
    (new,) = app.inspector.jobs(waiting_in("mail"))
    assert new.message is not None
    assert new.message.args == [{"password": "s3cret"}]
    assert new.message.get("error_class") is None
    assert f"jid={new.jid}" in answer.location
    assert client.get("/api" + answer.location).json["row"]["jid"] == new.jid
    assert app.inspector.count(RETRIES) == 1


def edited(client: Client, place: dict[str, str]) -> str:
    page = client.get(where(**place)).text
    return unescape(re.findall(r'<textarea name="args"[^>]*>(.*?)</textarea>', page, re.DOTALL)[0])


def test_again_takes_other_arguments_another_queue_and_a_time(app: App, client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed(kwargs={"cc": "bob"}))
    answer = client.post(
        "/job/again", {**place, "args": "[2]", "kwargs": '{"cc": "eve"}', "to": "slow", "at": "2100000000"}
    )
    (new,) = app.inspector.jobs(SCHEDULED)
    assert new.message is not None
    assert (new.at, new.message.args, new.message.kwargs, new.message["queue"]) == (
        2_100_000_000.0, [2], {"cc": "eve"}, "slow",
    )  # fmt: skip
    assert client.get("/api" + answer.location).json["row"]["jid"] == new.jid
    told = client.api("/api/job/again", {**place, "args": ["a", "b"]}).json
    made = told["jid"]
    assert told["said"] == f"job {made} is in queue mail"
    ((_, last),) = app.inspector.find(made)
    assert last.message is not None
    assert last.message.args == ["a", "b"]


def test_a_hidden_value_is_never_pushed_as_its_mask(app: App, client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed(args=[{"password": "s3cret", "to": "ada"}]))
    changed = edited(client, place).replace("ada", "eve")
    refused = client.post("/job/again", {**place, "args": changed})
    assert (refused.status, "hidden value" in refused.text) == (400, True)
    assert app.inspector.count(waiting_in("mail")) == 0
    assert client.post("/job/again", {**place, "args": changed.replace("(hidden)", "new")}).status == 303
    (new,) = app.inspector.jobs(waiting_in("mail"))
    assert new.message is not None
    assert new.message.args == [{"password": "new", "to": "eve"}]


def test_again_refuses_arguments_that_are_no_list(client: Client, redis: redis_py.Redis) -> None:
    place = in_retry(redis, failed())
    assert "args: must be a JSON array" in client.post("/job/again", {**place, "args": "{}"}).text
    for text in ("[1", "[NaN]"):
        assert "args: must be JSON" in client.post("/job/again", {**place, "args": text}).text


def test_text_with_odd_characters_comes_back_from_the_form_as_it_was(client: Client, redis: redis_py.Redis) -> None:
    args = ["\u202e\x7f\u00a0\U000e0001é\n", "\\", "</textarea>"]
    place = in_retry(redis, failed(args=args))
    assert json.loads(edited(client, place)) == args


def test_a_viewer_cannot_act(app: App, redis: redis_py.Redis) -> None:
    viewer = Client(application(app, authorize=lambda environ, action: action == "view"))
    place = in_retry(redis, failed())
    page = viewer.get(where(**place)).text
    assert "/job/again" not in page
    assert "/jobs/delete" not in page
    for path in ("/job/cancel", "/job/again", "/process/stop", "/process/quiet"):
        assert viewer.post(path, {**place, "identity": "x"}).status == 403
