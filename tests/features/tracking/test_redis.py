"""Long values of the record of a tracked job are in pieces, so that Redis keeps the record in little memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import own_app, working
from verbs import KEYS, batch_of, job, publish
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Requeue
from goworkers_py.features.tracking.contract import Records, RunningMark
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.record import MOST_MOVES
from goworkers_py.features.tracking.redis_part import record_key
from goworkers_py.wire.message import current_message

TRACKED = TrackedJob("1", "Job")
HOST = "report-worker-7c9d8f6b5c-x2x4z.reporting"  # 40 characters
LONG_HOST = "h" * 63


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", 1)) as app:
        yield app


def is_small(redis: redis_py.Redis, jid: str) -> bool:
    return redis.object("ENCODING", record_key(KEYS, jid)) in (b"listpack", b"ziplist")


@pytest.mark.parametrize("host", [HOST, LONG_HOST])
def test_a_job_that_ran_for_long_on_a_machine_with_a_long_name_is_kept_in_little_memory(
    app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("DYNO", host)
    seen = threading.Event()
    jid = str(app.job("Slow", queue="q", retain=60)(lambda: seen.wait(20)).enqueue())
    with working(app):
        assert eventually(lambda: [move.state for move in app.status(jid).timeline] == ["waiting", "running"])
        owner = app.status(jid).owner
        assert owner.startswith(f"{host}:")
        assert is_small(redis, jid)
        seen.set()
        assert eventually(lambda: app.status(jid).state == "completed")
    moves = [(move.state, move.reason) for move in app.status(jid).timeline]
    assert moves == [("waiting", "pushed"), ("running", f"in {owner}"), ("completed", "")]
    assert app.status(jid).owner == ""
    assert is_small(redis, jid)


@pytest.mark.parametrize("length", [100, 900])
def test_a_result_is_kept_in_little_memory(app: App, redis: redis_py.Redis, length: int) -> None:
    jid = str(app.job("Long", queue="q", retain=60)(lambda: "r" * length).enqueue())
    with working(app):
        assert app.result(jid, timeout=20) == "r" * length
    assert is_small(redis, jid)


def test_a_failure_and_progress_are_kept_in_little_memory(app: App, redis: redis_py.Redis) -> None:
    def fail() -> None:
        current_message().progress(1, 2, "p" * 100)
        raise ValueError("f" * 900)

    jid = str(app.job("Failing", queue="q", track=True)(fail).enqueue())
    with working(app):
        assert eventually(lambda: app.status(jid).state == "retry")
    status = app.status(jid)
    assert (status.error_message, status.progress and status.progress.text) == ("f" * 900, "p" * 100)
    assert is_small(redis, jid)


def test_progress_of_a_job_that_runs_is_kept_in_little_memory(app: App, redis: redis_py.Redis) -> None:
    def tell() -> None:
        current_message().progress(1, 2, "p" * 100)
        assert eventually(lambda: app.status(jid).progress)
        told.append((app.status(jid).progress.text, is_small(redis, jid)))  # type: ignore[union-attr]

    told: list[tuple[str, bool]] = []
    jid = str(app.job("Telling", queue="q", track=True)(tell).enqueue())
    with working(app):
        assert eventually(lambda: told == [("p" * 100, True)])


def move(broker: RedisBroker, owner: str, reason: str) -> None:
    """The job of the queue begins, tells progress and is given back."""
    [one] = broker.transport.consume(owner, [("q", 1)], 1)
    assert broker.require_part(Records).mark_running([RunningMark(TRACKED, one, '[1.0,2.0,"",3.0]', True)]) == [True]
    note = NoteState(TRACKED, "waiting", reason, 60)
    assert broker.transport.settle(batch_of((one, Requeue(effects=(note,))))) == [True]


def test_nothing_is_left_of_moves_that_are_not_kept(broker: RedisBroker, redis: redis_py.Redis) -> None:
    publish(broker, job(1))
    reason, owner = "r" * 300, f"{LONG_HOST}:1:aaaaaaaaaaaa"
    for _ in range(MOST_MOVES // 2 + 5):
        move(broker, owner, reason)
    record = broker.require_part(Records).record("1")
    assert record is not None
    assert [move.reason for move in record.timeline] == [f"in {owner}", reason] * (MOST_MOVES // 2)
    told = {int(name[1:].split(b":")[0]) for name in redis.hkeys(record_key(KEYS, "1")) if name[1:2].isdigit()}
    assert told == set(range(11, MOST_MOVES + 11))


def test_processes_with_long_names_are_told_apart(broker: RedisBroker) -> None:
    publish(broker, job(1))
    owner, other = f"{LONG_HOST}:1:aaaaaaaaaaaa", f"{LONG_HOST}:1:bbbbbbbbbbbb"
    [one] = broker.transport.consume(owner, [("q", 1)], 1)
    late = Delivery(one.payload, "q", other, one.receipt)
    progress = '[1.0,2.0,"",3.0]'
    assert broker.require_part(Records).mark_running([RunningMark(TRACKED, one, None, True)]) == [True]
    assert broker.require_part(Records).mark_running([RunningMark(TRACKED, late, progress, False)]) == [False]
    assert broker.require_part(Records).mark_running([RunningMark(TRACKED, one, progress, False)]) == [True]
