"""One line when an outage begins, one when it ends, and how long each waits in between."""

from __future__ import annotations

import logging
import threading

import pytest

from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, BrokerUnreachable
from goworkers_py.runtime.outage import LONGEST_PAUSE_S, Outage

GONE = BrokerUnavailable("connection refused")
NO = BrokerRefused("WRONGTYPE")
BEGIN = (logging.ERROR, "Redis cannot serve: connection refused; trying again until it does")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    """Its clock goes a second a look, and its dice always show the most."""
    seconds = iter(range(100, 100_000))
    monkeypatch.setattr(machine, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(machine.random, "uniform", lambda least, most: most)
    return Outage("Redis")


def test_an_outage_is_told_once_when_it_begins_and_once_when_it_ends(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    for who in ("fetcher", "settler", "fetcher"):
        outage.failed(who, GONE)
    assert outage.lasts
    outage.recovered("fetcher")
    assert outage.lasts
    assert lines(caplog) == [BEGIN]
    outage.recovered("settler")
    assert not outage.lasts
    assert lines(caplog) == [BEGIN, (logging.WARNING, "Redis serves again after 1.0 s")]


def test_only_a_broker_that_has_never_served_is_told_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("Redis", place=("redis://h", "--broker"))
    for _ in range(2):
        outage.failed("fetcher", BrokerUnreachable("connection refused"))
        outage.recovered("fetcher")
    first, second = [text for level, text in lines(caplog) if level == logging.ERROR]
    assert first.startswith("Redis cannot serve: connection refused; start the server of redis://h, or set another")
    assert first.endswith("; trying again until it does")
    assert second == "Redis cannot serve: connection refused; trying again until it does"


def test_the_next_outage_is_told_again(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        outage.failed("fetcher", GONE)
        outage.recovered("fetcher")
    assert [level for level, _ in lines(caplog)] == [logging.ERROR, logging.WARNING] * 2


def test_an_exchange_that_began_before_the_end_of_an_outage_and_fails_later_belongs_to_it(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    late = BrokerUnavailable("timed out")
    outage.failed("fetcher", GONE)
    late.began = machine.monotonic()
    outage.recovered("fetcher")
    del caplog.records[:]
    outage.failed("settler", late)
    outage.recovered("settler")
    assert lines(caplog) == []
    late.began = machine.monotonic()
    outage.failed("settler", late)
    assert lines(caplog) == [(logging.ERROR, "Redis cannot serve: timed out; trying again until it does")]


def test_a_thread_that_never_failed_does_not_end_an_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.recovered("heartbeat")
    outage.failed("fetcher", GONE)
    outage.recovered("heartbeat")
    assert outage.lasts
    assert lines(caplog) == [BEGIN]


def test_a_thread_that_has_stopped_neither_prolongs_an_outage_nor_logs_its_end(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    outage.failed("fetcher", GONE)
    outage.forget("fetcher")
    outage.forget("never failed")
    assert not outage.lasts
    assert lines(caplog) == [BEGIN]


# --- refusals: the server serves, but not what one thread asks


def test_a_refusal_is_no_outage_and_is_logged_once_for_each_thread(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    for who in ("fetcher:a", "fetcher:b", "fetcher:a"):
        outage.failed(who, NO)
    assert not outage.lasts
    begins = [(logging.ERROR, f"fetcher:{name}: Redis refuses: WRONGTYPE; trying again") for name in "ab"]
    assert lines(caplog) == begins
    outage.recovered("fetcher:b")
    outage.recovered("fetcher:b")
    assert lines(caplog) == [*begins, (logging.WARNING, "fetcher:b: Redis no longer refuses")]


def test_a_thread_that_is_refused_does_not_end_the_outage_of_others(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    outage.failed("fetcher", NO)
    outage.failed("settler", GONE)
    assert lines(caplog)[1:] == [BEGIN]
    outage.recovered("fetcher")
    assert outage.lasts
    outage.recovered("settler")
    assert not outage.lasts
    assert [level for level, _ in lines(caplog)] == [logging.ERROR, logging.ERROR, logging.WARNING, logging.WARNING]


def test_a_thread_that_is_refused_and_then_cut_off_backs_off_further(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    assert [outage.failed("fetcher", error) for error in (NO, GONE, NO)] == [0.2, 0.4, 0.8]
    assert not outage.lasts
    outage.recovered("fetcher")
    assert lines(caplog)[-1] == (logging.WARNING, "fetcher: Redis no longer refuses")


def test_a_thread_that_stopped_while_it_was_refused_logs_no_more(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    outage.failed("fetcher", NO)
    outage.forget("fetcher")
    outage.recovered("fetcher")
    assert len(caplog.records) == 1


# --- how long to wait


def test_each_backs_off_for_himself_up_to_a_limit_and_begins_anew_after_a_success(outage: Outage) -> None:
    assert [outage.failed("fetcher", GONE) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0, 3.0]
    assert outage.failed("settler", GONE) == 0.2
    for _ in range(2_000):
        assert outage.failed("fetcher", GONE) == LONGEST_PAUSE_S
    outage.recovered("fetcher")
    assert outage.failed("fetcher", GONE) == 0.2


def test_pauses_differ_so_that_a_fleet_does_not_come_back_in_step() -> None:
    pauses = []
    for _ in range(50):
        outage = Outage("Redis")
        for _ in range(9):
            outage.failed("fetcher", GONE)
        pauses.append(outage.failed("fetcher", GONE))
    assert all(LONGEST_PAUSE_S / 2 <= pause <= LONGEST_PAUSE_S for pause in pauses)
    assert len(set(pauses)) > 40


def test_many_threads_meet_one_outage(caplog: pytest.LogCaptureFixture) -> None:
    def meet(who: str) -> None:
        gate.wait()
        for _ in range(200):
            outage.failed(who, GONE)
        gate.wait()
        outage.recovered(who)

    outage = Outage("Redis")
    gate = threading.Barrier(8)
    threads = [threading.Thread(target=meet, args=(f"thread {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [level for level, _ in lines(caplog)] == [logging.ERROR, logging.WARNING]
    assert not outage.lasts
