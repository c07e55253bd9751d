"""The index of ended jobs in memory."""

from __future__ import annotations

from goworkers_py.features.tracking.contract import EndedPlace
from goworkers_py.features.tracking.memory import KEPT, EndedTable


def test_the_newest_entries_are_kept() -> None:
    table = EndedTable()
    for number in range(KEPT + 3):
        table.add("completed", str(number), float(number))
    assert table.count("completed") == KEPT
    assert table.behind("completed", None)[-1] == EndedPlace(3.0, "3")


def test_a_job_that_has_ended_again_is_as_new_as_its_last_end() -> None:
    table = EndedTable()
    for number in range(KEPT):
        table.add("completed", str(number), float(number))
    table.add("completed", "0", float(KEPT))
    table.add("completed", "new", KEPT + 1.0)
    assert table.behind("completed", None)[-1] == EndedPlace(2.0, "2")


def test_an_entry_that_got_another_time_is_not_removed_by_who_has_read_the_first() -> None:
    table = EndedTable()
    table.add("completed", "a", 1.0)
    table.add("completed", "a", 2.0)
    table.remove("completed", EndedPlace(1.0, "a"))
    assert table.behind("completed", None) == [EndedPlace(2.0, "a")]
