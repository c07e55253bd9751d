"""Payloads that no well-behaved producer writes: each ends where it should, its neighbours run, nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_app, queue, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.wire import enclosure

DEEP = 10_000
MEGABYTE = 1 << 20


def nested(levels: int, args_in: str = '{"class":"J","args":%s}') -> bytes:
    return (args_in % ("[" * levels + "]" * levels)).encode()


UNREADABLE = {
    "not UTF-8": b'{"class":"J","args":["\xff\xfe"]}',
    "UTF-16": '{"class":"J","args":[]}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"class":"J","args":[]}',
    "not JSON": b"{class: J}",
    "empty": b"",
    "binary": bytes(range(256)),
    "cut short": b'{"class":"J","args":[1,',
    "followed by something": b'{"class":"J","args":[]} {"class":"J"}',
    "NaN": b'{"class":"J","args":[NaN]}',
    "Infinity": b'{"class":"J","args":[-Infinity]}',
    "an array": b'[{"class":"J"}]',
    "null": b"null",
    "a number": b"7",
    "text": b'"J"',
    "a comment": b'{"class":"J","args":[] /* Ruby allows it */}',
    "a line end in a string": b'{"class":"J","args":["a\nb"]}',
    "nested too deep": nested(DEEP),
    "objects nested too deep": b'{"class":"J","args":[' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]}",
    "nested without an end": b'{"class":"J","args":' + b"[" * DEEP,
}


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def app(redis_url: str, ran: list[Any]) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:

        @app.job("J")
        def run(*args: Any) -> None:
            ran.append(list(args))

        yield app


def run_between_neighbours(app: App, redis: redis_py.Redis, ran: list[Any], *raws: bytes) -> None:
    """Until everything has ended somewhere."""
    redis.lpush("queue:q", job("J", "before"), *raws, job("J", "after"))
    with working(app):
        assert eventually(lambda: ran[-1:] == [["after"]])
        assert eventually(lambda: not in_progress(redis))
    assert ran[0] == ["before"]
    assert not queue(redis)


def buried(redis: redis_py.Redis) -> list[bytes | None]:
    """The payloads that the dead set holds as text."""
    return [enclosure.original(json.loads(entry.decode("utf-8"))) for entry in redis.zrange("dead", 0, -1)]


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_job_goes_to_the_dead_set_as_text(
    raw: bytes, app: App, redis: redis_py.Redis, ran: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    run_between_neighbours(app, redis, ran, raw)
    assert buried(redis) == [raw]
    assert ran == [["before"], ["after"]]
    assert not redis.exists("retry")
    assert caplog.text.count("queue q: a payload is no job and goes to the dead set: ") == 1
    assert len(max(caplog.messages, key=len)) < 500


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("key", ["schedule", "retry"])
def test_what_is_no_job_goes_from_a_waiting_set_to_the_dead_set_too(
    key: str, raw: bytes, app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    redis.zadd(key, {job("J", "before"): 1, raw: 2, job("J", "after"): 3})
    with working(app):
        assert eventually(lambda: ran == [["before"], ["after"]])
        assert eventually(lambda: buried(redis) == [raw])
    assert not redis.exists(key)
    assert not in_progress(redis)


@pytest.mark.parametrize(
    ("raw", "error_class", "message"),
    [
        (b'{"jid":"x","args":[]}', "goworkers_py.UnknownJob", "the job names no class"),
        (b'{"class":null,"jid":"x","args":[]}', "goworkers_py.UnknownJob", "the job names no class"),
        (b'{"class":["J"],"jid":"x","args":[]}', "goworkers_py.UnknownJob", "the job names no class"),
        (b'{"class":"Nobody","jid":"x","args":[]}', "goworkers_py.UnknownJob", "registered as 'Nobody'"),
    ],
)
def test_a_job_that_cannot_be_run_is_retried_with_a_clear_error(
    raw: bytes, error_class: str, message: str, app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    run_between_neighbours(app, redis, ran, raw)
    assert ran == [["before"], ["after"]]
    (entry,) = map(json.loads, redis.zrange("retry", 0, -1))
    assert (entry["jid"], entry["error_class"], entry["retry_count"]) == ("x", error_class, 0)
    assert message in entry["error_message"]
    assert not redis.exists("dead")


@pytest.mark.parametrize(("args", "kind"), [('{"a":1}', "dict"), ('"ab"', "str"), ("7", "int"), ("false", "bool")])
def test_a_job_whose_args_are_no_list_is_dead_at_once_as_no_ruby_could_promote_its_retry(
    args: str, kind: str, app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    raw = b'{"class":"J","jid":"x","args":%s}' % args.encode()
    run_between_neighbours(app, redis, ran, raw)
    assert ran == [["before"], ["after"]]
    (entry,) = map(json.loads, redis.zrange("dead", 0, -1))
    assert (entry["jid"], entry["error_class"]) == ("x", "goworkers_py.ArgumentError")
    assert f"must be an array, is {kind}" in entry["error_message"]
    assert not redis.exists("retry")


@pytest.mark.parametrize(
    ("raw", "args"),
    [
        (b'{"class":"J"}', []),
        (b'{"class":"J","args":null}', []),
        (b'{"class":"J","args":[1]}', [1]),
        (b'{"class":"J","args":[1],"jid":null}', [1]),
        (b'{"class":"J","args":[1],"jid":7,"queue":[],"retry":"x","retry_count":"y","tags":5,"at":"z"}', [1]),
        (b' \n{"class" :\t"J", "args": [ 1 ]}\n', [1]),
        (b'{"class":"X","args":[2],"class":"J","args":[1]}', [1]),
        (b'{"class":"J","args":["\\ud800"]}', ["\ud800"]),
    ],
)
def test_a_job_that_lacks_something_or_has_it_odd_is_run_all_the_same(
    raw: bytes, args: list[Any], app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    run_between_neighbours(app, redis, ran, raw)
    assert ran == [["before"], args, ["after"]]
    assert not redis.exists("dead", "retry")


def test_two_equal_jobs_without_a_jid_that_fail_are_two_retries(
    app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    run_between_neighbours(app, redis, ran, *[b'{"class":"Nobody","retry":true}'] * 2)
    assert len(set(fields(redis.zrange("retry", 0, -1), "jid"))) == 2


def test_the_deepest_nesting_that_ruby_reads_is_run(app: App, redis: redis_py.Redis, ran: list[Any]) -> None:
    run_between_neighbours(app, redis, ran, nested(99))
    assert len(ran) == 3
    assert not redis.exists("dead")


def test_an_argument_of_5_megabytes_is_run_and_retried_unchanged(
    app: App, redis: redis_py.Redis, ran: list[Any]
) -> None:
    text = "ü" * (5 * MEGABYTE // 2)

    @app.job("Fails")
    def fails(given: str) -> None:
        raise ValueError(given)

    run_between_neighbours(app, redis, ran, job("J", text), job("Fails", text, jid="x"))
    assert ran[1] == [text]
    (entry,) = map(json.loads, redis.zrange("retry", 0, -1))
    assert entry["args"] == [text]
    assert entry["error_message"] == "ü" * 10_000


def test_a_queue_with_an_odd_name_is_worked_like_any(redis_url: str, redis: redis_py.Redis, ran: list[Any]) -> None:
    name = "größe:queue:x y"
    with own_app(redis_url, QueueConfig(name, concurrency=1)) as app:
        app.registry.handle(name, lambda message: ran.append(message.queue))
        with working(app):
            app.enqueue(name, "J", [])
            app.enqueue_in(name, "J", 0.1, [])
            assert eventually(lambda: ran == [name, name])
        assert not in_progress(redis)


def test_a_queues_key_of_another_type_does_not_keep_other_queues_from_being_worked(
    redis_url: str, redis: redis_py.Redis, ran: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    redis.set("queue:broken", "somebody's string")
    with own_app(redis_url, QueueConfig("broken"), QueueConfig("q")) as app:
        for name in ("broken", "q"):
            app.registry.handle(name, lambda message: ran.append(message.queue))
        with working(app):
            app.enqueue("q", "J", [])
            assert eventually(lambda: ran == ["q"])
            assert eventually(lambda: "WRONGTYPE" in caplog.text)
            redis.delete("queue:broken")
            app.enqueue("broken", "J", [])
            assert eventually(lambda: ran == ["q", "broken"])
    assert "fetcher:broken: Redis refuses: WRONGTYPE: queue:broken is a string; rename or delete" in caplog.text
    assert caplog.text.count("WRONGTYPE") == 1
