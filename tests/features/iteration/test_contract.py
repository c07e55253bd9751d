"""The cursors of iterable jobs: begun, stored while a run goes on, and stored or forgotten in the step of its end."""

from __future__ import annotations

import pytest
from harness import Process, job, part_of, waiting

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.core.outcome import Done, Outcome, Requeue
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import Cursor
from goworkers_py.features.iteration.effects import StoreCursor

OF = "1700000000.0"  # `created_at` of the job


@pytest.fixture
def iterations(me: Process) -> Iterations:
    return part_of(me.broker, Iterations)


def end_run(me: Process, outcome: Outcome) -> None:
    me.publish(job("1"))
    [delivery] = me.consume(1)
    assert me.settle((delivery, outcome)) == [True]


def test_each_run_gets_the_cursor_of_the_run_before_and_a_number_of_its_own(iterations: Iterations) -> None:
    first = iterations.begin("1", OF)
    assert (first.cursor, first.cancelled, first.foreign) == (Cursor(1, "null", 0.0, OF), False, False)
    assert iterations.checkpoint("1", Cursor(1, '"\u00e9 5"', 2.5, OF))
    assert iterations.begin("1", OF).cursor == Cursor(2, '"\u00e9 5"', 2.5, OF)
    assert iterations.begin("2", OF).cursor == Cursor(1, "null", 0.0, OF)


def test_a_run_that_another_one_has_followed_stores_nothing_any_more(me: Process, iterations: Iterations) -> None:
    iterations.begin("1", OF)
    iterations.begin("1", OF)
    assert iterations.checkpoint("1", Cursor(2, "20", 1.0, OF))
    assert not iterations.checkpoint("1", Cursor(1, "10", 1.0, OF))
    end_run(me, Requeue(effects=(StoreCursor("1", Cursor(1, "10", 1.0, OF)),)))
    assert iterations.begin("1", OF).cursor == Cursor(3, "20", 1.0, OF)


def test_the_cursor_is_stored_in_the_step_that_gives_the_job_back(
    me: Process, iterations: Iterations, admin: Admin
) -> None:
    iterations.begin("1", OF)
    end_run(me, Requeue(effects=(StoreCursor("1", Cursor(1, "[1,2]", 3.25, OF)),)))
    assert waiting(admin) == [job("1")]
    assert iterations.begin("1", OF).cursor == Cursor(2, "[1,2]", 3.25, OF)


def test_the_end_of_the_job_forgets_its_cursor(me: Process, iterations: Iterations) -> None:
    iterations.begin("1", OF)
    iterations.checkpoint("1", Cursor(1, "10", 1.0, OF))
    end_run(me, Done(effects=(StoreCursor("1", Cursor(1, "10", 1.0, OF), has_ended=True),)))
    assert not iterations.checkpoint("1", Cursor(1, "11", 1.0, OF))
    assert iterations.begin("1", OF).cursor == Cursor(1, "null", 0.0, OF)


def test_a_delivery_that_is_not_ours_any_more_leaves_the_cursor(me: Process, iterations: Iterations) -> None:
    iterations.begin("1", OF)
    iterations.checkpoint("1", Cursor(1, "10", 1.0, OF))
    me.publish(job("1"))
    [delivery] = me.consume(1)
    me.settle((delivery, Done()))
    assert me.settle((delivery, Done(effects=(StoreCursor("1", Cursor(1, "10", 1.0, OF), has_ended=True),)))) == [False]
    assert iterations.begin("1", OF).cursor == Cursor(2, "10", 1.0, OF)


def test_the_end_of_an_earlier_run_leaves_the_cursor_of_a_later_one(me: Process, iterations: Iterations) -> None:
    iterations.begin("1", OF)
    iterations.begin("1", OF)
    iterations.checkpoint("1", Cursor(2, "20", 1.0, OF))
    end_run(me, Done(effects=(StoreCursor("1", Cursor(1, "10", 1.0, OF), has_ended=True),)))
    assert iterations.begin("1", OF).cursor == Cursor(3, "20", 1.0, OF)


def test_a_later_job_of_the_same_jid_begins_at_its_start(me: Process, iterations: Iterations) -> None:
    """The earlier one was deleted while it waited between two runs."""
    iterations.begin("1", OF)
    iterations.checkpoint("1", Cursor(1, "10", 1.0, OF))
    assert iterations.begin("1", "1700000001.5").cursor == Cursor(1, "null", 0.0, "1700000001.5")


LATER = "1700000001.5"


def test_a_later_job_of_the_same_jid_keeps_its_cursor_while_the_earlier_one_goes_on(
    me: Process, iterations: Iterations
) -> None:
    """The earlier one runs on in a process that was frozen, or both were pushed under one jid."""
    iterations.begin("1", OF)
    iterations.begin("1", LATER)
    assert iterations.checkpoint("1", Cursor(1, "7", 1.0, LATER))
    assert iterations.checkpoint("1", Cursor(1, "10", 1.0, OF))
    assert iterations.begin("1", LATER).cursor == Cursor(2, "7", 1.0, LATER)


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_later_job_of_the_same_jid_keeps_its_cursor_when_the_earlier_one_ends(
    has_ended: bool, me: Process, iterations: Iterations
) -> None:
    iterations.begin("1", OF)
    iterations.begin("1", LATER)
    iterations.checkpoint("1", Cursor(1, "7", 1.0, LATER))
    end_run(me, Done(effects=(StoreCursor("1", Cursor(1, "10", 1.0, OF), has_ended),)))
    assert iterations.begin("1", LATER).cursor == Cursor(2, "7", 1.0, LATER)
