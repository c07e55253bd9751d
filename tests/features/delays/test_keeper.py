from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

import goworkers_py as workers
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.features.delays.book import OwnBook
from goworkers_py.features.delays.ends import Ends
from goworkers_py.features.delays.keeper import LOOK_S, TaskKeeper
from goworkers_py.features.delays.task import DelayTask
from goworkers_py.features.delays.timers import Timers
from goworkers_py.runtime.outage import Outage


class Book(OwnBook):
    """Notes what it was told. It refuses the ends of these tasks."""

    def __init__(self, refused: Sequence[str]) -> None:
        super().__init__(workers.MemoryPersistence(), Timers(1.0, 60, lambda: 0.0), Clock())
        self.refused = refused
        self.told: list[str] = []

    def look(self) -> None:
        self.told.append("lease")

    def end(self, task: DelayTask, again: DelayTask | None) -> None:
        if task.id in self.refused:
            raise OSError(f"{task.id} is refused")
        self.told.append(task.id)


def test_an_end_that_is_refused_for_good_costs_neither_the_ends_behind_it_nor_the_lease() -> None:
    book, outage = Book(["bad", "good"]), Outage("the persistence")
    ends = Ends(book, outage)
    for name in ("bad", "good"):
        ends.end(DelayTask(name, 0.0, "remind", ""), None)
    book.refused = ["bad"]
    keeper = TaskKeeper(book, ends, outage, itertools.count(0.0, LOOK_S).__next__)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable, match="bad is refused"):
            keeper.run_once()
    assert book.told == ["lease", "good", "lease"]
