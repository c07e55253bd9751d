"""Which ends of jobs have an echo, and what is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.server import access
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.effect import PushJobs
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.outcome import (
    CANCELLED,
    DONE,
    EXPIRED,
    REQUEUE,
    UNACKNOWLEDGED,
    Dead,
    Discard,
    Outcome,
    Park,
    Reschedule,
    Retry,
)
from goworkers_py.features.for_ruby.end import Echoes, pushed
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.wire.message import Message

ALL = Echoes("echoes")
# With spaces and a number that only its text keeps.
MARKED = b'{"class": "A", "jid":"j", "bid":"b1", "args":[1.0e+16],"queue":"py","retry":true}'


def echoed(raw: bytes, outcome: Outcome, echoes: Echoes = ALL) -> tuple[PushJobs, ...]:
    return echoes.of_run(Message(raw, "py"), outcome)


def job(**more: Any) -> bytes:
    return json.dumps({"class": "A", "jid": "j", "args": [], **more}).encode()


def test_the_echo_of_a_success_is_the_payload_byte_for_byte() -> None:
    assert echoed(MARKED, DONE) == (pushed("j", "echoes", MARKED),)


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (Dead(job(error_class="shop.Broken", error_message="no é")), {"end": "dead", "error": "shop.Broken: no é"}),
        (Dead(b'{"class":"A"}'), {"end": "dead"}),
        (Discard("not wanted"), {"end": "discarded", "error": "not wanted"}),
        (Discard(), {"end": "discarded"}),
        (CANCELLED, {"end": "cancelled"}),
        (EXPIRED, {"end": "expired"}),
    ],
)
def test_the_echo_of_any_other_end_is_no_success_and_is_not_retried(outcome: Outcome, end: dict[str, str]) -> None:
    [echo] = echoed(MARKED, outcome)
    told = json.loads(echo.pushes[0].payload)
    assert told.pop("pyworkers_echo") == {"v": 1, **end}
    assert told == {**json.loads(MARKED), "retry": False}
    assert b"1.0e+16" in echo.pushes[0].payload


@pytest.mark.parametrize(
    "outcome",
    [Retry(1.0, MARKED), Reschedule(1.0, MARKED), REQUEUE, Park("line"), UNACKNOWLEDGED],
    ids=lambda one: type(one).__name__,
)
def test_a_job_that_goes_on_has_no_echo(outcome: Outcome) -> None:
    assert echoed(MARKED, outcome) == ()


def test_an_echo_that_fails_in_ruby_does_not_go_to_the_queue_of_the_retries() -> None:
    [echo] = echoed(job(bid="b", retry_queue="py"), DONE)
    assert json.loads(echo.pushes[0].payload) == json.loads(job(bid="b"))


@pytest.mark.parametrize(
    ("fields", "of_all", "without_batches", "without_locks"),
    [
        ({}, 0, 0, 0),
        ({"bid": "b"}, 1, 0, 1),
        ({"lock_digest": "d"}, 1, 1, 0),
        ({"unique_for": 600}, 1, 1, 0),
        ({"unique_for": False}, 0, 0, 0),
        ({"bid": None}, 0, 0, 0),
        ({"bid": "b", "lock_digest": "d"}, 1, 1, 1),
        ({"bid": "b", "jid": None}, 0, 0, 0),
        ({"bid": "b", "args": ["\ud800"]}, 0, 0, 0),  # Ruby could not read it
    ],
)
def test_only_the_jobs_of_batches_and_locks_of_ruby_have_an_echo(
    fields: dict[str, Any], of_all: int, without_batches: int, without_locks: int
) -> None:
    for echoes, count in [
        (ALL, of_all),
        (Echoes("echoes", batches=False), without_batches),
        (Echoes("echoes", locks=False), without_locks),
    ]:
        assert len(echoed(job(**fields), DONE, echoes)) == count
        assert len(echoes.of_move(job(**fields), "dead")) == count


def test_a_job_that_is_moved_to_its_end_has_an_echo_too() -> None:
    [buried] = ALL.of_move(MARKED, "dead", "PoisonPill: it killed")
    assert json.loads(buried.pushes[0].payload)["pyworkers_echo"] == {
        "v": 1,
        "end": "dead",
        "error": "PoisonPill: it killed",
    }
    [deleted] = ALL.of_move(MARKED, "cancelled")
    assert json.loads(deleted.pushes[0].payload)["pyworkers_echo"] == {"v": 1, "end": "cancelled"}
    assert ALL.of_move(MARKED, "waiting") == ALL.of_move(MARKED, "scheduled") == ()
    assert ALL.of_move(b'no job but "bid"', "dead") == ()


def test_no_job_has_an_echo_unless_a_queue_is_named() -> None:
    assert Echoes.of(EchoConfig()) is None
    assert Echoes.of(EchoConfig("q", batches=False, locks="none")) is None
    assert Echoes.of(EchoConfig("q", locks="none")) == Echoes("q", batches=True, locks=False)


def test_a_process_does_not_work_the_queue_of_its_echoes() -> None:
    with pytest.raises(ConfigError, match="mail is a queue of this process"):
        Config(queues=(QueueConfig("mail"),), sections=(EchoConfig("mail"),))


@pytest.mark.parametrize("echo", ["sync", "sync@high"])
def test_an_echo_queue_that_the_code_makes_this_process_work_is_refused(echo: str) -> None:
    app = App()
    app.use(Config(broker="memory://echo_loop", sections=(EchoConfig(queue=echo),)))
    app.job("Sync", queue="sync", priority="low")(lambda: None)
    with pytest.raises(ConfigError, match=rf"\[echo\] queue: {echo} is a queue of this process"):
        app.runner.plan()


def test_an_echo_queue_with_a_handler_in_this_process_is_refused() -> None:
    app = App()
    app.use(Config(broker="memory://echo_loop", sections=(EchoConfig(queue="mail"),)))
    app.process("mail", lambda message: None, 1)
    with pytest.raises(ConfigError, match=r"\[echo\] queue: mail is a queue of this process"):
        app.runner.plan()


def test_the_locks_of_ruby_need_a_pattern_of_keys_only_where_they_are_freed_here() -> None:
    assert "~uniquejobs:*" in access.rules(Config(sections=(EchoConfig(locks="native"),)))
    assert "~uniquejobs:*" not in access.rules(Config())
