"""on_health: the user's functions are told when the server is lost and found again, and can harm nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from apps import own_app
from servers import RedisServer
from waiting import eventually

from goworkers_py import HealthEvent
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.runtime.alive.health_handlers import MOST_EVENTS, HealthHandler, HealthHandlers
from goworkers_py.runtime.outage import Outage

GONE = BrokerUnavailable("connection refused")


def quiet() -> bool:
    return not any(thread.name == "on-health" for thread in threading.enumerate())


@pytest.fixture
def told() -> list[HealthEvent]:
    return []


@pytest.fixture
def outage_of() -> Iterator[Callable[..., Outage]]:
    yield lambda *handlers: Outage("Redis", HealthHandlers(handlers))
    assert eventually(quiet)


def test_the_begin_and_the_end_of_an_outage_are_told_once_each(
    outage_of: Callable[..., Outage], told: list[HealthEvent]
) -> None:
    outage = outage_of(told.append)
    for who in ("fetcher", "settler", "fetcher"):
        outage.failed(who, GONE)
    outage.recovered("fetcher")
    outage.recovered("settler")
    assert eventually(lambda: len(told) == 2)
    lost, found = told
    assert lost == HealthEvent(True, "Redis", GONE, 0.0)
    assert (found.lost, found.broker, found.error) == (False, "Redis", None)
    assert found.lasted_s > 0


def test_a_refusal_is_no_loss_and_a_stop_during_an_outage_finds_nothing(
    outage_of: Callable[..., Outage], told: list[HealthEvent]
) -> None:
    outage = outage_of(told.append)
    outage.failed("fetcher", BrokerRefused("WRONGTYPE"))
    outage.recovered("fetcher")
    outage.failed("fetcher", GONE)
    outage.forget("fetcher")
    assert eventually(quiet)
    assert [event.lost for event in told] == [True]


def test_a_handler_that_raises_is_logged_and_the_others_are_told(
    outage_of: Callable[..., Outage], told: list[HealthEvent], caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: HealthEvent) -> None:
        raise SystemExit

    outage_of(fails, told.append).failed("fetcher", GONE)
    assert eventually(lambda: len(told) == 1)
    assert "fails" in caplog.text


def test_a_slow_handler_holds_up_no_other_thread_and_gets_the_events_in_order(
    outage_of: Callable[..., Outage], told: list[HealthEvent]
) -> None:
    go_on, entered = threading.Event(), threading.Event()

    def slow(event: HealthEvent) -> None:
        entered.set()
        go_on.wait(10)
        told.append(event)

    outage = outage_of(slow)
    outage.failed("fetcher", GONE)
    assert entered.wait(10)
    for _ in range(MOST_EVENTS):
        outage.recovered("fetcher")
        outage.failed("fetcher", GONE)
    assert told == [], "the threads above went on"
    go_on.set()
    assert eventually(lambda: len(told) == 1 + MOST_EVENTS)
    assert [event.lost for event in told] == [True, *[False, True] * (MOST_EVENTS // 2)]


def test_without_handlers_there_is_no_thread() -> None:
    handlers: list[HealthHandler] = []
    HealthHandlers(handlers).tell(HealthEvent(True, "Redis", GONE))
    assert quiet()


def test_a_thread_that_cannot_be_started_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, told: list[HealthEvent], outage_of: Callable[..., Outage]
) -> None:
    outage = outage_of(told.append)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no threads")))
        outage.failed("fetcher", GONE)
    outage.recovered("fetcher")
    assert eventually(lambda: [event.lost for event in told] == [True, False])


def test_a_daemon_tells_of_a_server_that_was_lost_and_found(own_redis: RedisServer, told: list[HealthEvent]) -> None:
    with own_app(own_redis.url) as app:
        app.job("J", queue="q")(print)
        app.on_health(told.append)
        app.start()
        own_redis.kill()
        assert eventually(lambda: [event.lost for event in told] == [True], within_s=60)
        own_redis.start()
        assert eventually(lambda: [event.lost for event in told] == [True, False], within_s=60)
        app.quit()
    assert eventually(quiet)
