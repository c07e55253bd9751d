"""Queues of plain format: bodies that other programs push to lists of any name."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, started, working
from click.testing import CliRunner
from daemon import Daemon
from waiting import eventually

from goworkers_py import BrokerError, ConfigError, TypedMessage, current_message
from goworkers_py.api.app import App
from goworkers_py.brokers.redis.server.access import rules
from goworkers_py.cli import main
from goworkers_py.config.loader import load
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.timing import TIMING

ran: list[Any] = []
LIST = "demo.prepare"


def run(value: Any) -> None:
    ran.append(value)


def fail(value: Any) -> None:
    ran.append(value)
    raise ValueError("no")


def fail_once(value: Any) -> None:
    ran.append(value)
    message = current_message()
    assert message is not None
    if message.retry_count is None:
        raise ValueError("once")


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def plain(handler: Any = run, codec: str = "", **options: Any) -> QueueConfig:
    name = f"{__name__}:{handler.__name__}" if handler else ""
    return QueueConfig("demo", concurrency=2, handler=name, format="plain", bare_list=LIST, codec=codec, **options)


@pytest.mark.parametrize(
    ("codec", "bodies", "values"),
    [
        ("json", [b'{"content": {"a": "1"}}', b"[1, 2]", b'"text"'], [{"content": {"a": "1"}}, [1, 2], "text"]),
        ("text", ["grüße".encode(), b""], ["grüße", ""]),
        ("bytes", [b"\x00\xff", b"{"], [b"\x00\xff", b"{"]),
        ("msgpack", [b"\x81\xa1a\x01"], [{"a": 1}]),
        ("codecs_of_a_test:Upside", [b"cba"], ["abc"]),
    ],
)
def test_bodies_of_a_list_are_run_as_they_are(
    redis_url: str, redis: redis_py.Redis, codec: str, bodies: list[bytes], values: list[Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "codecs_of_a_test.py").write_text(
        "class Upside:\n"
        "    def encode(self, value): return value[::-1].encode()\n"
        "    def decode(self, body): return body.decode()[::-1]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for body in bodies:
        redis.lpush(LIST, body)  # as system A's producers do
    with own_app(redis_url, plain(codec=codec)) as app, working(app):
        assert eventually(lambda: len(ran) == len(values) and not in_progress(redis))
    assert sorted(map(repr, ran)) == sorted(map(repr, values))
    assert not redis.exists(LIST, "retry", "dead", "queue:demo")


def test_a_body_that_fails_waits_among_the_retries_and_comes_back_to_the_same_handler(
    redis_url: str, redis: redis_py.Redis
) -> None:
    redis.lpush(LIST, b'{"number": 1}')
    with own_app(redis_url, plain(fail_once), poll_interval=0.1) as app, working(app):
        assert eventually(lambda: redis.zcard("retry") == 1)
        [job] = map(json.loads, redis.zrange("retry", 0, -1))
        assert (job["class"], job["queue"], job["args"]) == ("pyworkers.PlainMessage", "demo", ['{"number": 1}'])
        assert job["plain"] == {"v": 1, "as": "text"}
        assert job["error_class"] == "ValueError"
        [raw] = redis.zrange("retry", 0, -1)
        redis.zadd("retry", {raw: time.time() - 1})
        assert eventually(lambda: len(ran) == 2 and not in_progress(redis))
    assert ran == [{"number": 1}] * 2
    assert not redis.exists(LIST, "retry", "dead", "queue:demo")


def test_two_equal_bodies_that_fail_are_two_retries(redis_url: str, redis: redis_py.Redis) -> None:
    redis.lpush(LIST, b"1", b"1", b"1")
    with own_app(redis_url, plain(fail)) as app, working(app):
        assert eventually(lambda: redis.zcard("retry") == 3)
    assert len(set(fields(list(redis.zrange("retry", 0, -1)), "jid"))) == 3


@pytest.mark.parametrize(("codec", "body"), [("json", b"{broken"), ("json", b"\xff\x00"), ("msgpack", b"\xc1")])
def test_a_body_that_cannot_be_decoded_goes_to_dead_at_once_with_every_byte_and_blocks_nobody(
    redis_url: str, redis: redis_py.Redis, codec: str, body: bytes
) -> None:
    redis.lpush(LIST, body)
    redis.lpush(LIST, b"7" if codec == "json" else b"\x07")
    with own_app(redis_url, plain(codec=codec)) as app, working(app):
        assert eventually(lambda: ran == [7] and redis.zcard("dead") == 1 and not in_progress(redis))
        assert not eventually(lambda: redis.zcard("dead") > 1, within_s=0.3)  # the original circulates it for ever
    [job] = map(json.loads, redis.zrange("dead", 0, -1))
    kept = job["args"][0].encode() if job["plain"]["as"] == "text" else base64.b64decode(job["args"][0])
    assert kept == body
    assert job["error_class"] == "goworkers_py.UnreadableBody"
    assert not redis.exists("retry", LIST)


@pytest.mark.parametrize(("threads", "prefetch"), [(1, 3), (3, 0)], ids=["some unstarted", "more consumers"])
def test_a_killed_process_leaves_its_bodies_to_the_next_one(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, threads: int, prefetch: int
) -> None:
    """The next one of the original took back the lists of as many consumers as it had itself."""
    (tmp_path / "plain.ini").write_text(
        f"[queue:demo]\nformat = plain\nlist = {LIST}\ncodec = text\nhandler = jobs:wait\n"
        f"concurrency = {threads}\nprefetch = {prefetch}\n"
    )
    jobs = """
        import time

        def wait(text):
            print("ran", text, flush=True)
            time.sleep(60)
    """
    redis.lpush(LIST, b"a", b"b", b"c")
    here = str(Path(__file__).parents[3])
    with Daemon(tmp_path, redis_url, jobs, "-c", "plain.ini", changes={"PYTHONPATH": here}) as daemon:
        daemon.says("ran a")
        assert eventually(lambda: len(in_progress(redis)) == 3 or threads == 1)
        daemon.kill()
    one = dataclasses.replace(plain(codec="text"), concurrency=1)
    with own_app(redis_url, one) as app, working(app):
        assert eventually(lambda: sorted(ran) == ["a", "b", "c"] and not in_progress(redis))
    assert not redis.exists(LIST, "queue:demo", "retry", "dead")


gate, began = threading.Event(), threading.Event()
turns = threading.Semaphore(0)


def hold(value: Any) -> None:
    began.set()
    gate.wait(20)


def block(value: Any) -> None:
    ran.append(value)
    assert turns.acquire(timeout=20)


def test_a_second_process_leaves_alone_what_the_first_one_runs(redis_url: str, redis: redis_py.Redis) -> None:
    """In the original both had the same lists of undone messages, and each gave back those of the other."""
    redis.lpush(LIST, b"1")
    one = dataclasses.replace(plain(block, prefetch=0), concurrency=1)
    with own_app(redis_url, one) as app, working(app):
        assert eventually(lambda: ran == [1])
        with own_app(redis_url, plain(run)) as second, working(second):
            redis.lpush(LIST, b"2")
            assert eventually(lambda: ran == [1, 2])
            assert not eventually(lambda: len(ran) > 2, within_s=0.3)
            assert eventually(lambda: in_progress(redis) == [b"1"])  # the second body is settled after its run
        turns.release()
        assert eventually(lambda: not in_progress(redis))
    assert (ran, redis.exists(LIST, "retry", "dead")) == ([1, 2], 0)


def test_a_process_that_knows_nothing_of_the_list_recovers_its_bodies(redis_url: str, redis: redis_py.Redis) -> None:
    redis.lpush(LIST, b"1", b"2")
    # Without a reserve: it would take one of the bodies again.
    with own_app(redis_url, plain(hold, prefetch=0), timeout=0) as app, started(app) as launcher:
        assert began.wait(20)
        owner = launcher.identity
        assert eventually(lambda: len(in_progress(redis)) == 2)
        dead = _of_dead_process(redis.hget("pyworkers:owners", owner))

        def is_recovered() -> bool:
            redis.hset("pyworkers:owners", owner, dead)  # again, because each beat of the owner writes its own entry
            return not in_progress(redis)

        timing = dataclasses.replace(TIMING, recover_every_s=0.1)
        with own_app(redis_url, QueueConfig("other"), timing=timing) as other, working(other):
            assert eventually(is_recovered)
        jobs = [*redis.lrange(LIST, 0, -1), *queue(redis, "demo")]
        gate.set()
    assert len(jobs) == 2
    assert not redis.exists("queue:demo@plain:demo.prepare")


def _of_dead_process(entry: bytes) -> bytes:
    """The entry, as if its process had died on this machine."""
    told = json.loads(entry)
    told["origin"]["pid"] = 2**22 - 1
    return json.dumps(told).encode()


def test_a_stop_gives_unstarted_bodies_back_into_the_list_as_they_were(redis_url: str, redis: redis_py.Redis) -> None:
    for number in range(6):
        redis.lpush(LIST, str(number))
    with own_app(redis_url, plain(block, prefetch=2), timeout=20) as app:
        app.start()
        # All that it takes: else the list could have four bodies before the stop has begun.
        assert eventually(lambda: len(ran) == 2 and len(in_progress(redis)) == 4)
        ending = threading.Thread(target=app.quit)
        ending.start()
        assert eventually(lambda: redis.llen(LIST) == 4)
        turns.release(2)
        ending.join(20)
    assert list(reversed(redis.lrange(LIST, 0, -1))) == [b"2", b"3", b"4", b"5"]
    assert sorted(ran) == [0, 1]


def test_lists_and_commands_show_the_list(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, plain()) as app, started(app) as launcher:
        assert eventually(lambda: redis.sismember("queues", "demo@plain:demo.prepare"))
        app.inspector.pause("demo")
        assert eventually(lambda: len(launcher.managers[0].fetcher._paused) == 2)
        redis.lpush(LIST, b"1")

        def listed() -> list[tuple[int, bool]]:
            found = [one for one in app.inspector.queues() if one.name == "demo@plain:demo.prepare"]
            return [(one.size, one.paused) for one in found]

        # A wait at the server may still have taken the body: it comes back.
        assert eventually(lambda: listed() == [(1, True)])
        assert not ran
        app.inspector.resume("demo")
        assert eventually(lambda: ran == [1])


# --- typed messages


def typed(app: App) -> Any:
    class Note(TypedMessage, channel="demo", app=app, retry=2):
        name: str
        content: dict[str, str]

        def resolve(self) -> None:
            ran.append((self, self.channel))

    return Note


def test_a_typed_message_reads_the_bodies_of_its_channel_and_sends_bare_ones(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_app(redis_url, plain(handler=None)) as app:
        note = typed(app)
        assert app.send(note("a", {"k": "v"})) is None
        assert redis.lrange(LIST, 0, -1) == [b'{"name":"a","content":{"k":"v"}}']
        redis.lpush(LIST, b'{"name": "b", "content": {}}')
        assert isinstance(app.send(note("c", {}), retry=1), str)  # as a job: a bare body has no options
        assert isinstance(app.send(note("d", {}), delay=3_600), str)
        with working(app):
            assert eventually(lambda: len(ran) == 3 and not in_progress(redis))
    assert redis.zcard("schedule") == 1
    assert sorted(one.name for one, _ in ran) == ["a", "b", "c"]
    assert {channel for _, channel in ran} == {"demo"}


def test_a_message_that_cannot_be_pushed_is_an_error_of_the_send() -> None:
    with own_app("redis://127.0.0.1:1/0", plain(handler=None)) as app, pytest.raises(BrokerError):
        app.send(typed(app)("a", {}))


def test_the_options_of_a_typed_message_hold_for_its_bodies(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, plain(handler=None)) as app:

        class Once(TypedMessage, channel="demo", app=app, retry=0):
            def resolve(self) -> None:
                raise ValueError("no")

        redis.lpush(LIST, b"{}")
        with working(app):
            assert eventually(lambda: redis.zcard("dead") == 1 and not in_progress(redis))
    assert not redis.exists("retry")


def test_a_receiver_takes_the_bodies_of_a_list(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, plain(handler=None)) as app:
        note = typed(app)
        for number in range(20):
            redis.lpush(LIST, json.dumps({"name": str(number), "content": {}}))
        with app.receive(note, consumers=3):
            assert eventually(lambda: len(ran) == 20 and not in_progress(redis))
        with app.receive(note, consumers=1):  # fewer than before
            app.send(note("last", {}))
            assert eventually(lambda: len(ran) == 21)


def test_plain_format_works_without_a_server() -> None:
    with own_app("memory://", plain(handler=None)) as app:
        note = typed(app)
        app.send(note("a", {}))
        with working(app):
            assert eventually(lambda: [one.name for one, _ in ran] == ["a"])


def test_a_queue_without_code_for_its_bodies_is_refused(redis_url: str) -> None:
    with own_app(redis_url, plain(handler=None)) as app, pytest.raises(ConfigError, match="there is no message class"):
        app.runner.plan()


# --- leftovers of the consumers of another program


def test_leftovers_of_other_consumers_are_taken_back_by_a_command(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    file = tmp_path / "plain.ini"
    file.write_text(
        f"[pyworkers]\nredis = {redis_url}\n"
        f"[queue:demo]\nformat = plain\nlist = {LIST}\nin_progress = demo.doing{{n}}\nhandler = jobs:run\n"
    )
    redis.lpush("demo.doing0", b"old", b"new")  # consumer 0, whose stop the original forgets
    redis.lpush("demo.doing12", b"other")  # of an earlier run with more consumers
    redis.lpush("demo.doings", b"of somebody else")
    redis.lpush(LIST, b"first")
    asked = CliRunner().invoke(main, ["recover", "--plain", "demo", "-c", str(file)], input="n\n")
    assert "take 3 jobs of demo.doing0 (2), demo.doing12 (1) back into demo.prepare" in asked.output
    assert redis.llen("demo.doing0") == 2
    done = CliRunner().invoke(main, ["recover", "--plain", "demo", "-c", str(file), "--yes"])
    assert done.exit_code == 0, done.output
    assert list(reversed(redis.lrange(LIST, 0, -1))) == [b"first", b"old", b"new", b"other"]
    assert redis.lrange("demo.doings", 0, -1) == [b"of somebody else"]
    again = CliRunner().invoke(main, ["recover", "--plain", "demo", "-c", str(file), "--yes"])
    assert (again.exit_code, "no list demo.doing{n} holds a body" in again.output) == (1, True)
    wrong = CliRunner().invoke(main, ["recover", "--plain", "other", "-c", str(file), "--yes"])
    assert (wrong.exit_code, "queue other has no lists of other consumers" in wrong.output) == (1, True)


def test_a_list_of_thousands_of_leftovers_is_taken_back_as_a_whole(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    file = tmp_path / "plain.ini"
    file.write_text(
        f"[pyworkers]\nredis = {redis_url}\n"
        f"[queue:demo]\nformat = plain\nlist = {LIST}\nin_progress = demo.doing{{n}}\nhandler = jobs:run\n"
    )
    bodies = [str(number).encode() for number in range(2_500)]
    redis.lpush("demo.doing0", *bodies)
    done = CliRunner().invoke(main, ["recover", "--plain", "demo", "-c", str(file), "--yes"])
    assert done.exit_code == 0, done.output
    assert list(reversed(redis.lrange(LIST, 0, -1))) == bodies
    assert not redis.exists("demo.doing0")


def test_bodies_that_a_release_without_lists_has_recovered_go_back_into_the_list(
    redis_url: str, redis: redis_py.Redis
) -> None:
    redis.lpush("queue:demo@plain:demo.prepare", b"1", b"2")
    with own_app(redis_url, plain()) as app, working(app):
        assert eventually(lambda: sorted(ran) == [1, 2] and not in_progress(redis))
    assert not redis.exists("queue:demo@plain:demo.prepare", LIST, "dead", "retry")


# --- the configuration


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("list = demo", r"\[queue:q\] list: add format = plain"),
        ("codec = text", r"\[queue:q\] codec: add format = plain"),
        ("format = plain\nlist = demo\nin_progress = demo.doing", r"in_progress must have \{n\}"),
        ("format = plain\nlist = demo\npriorities = yes", "priorities: bodies of a plain list have none"),
    ],
)
def test_a_wrong_section_says_what_to_write(tmp_path: Path, lines: str, told: str) -> None:
    file = tmp_path / "conf.ini"
    file.write_text(f"[queue:q]\n{lines}\n")
    with pytest.raises(ConfigError, match=told):
        load(file, {})


def test_a_section_without_a_list_takes_the_bodies_of_the_list_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "conf.ini"
    file.write_text("[queue:q]\nformat = plain\n[queue:other]\nformat = plain\nlist = demo\n[queue:jobs]\n")
    assert [(queue.name, queue.bare_list) for queue in load(file, {}).queues] == [
        ("q", "q"), ("other", "demo"), ("jobs", ""),
    ]  # fmt: skip


def test_a_wrong_codec_says_which_there_are(redis_url: str) -> None:
    with own_app(redis_url, plain(codec="jason")) as app, pytest.raises(ConfigError, match="choose json, text, bytes"):
        app.runner.plan()


def test_the_access_rules_name_the_lists() -> None:
    config = dataclasses.replace(Config(), queues=(plain(in_progress="demo.doing{n}"),))
    assert {"~demo.prepare", "~demo.doing*"} <= set(rules(config))
    assert not [word for word in rules(Config()) if "demo" in word]
