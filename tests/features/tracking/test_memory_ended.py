"""The index of ended jobs in memory."""

from __future__ import annotations

from goworkers_py.features.tracking.contract import EndedPlace
from goworkers_py.features.tracking.memory import EndedTable
from goworkers_py.features.tracking.record import ENDED_MOST


def test_the_newest_entries_are_kept() -> None:
    table = EndedTable()
    for number in range(ENDED_MOST + 3):
        table.add("completed", str(number), float(number))
    assert table.count("completed") == ENDED_MOST
    assert table.behind("completed", None)[-1] == EndedPlace(3.0, "3")


def test_a_job_that_has_ended_again_is_as_new_as_its_last_end() -> None:
    table = EndedTable()
    for number in range(ENDED_MOST):
        table.add("completed", str(number), float(number))
    table.add("completed", "0", float(ENDED_MOST))
    table.add("completed", "new", ENDED_MOST + 1.0)
    assert table.behind("completed", None)[-1] == EndedPlace(2.0, "2")


def test_an_entry_that_got_another_time_is_not_removed_by_who_has_read_the_first() -> None:
    table = EndedTable()
    table.add("completed", "a", 1.0)
    table.add("completed", "a", 2.0)
    table.remove("completed", EndedPlace(1.0, "a"))
    assert table.behind("completed", None) == [EndedPlace(2.0, "a")]
