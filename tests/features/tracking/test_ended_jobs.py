"""Pages of jobs that have ended, over a store that tests drive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.tracking.contract import EndedPage, EndedPlace, Records


@pytest.fixture
def broker() -> Iterator[Broker]:
    with closing(open_broker(Config(broker="memory://ended-jobs"))) as broker:
        yield broker
    forget("memory://ended-jobs")


def test_a_page_that_finds_nothing_ends_after_a_bounded_look_and_says_where_to_go_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def nothing_there(state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        asked.append(limit)
        return EndedPage((), EndedPlace(1_795_000_000.25, "last"), 10_000)

    monkeypatch.setattr(broker.require_part(Records), "ended", nothing_there)
    page = Inspector(lambda: broker).ended("completed", limit=500)
    assert (page.jobs, page.next) == ([], "1795000000.25-last")
    assert sum(asked) == 2_000


@pytest.mark.parametrize("after", ["x", "nan-1", "1e400-a", "-1-a"])
def test_a_mark_that_no_page_had_is_refused(broker: Broker, after: str) -> None:
    with pytest.raises(ArgumentError, match="is not what `next` of a page was"):
        Inspector(lambda: broker).ended("completed", after=after)


def test_other_states_and_limits_are_refused(broker: Broker) -> None:
    inspector = Inspector(lambda: broker)
    with pytest.raises(ArgumentError, match="state: completed, cancelled, expired, not 'dead'"):
        inspector.ended("dead")
    with pytest.raises(ArgumentError, match="limit must be at least 1"):
        inspector.ended("completed", limit=0)


def test_a_broker_without_records_says_so(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "part", lambda contract: None)
    with pytest.raises(ConfigError, match="broker: memory has no records of jobs: set another broker"):
        Inspector(lambda: broker).ended("completed")
