"""The links: pure where they are, and on a real server where their meaning is what the server holds afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, queue, working
from link_calls import fails_with, message
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.core.outcome import CANCELLED, DONE, LOST, UNACKNOWLEDGED, Outcome, Reschedule, Retry
from goworkers_py.links.chain import Links, Middleware, adapt, wrap_all
from goworkers_py.links.log import log_runs
from goworkers_py.links.stats import stats
from goworkers_py.observe.run_stats import RESULTS, RUN_SUM, WAIT_SUM, RunStats
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

NOW = 1_700_000_000.0
RETRY = Retry(NOW, b"{}")


class Link:
    """A user's link from a function."""

    def __init__(self, call: Callable[[str, Message, Callable[[], bool]], bool | None]) -> None:
        self.call = call


def traced(name: str, trace: list[str]) -> Middleware:
    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        trace.append(f"{name} in")
        acknowledge = call_next()
        trace.append(f"{name} out")
        return acknowledge

    return Link(call)


# --- the shape of the chain


def test_the_first_wrap_is_the_outermost() -> None:
    trace: list[str] = []
    run = wrap_all(lambda message: DONE, [adapt(traced("a", trace)), adapt(traced("b", trace))])
    assert run(message()) is DONE
    assert trace == ["a in", "b in", "b out", "a out"]


@pytest.mark.parametrize(
    ("returns", "inner", "outcome"),
    [
        (True, DONE, DONE),
        (True, RETRY, RETRY),
        (False, DONE, UNACKNOWLEDGED),
        (False, RETRY, UNACKNOWLEDGED),
        (True, UNACKNOWLEDGED, DONE),
        (None, DONE, DONE),  # a forgotten return: what it was given
        (None, RETRY, RETRY),
        (None, UNACKNOWLEDGED, UNACKNOWLEDGED),
        (True, LOST, LOST),  # another process has the job
        (False, LOST, LOST),
    ],
)
def test_a_link_decides_by_what_it_returns(returns: Any, inner: Outcome, outcome: Outcome) -> None:
    told = []

    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        told.append(call_next())
        return returns  # type: ignore[no-any-return]

    assert adapt(Link(call))(lambda message: inner)(message()) == outcome
    assert told == [inner not in (UNACKNOWLEDGED, LOST)]


def test_a_link_that_acknowledges_without_running_the_job_ends_it() -> None:
    assert adapt(Link(lambda queue, message, call_next: True))(fails_with(AssertionError()))(message()) is DONE


def test_a_link_that_returns_nothing_without_running_the_job_leaves_it_unacknowledged() -> None:
    assert (
        adapt(Link(lambda queue, message, call_next: None))(fails_with(AssertionError()))(message()) is UNACKNOWLEDGED
    )


def test_prepended_links_go_before_those_prepended_earlier_and_appended_ones_behind() -> None:
    links, made = Links(), [traced(str(number), []) for number in range(4)]
    links.prepend(made[0])
    links.prepend(made[1])
    links.append(made[2])
    links.append(made[3])
    assert (links.prepended, links.appended) == ([made[1], made[0]], [made[2], made[3]])


# --- log and stats


@pytest.mark.parametrize(
    ("outcome", "line"),
    [(DONE, "done"), (UNACKNOWLEDGED, "ended unacknowledged"), (LOST, "ended with a lost lease"),
     (RETRY, "ended in failure"), (Reschedule(NOW, b"{}"), "ended to run again"), (CANCELLED, "ended as cancelled")],
)  # fmt: skip
def test_a_run_is_logged_at_its_start_and_its_end(
    outcome: Outcome, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "goworkers_py"):
        assert log_runs(Registry())(lambda message: outcome)(message()) is outcome
    start, end = caplog.records
    assert (start.getMessage(), end.getMessage()) == ("start", line)
    assert vars(end)["elapsed"] >= 0


def test_runs_are_not_logged_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "goworkers_py"):
        assert log_runs(Registry())(lambda message: DONE)(message()) is DONE
    assert not caplog.records


def test_stats_count_each_outcome_and_measure_the_durations() -> None:
    tally, pace = RunStats(), AdaptivePrefetch(None, 1)
    link = stats(tally, pace)
    for outcome in (DONE, DONE, RETRY, UNACKNOWLEDGED):
        begun = message(enqueued_at=NOW + 0.5)
        begun.begun_at = NOW + 2
        assert link(lambda message, outcome=outcome: outcome)(begun) is outcome  # type: ignore[misc]
    ((name, row),) = tally.snapshot().items()
    assert name == "J"
    assert dict(zip(RESULTS, row[:RUN_SUM], strict=True)) == {
        "done": 2, "retried": 1, "dead": 0, "discarded": 0, "requeued": 0, "unacknowledged": 1, "cancelled": 0,
        "expired": 0,
    }  # fmt: skip
    assert row[WAIT_SUM] == 4 * 1.5
    assert tally.ended == 4
    assert pace.reserve() > 0  # so short a job that it pays to hold some


