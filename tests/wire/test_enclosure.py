"""Payloads that Ruby cannot read: their form in the dead set, and the way back to their queue."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import in_progress, job, own_app, working
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire import enclosure, payload
from goworkers_py.wire.process_record import work
from goworkers_py.wire.ruby import ruby_flaw

HALF = rb'{"class":"J","args":["\ud800"],"jid":"x","queue":"q"}'
INFINITE = b'{"class":"J","args":[1e400],"jid":"x","queue":"q"}'
NO_JOBS = [b"12", b"[1,2]", b"null", b'"J"', b"", b"{no", b"\xff\x00\n", b"[" * 500 + b"]" * 500, b"\xef\xbb\xbf{}"]


def enclosed(raw: bytes, queue: str = "q") -> dict[str, Any]:
    """The enclosing job. Raises unless any JSON library can read it and write it again."""
    text = enclosure.readable(raw, queue, 5.5).decode("utf-8")
    fields = json.loads(text)
    assert isinstance(fields, dict)
    json.dumps(fields, allow_nan=False, ensure_ascii=False).encode("utf-8")
    return fields


@pytest.mark.parametrize("raw", NO_JOBS)
def test_a_payload_that_is_no_job_becomes_the_argument_of_a_job(raw: bytes) -> None:
    fields = enclosed(raw)
    assert enclosure.original(fields) == raw
    assert (fields["class"], fields["queue"], fields["failed_at"]) == ("pyworkers.Unreadable", "q", 5.5)
    assert fields["error_class"] == "goworkers_py.UnreadablePayload"
    assert fields["error_message"].endswith("; kept as text")
    assert len(fields["jid"]) == 24
    assert fields["jid"] != enclosed(raw)["jid"]  # two equal payloads are two entries


def test_bytes_that_are_no_text_are_enclosed_as_base64() -> None:
    fields = enclosed(b"\xff\x00")
    assert fields["args"] == [{"base64": "/wA="}]
    assert "utf-8" in fields["error_message"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (HALF, "half of a surrogate pair (\\ud800)"),
        (INFINITE, "the number 1e400, which is infinite"),
        (rb'{"a\uDFff":1}', "half of a surrogate pair"),
        (rb'{"a":"\ud83d\u0041"}', "half of a surrogate pair"),
        (rb'{"a":"\\\ud83d"}', "half of a surrogate pair"),
        (rb'{"a":"\ud800","a":1}', "half of a surrogate pair"),  # the last `a` counts, but Ruby reads the first one too
        (b'{"a":1e999,"a":1}', "the number 1e999"),
        (b'{"a":[[{"b":-1E+0400}]]}', "the number -1E+0400"),
        (b'{"a":%s.5}' % (b"9" * 400), "the number 99999999999999999999..., which"),
        (b'{"a":%se99}' % (b"9" * 250), "which is infinite"),
    ],
)
def test_a_job_that_ruby_cannot_read_keeps_its_text_and_gets_the_reason(raw: bytes, why: str) -> None:
    assert why in ruby_flaw(raw)
    fields = enclosed(raw)
    assert enclosure.original(fields) == raw
    assert why in fields["error_message"]


@pytest.mark.parametrize(
    "raw",
    [
        job("J", "é😀", 1e300, 10**30),
        rb'{"a":"\ud83d\ude00 \\ud800 \\\\ud800 1e400","jid":"5e999"}',
        b'{"a":[1e-400,1e308,-0.0,1E2],"b":%s}' % (b"9" * 5_000),
        b'{"a":"\\u0000"}',
        b"{}",
    ],
)
def test_a_payload_that_ruby_can_read_is_not_enclosed(raw: bytes) -> None:
    assert enclosure.readable(raw, "q", 1.0) is raw


def test_the_enclosing_job_shows_the_fields_of_a_failure() -> None:
    raw = payload.splice(
        HALF, {"error_class": "E", "error_message": "m", "wrapped": "Mail", "jid": "j", "created_at": 2.5, "queue": "p"}
    )
    fields = enclosed(raw, queue="")
    told = {name: fields[name] for name in ("error_class", "display_class", "jid", "created_at", "queue")}
    assert told == {"error_class": "E", "display_class": "Mail", "jid": "j", "created_at": 2.5, "queue": "p"}
    assert fields["error_message"].startswith("m; kept as text: it holds half of a surrogate pair")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"class": enclosure.CLASS},
        {"class": enclosure.CLASS, "args": ["x"], "unreadable": 1},
        {"class": enclosure.CLASS, "args": ["x"], "unreadable": {"v": 2, "as": "text"}},
        {"class": enclosure.CLASS, "args": [], "unreadable": {"v": 1, "as": "text"}},
        {"class": enclosure.CLASS, "args": ["\ud800"], "unreadable": {"v": 1, "as": "text"}},
        {"class": enclosure.CLASS, "args": [{"base64": "?"}], "unreadable": {"v": 1, "as": "base64"}},
        {"class": enclosure.CLASS, "args": [{"base64": "é"}], "unreadable": {"v": 1, "as": "base64"}},
        {"class": "J", "args": ["x"], "unreadable": {"v": 1, "as": "text"}},
    ],
)
def test_an_enclosing_job_that_others_have_changed_is_an_ordinary_job(fields: dict[str, Any]) -> None:
    assert enclosure.original(fields) is None


PIECES = [
    b'{"class":"J","args":["', b'"]}', b'"', b"[", b"]", b"{", b"}", b"\\", b"1e400",
    rb"\ud800", rb"\udc00", rb"\ud83d\ude00",
]  # fmt: skip
ODD = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8))).map(b"".join)


@given(st.one_of(ODD, st.binary()))
@example(HALF)
@example(b"1" * 5_000)
def test_any_bytes_are_enclosed_readable_and_whole(raw: bytes) -> None:
    fields = enclosed(raw)
    try:
        payload.read(raw)
        assert not ruby_flaw(raw) or enclosure.original(fields) == raw
    except UnreadablePayload:
        assert enclosure.original(fields) == raw


# --- through a daemon


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", concurrency=1), poll_interval=0.1) as app:
        yield app


@pytest.fixture
def ran(app: App) -> list[Any]:
    ran: list[Any] = []

    @app.job("J")
    def run(*args: Any) -> None:
        ran.append(list(args))
        if args != ("neighbour",):
            raise ValueError("on purpose")

    return ran


@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],  # no shrinking of a failing example
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(raws=st.lists(st.one_of(ODD, st.binary()), max_size=30))
def test_any_bytes_in_a_queue_are_run_or_are_readable_in_the_dead_set(
    raws: list[bytes], redis_url: str, redis: redis_py.Redis
) -> None:
    redis.flushdb()
    logging.disable()
    ran: list[bytes] = []
    try:
        with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:
            app.registry.handle("q", lambda message: ran.append(message.raw))
            if raws:
                redis.lpush("queue:q", *raws)
            with working(app):
                assert eventually(lambda: len(ran) + redis.zcard("dead") == len(raws))
                assert eventually(lambda: not in_progress(redis))
    finally:
        logging.disable(logging.NOTSET)
    buried = [enclosure.original(json.loads(entry.decode("utf-8"))) for entry in redis.zrange("dead", 0, -1)]
    assert None not in buried
    assert sorted(ran + [raw for raw in buried if raw is not None]) == sorted(raws)


@pytest.mark.parametrize("raw", [HALF, INFINITE])
@pytest.mark.parametrize("options", [{}, {"dead": False}], ids=["plain", "dead=False"])
def test_a_job_that_ruby_would_lose_is_buried_at_its_first_failure_and_not_retried(
    raw: bytes, options: dict[str, Any], app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    deaths: list[str] = []
    app.on_death(lambda message, error: deaths.append(str(error)))
    redis.lpush("queue:q", payload.splice(raw, {"retry": 5, **options}))
    with working(app):
        assert eventually(lambda: redis.zcard("dead") == 1)
    assert ran == [json.loads(raw)["args"]]
    [entry] = map(json.loads, redis.zrange("dead", 0, -1))
    assert (entry["display_class"], entry["jid"], entry["error_class"]) == ("J", "x", "ValueError")
    assert entry["error_message"].startswith("on purpose; kept as text: it holds ")
    inside = enclosure.original(entry) or b""
    assert json.loads(raw)["args"] == json.loads(inside)["args"]
    assert raw[1:-13] in inside  # the arguments keep their text
    assert deaths == ["on purpose"]
    assert not redis.exists("retry")


def test_a_failed_job_with_retry_false_is_not_enclosed(app: App, redis: redis_py.Redis, ran: list[Any]) -> None:
    redis.lpush("queue:q", payload.splice(HALF, {"retry": False}), job("J", "neighbour"))
    with working(app):
        assert eventually(lambda: len(ran) == 2)
        assert eventually(lambda: not in_progress(redis))
    assert not redis.exists("dead", "retry")


def test_the_enclosing_job_is_never_run_but_buried_again(
    app: App, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """As when somebody presses "Retry Now" on Sidekiq's page."""
    ran: list[bytes] = []
    app.registry.handle("q", lambda message: ran.append(message.raw))
    first = json.loads(enclosure.readable(HALF, "q", 1.0))
    redis.lpush("queue:q", json.dumps({**first, "retry_count": -1}))
    with working(app):
        assert eventually(lambda: redis.zcard("dead") == 1)
    assert ran == []
    [entry] = map(json.loads, redis.zrange("dead", 0, -1))
    assert enclosure.original(entry) == HALF
    assert "`pyworkers dead retry --jid x` puts the job itself into its queue" in entry["error_message"]


# --- running jobs in the process record


@pytest.mark.parametrize("raw", [HALF, INFINITE, rb'{"class":"\ud800","args":[],"jid":"x"}'])
def test_a_running_job_that_ruby_cannot_read_is_shown_without_its_arguments(raw: bytes) -> None:
    [told] = work({"worker": Delivery(raw, "q", "me")}).values()
    shown = json.loads(json.loads(told)["payload"])
    assert shown["jid"] == "x"
    assert shown["args"][0].startswith("not shown: it holds ")
    assert not ruby_flaw(told.encode())
