"""The cursors of iterable jobs: begun, stored while a run goes on, and stored or forgotten in the step of its end."""

from __future__ import annotations

from harness import Process, job, waiting

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.store import Store
from goworkers_py.core.cursor import Cursor
from goworkers_py.core.effect import StoreCursor
from goworkers_py.core.outcome import Done, Outcome, Requeue


def end_run(me: Process, outcome: Outcome) -> None:
    me.publish(job("1"))
    [delivery] = me.consume(1)
    assert me.settle((delivery, outcome)) == [True]


def test_each_run_gets_the_cursor_of_the_run_before_and_a_number_of_its_own(store: Store) -> None:
    first = store.begin_iteration("1")
    assert (first.cursor, first.cancelled, first.foreign) == (Cursor(1, "null", 0.0), False, False)
    assert store.checkpoint("1", Cursor(1, '"\u00e9 5"', 2.5))
    assert store.begin_iteration("1").cursor == Cursor(2, '"\u00e9 5"', 2.5)
    assert store.begin_iteration("2").cursor == Cursor(1, "null", 0.0)


def test_a_run_that_another_one_has_followed_stores_nothing_any_more(me: Process, store: Store) -> None:
    store.begin_iteration("1")
    store.begin_iteration("1")
    assert store.checkpoint("1", Cursor(2, "20", 1.0))
    assert not store.checkpoint("1", Cursor(1, "10", 1.0))
    end_run(me, Requeue(effects=(StoreCursor("1", Cursor(1, "10", 1.0)),)))
    assert store.begin_iteration("1").cursor == Cursor(3, "20", 1.0)


def test_the_cursor_is_stored_in_the_step_that_gives_the_job_back(me: Process, store: Store, admin: Admin) -> None:
    store.begin_iteration("1")
    end_run(me, Requeue(effects=(StoreCursor("1", Cursor(1, "[1,2]", 3.25)),)))
    assert waiting(admin) == [job("1")]
    assert store.begin_iteration("1").cursor == Cursor(2, "[1,2]", 3.25)


def test_the_end_of_the_job_forgets_its_cursor(me: Process, store: Store) -> None:
    store.begin_iteration("1")
    store.checkpoint("1", Cursor(1, "10", 1.0))
    end_run(me, Done(effects=(StoreCursor("1", None),)))
    assert not store.checkpoint("1", Cursor(1, "11", 1.0))
    assert store.begin_iteration("1").cursor == Cursor(1, "null", 0.0)


def test_a_delivery_that_is_not_ours_any_more_leaves_the_cursor(me: Process, store: Store) -> None:
    store.begin_iteration("1")
    store.checkpoint("1", Cursor(1, "10", 1.0))
    me.publish(job("1"))
    [delivery] = me.consume(1)
    me.settle((delivery, Done()))
    assert me.settle((delivery, Done(effects=(StoreCursor("1", None),)))) == [False]
    assert store.begin_iteration("1").cursor == Cursor(2, "10", 1.0)