# --- perform: finding the code and running it


@pytest.fixture
def seen() -> list[Any]:
    return []


# --- on a server: what the links leave there


def test_links_stand_in_the_order_prepended_ours_appended_the_queues_own(app: App, seen: list[Any]) -> None:
    def first_failure(message: Message, error: BaseException) -> None:
        seen.append("our retry")

    def last(message: Message) -> None:
        seen.append("job")
        raise ValueError

    for name in ("inner", "outer"):
        app.middleware.prepend(traced(f"prepended {name}", seen))
        app.middleware.append(traced(f"appended {name.replace('inner', '1').replace('outer', '2')}", seen))
    app.on_error(first_failure)
    app.process("q", last, 1, traced("queue 1", seen), traced("queue 2", seen))
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: "prepended outer out" in seen)
    assert seen == [
        "prepended outer in", "prepended inner in", "appended 1 in", "appended 2 in", "queue 1 in", "queue 2 in",
        "job", "our retry", "prepended inner out", "prepended outer out",
    ]  # fmt: skip


def test_a_job_that_is_not_acknowledged_stays_in_progress_and_is_back_in_its_queue_after_stop(
    app: App, redis: redis_py.Redis, seen: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_odd(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        return call_next() and message.args[0] % 2 == 0

    app.middleware.append(Link(refuse_odd))
    app.process("q", lambda message: seen.append(message.args[0]), 1)
    jids = app.enqueue_bulk("q", "J", [[1], [2], [3], [4]])
    with working(app):
        assert eventually(lambda: len(seen) == 4 and len(in_progress(redis)) == 2)
        assert set(fields(in_progress(redis), "jid")) == {jids[0], jids[2]}
        assert not queue(redis)
    assert fields(queue(redis), "jid") == [jids[0], jids[2]]
    assert not in_progress(redis)
    assert redis.get("stat:processed") == b"2"
    assert caplog.text.count("not acknowledged, stays in progress until this process stops: class=J jid=") == 2
    assert caplog.text.count("was not acknowledged, requeued: class=J jid=") == 2
    assert "not finished in time" not in caplog.text


def test_a_link_that_swallows_an_exception_has_the_job_acknowledged(
    app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def swallow(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        try:
            return call_next()
        except ZeroDivisionError as error:
            seen.append(error)
            return True

    app.middleware.append(Link(swallow))
    app.process("q", lambda message: 1 // 0, 1)
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: redis.get("stat:processed") == b"1")
    assert len(seen) == 1
    assert not redis.exists("retry", "dead", "queue:q", "stat:failed")


@pytest.mark.parametrize("place", ["prepend", "append"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_link_that_raises_has_the_job_retried(
    place: str, moment: str, app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        if moment == "before":
            raise LookupError("the link's own")
        call_next()
        raise LookupError("the link's own")

    getattr(app.middleware, place)(Link(call))
    app.process("q", lambda message: seen.append("job"), 1)
    with working(app):
        jid = app.enqueue("q", "J", [])
        assert eventually(lambda: redis.zcard("retry"))
    (entry,) = (json.loads(raw) for raw in redis.zrange("retry", 0, -1))
    assert (entry["jid"], entry["error_class"], entry["error_message"]) == (jid, "LookupError", "the link's own")
    assert seen == ([] if moment == "before" else ["job"])
    assert not in_progress(redis)
    assert not queue(redis)


def test_a_link_that_changes_the_arguments_changes_neither_what_is_acknowledged_nor_what_is_retried(
    app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def change(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        message.args[0]["secret"] = "decrypted"
        message.args = [*message.args, "added"]
        return call_next()

    def run(message: Message) -> None:
        seen.append(message.args)
        if message.args[0]["fail"]:
            raise ValueError

    app.middleware.append(Link(change))
    app.process("q", run, 1)
    with working(app):
        app.enqueue("q", "J", [{"fail": False}])
        app.enqueue("q", "J", [{"fail": True}])
        assert eventually(lambda: redis.zcard("retry") and redis.get("stat:processed") == b"2")
        assert not in_progress(redis)
    assert seen == [[{"fail": fail, "secret": "decrypted"}, "added"] for fail in (False, True)]
    assert fields(redis.zrange("retry", 0, -1), "args") == [[{"fail": True}]]
