"""The suite of tests that each persistence of a delay queue must pass, also one of your own.

    # test_my_persistence.py
    import pytest
    from goworkers_py.testing.persistence import PersistenceContract

    class TestMyPersistence(PersistenceContract):
        @pytest.fixture
        def open(self, tmp_path):
            return lambda: MyPersistence(tmp_path)

The fixture `open` returns a function. Each call of it opens the same store anew, as the next process would. The store
is empty at the begin of a test. A persistence with `claims` takes `SharedPersistenceContract` instead, which has these
tests too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from goworkers_py.features.delays.contract import (
    BulkPersistence,
    Claims,
    CountsDues,
    Persistence,
    SharedClaims,
    WithClock,
)
from goworkers_py.features.delays.task import DEAD_AT, NEVER, DelayTask, packed

Open = Callable[[], Persistence]

DUE = 1_600_000_000.25  # in the past: a persistence with a clock gives nothing that is due later
LEASE_S = 60.0
FIRST, SECOND = "first", "second"  # claims


def task(task_id: str = "a", due: float = DUE, params: object = "text") -> DelayTask:
    return DelayTask(task_id, due, "remind", packed(params))


@contextmanager
def opened(open: Open) -> Iterator[Persistence]:  # noqa: A002  # the name of the fixture
    persistence = open()
    try:
        yield persistence
    finally:
        close = getattr(persistence, "close", None)
        if close is not None:
            close()


def listed(open: Open) -> dict[str, DelayTask]:  # noqa: A002
    """The tasks that the next process finds."""
    with opened(open) as persistence:
        found = list(persistence.list())
    tasks = {each.id: each for each in found}
    assert len(tasks) == len(found), "a task is listed twice"
    return tasks


class PersistenceContract:
    def test_the_next_process_finds_a_task_as_it_was_saved(self, open: Open) -> None:  # noqa: A002
        params = {"text": "grüße\n\u2028", "list": [1, 2.5, None, True, {}], "id": 2**60}
        saved = [task("text", params="plain \x00 text"), task("json", DUE + 1, params), task("none", DUE, None)]
        with opened(open) as persistence:
            for each in saved:
                persistence.save(each)
        assert listed(open) == {each.id: each for each in saved}

    def test_a_store_without_tasks_lists_none(self, open: Open) -> None:  # noqa: A002
        assert listed(open) == {}

    def test_a_due_time_keeps_each_of_its_digits(self, open: Open) -> None:  # noqa: A002
        due = 1_764_086_400.123_457
        with opened(open) as persistence:
            persistence.save(task(due=due))
        assert listed(open)["a"].due == due

    def test_a_task_of_a_known_id_replaces_the_other(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            persistence.save(task(due=DUE, params="old"))
            persistence.save(task(due=DUE + 60, params="new"))
        assert listed(open) == {"a": task(due=DUE + 60, params="new")}

    def test_a_failure_and_fields_of_a_newer_release_are_kept(self, open: Open) -> None:  # noqa: A002
        failed = task().with_notes({"retry_count": 2, "error_message": "no", "colour": ["red"]})
        with opened(open) as persistence:
            persistence.save(failed)
        assert listed(open)["a"] == failed

    def test_a_dead_task_is_kept_without_a_due_time(self, open: Open) -> None:  # noqa: A002
        dead = task().with_notes({DEAD_AT: DUE}, NEVER)
        with opened(open) as persistence:
            persistence.save(dead)
        assert listed(open)["a"] == dead

    def test_a_deleted_task_is_gone_and_its_neighbours_stay(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            for task_id in ("a", "b", "c"):
                persistence.save(task(task_id))
            persistence.delete("b")
        assert set(listed(open)) == {"a", "c"}

    def test_a_delete_of_no_task_does_nothing(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            persistence.save(task())
            assert not persistence.delete("other")
            persistence.delete("a")
            assert not persistence.delete("a")
        assert listed(open) == {}

    def test_an_id_may_be_any_text(self, open: Open) -> None:  # noqa: A002
        ids = {"with space", "a:b/c", "ü", "*", "%s", "'; --", "x" * 200}
        with opened(open) as persistence:
            for task_id in ids:
                persistence.save(task(task_id))
            persistence.delete("*")
        assert set(listed(open)) == ids - {"*"}

    def test_many_are_saved_as_one_by_one(self, open: Open) -> None:  # noqa: A002
        many = {f"id-{number}": task(f"id-{number}", DUE + number) for number in range(1_200)}
        with opened(open) as persistence:
            if isinstance(persistence, BulkPersistence):
                persistence.save_many([])
                persistence.save_many([*many.values()])
            else:
                for each in many.values():
                    persistence.save(each)
        assert listed(open) == many

    def test_many_are_deleted_as_one_by_one(self, open: Open) -> None:  # noqa: A002
        many = [f"id-{number}" for number in range(1_200)]
        with opened(open) as persistence:
            for task_id in ("first", *many, "last"):
                persistence.save(task(task_id))
            if (delete_many := getattr(persistence, "delete_many", None)) is not None:
                delete_many([])
                delete_many(["none", *many])
            else:
                for task_id in many:
                    persistence.delete(task_id)
        assert set(listed(open)) == {"first", "last"}

    def test_its_clock_counts_seconds_of_the_epoch(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            if isinstance(persistence, WithClock):
                assert 1_500_000_000 < persistence.time() <= persistence.time()

    def test_due_times_are_counted_by_its_clock_from_the_step_that_keeps_them(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            if isinstance(persistence, CountsDues) and isinstance(persistence, WithClock):
                wrong, before = 1.0, persistence.time()
                [kept, dead] = persistence.save_from([task(due=wrong + 40), task("dead", NEVER)], wrong)
                assert before + 40 <= kept.due <= persistence.time() + 40
                assert sorted(persistence.list()) == [kept, dead] == [kept, task("dead", NEVER)]


class SharedPersistenceContract(PersistenceContract):
    def test_one_of_two_owners_takes_a_task(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence, opened(open) as other:
            persistence.save(task())
            claims, others = owners(persistence, other)
            assert claims.take("one", FIRST, ["a"], DUE) == [task()]
            assert others.take("two", SECOND, ["a"], DUE) == []

    def test_a_task_that_is_not_due_or_not_there_is_not_taken(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            persistence.save(task())
            [claims] = owners(persistence)
            assert claims.take("one", FIRST, ["a", "none"], DUE - 1) == []

    def test_a_task_is_taken_when_it_is_due_by_the_clock_of_the_persistence(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            if not isinstance(persistence, WithClock):
                return
            [claims], due = owners(persistence), persistence.time() + 60
            persistence.save(task(due=due))
            assert claims.take("one", FIRST, ["a"], due + 1) == []
            assert claims.take("one", FIRST, ["a"], NEVER) == [task(due=due)]

    def test_a_retry_is_counted_by_the_clock_of_the_persistence(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            if not isinstance(persistence, WithClock):
                return
            [claims], wrong, before = owners(persistence), 1_000.0, persistence.time()
            persistence.save(task())
            claims.take("one", FIRST, ["a"], DUE)
            [kept] = claims.end("one", FIRST, (), [task("lost", wrong + 40), task(due=wrong + 40)], (), wrong)
            assert before + 40 <= kept.due <= persistence.time() + 40
        assert listed(open) == {"a": kept}

    def test_an_owner_without_a_lease_takes_nothing(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            persistence.save(task())
            [claims] = owners(persistence)
            assert claims.take("stranger", FIRST, ["a"], DUE) == []

    def test_a_task_of_an_owner_that_has_left_or_died_is_taken_by_another(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence, opened(open) as other:
            persistence.save(task("left"))
            persistence.save(task("died"))
            claims, others = owners(persistence, other)
            claims.take("one", FIRST, ["left"], DUE)
            claims.leave("one")
            claims.beat("one", 0.0)
            assert others.take("two", FIRST, ["left"], DUE) == [task("left")]
            claims.beat("one", LEASE_S)
            claims.take("one", FIRST, ["died"], DUE)
            claims.beat("one", 0.0)  # its lease has expired
            assert others.take("two", FIRST, ["died"], DUE) == [task("died")]

    def test_the_end_of_a_run_deletes_or_replaces_or_frees_the_task(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            for task_id in ("done", "again", "free", "other"):
                persistence.save(task(task_id))
            [claims] = owners(persistence)
            claims.take("one", FIRST, ["done", "again", "free"], DUE)
            claims.end("one", FIRST, ["done", "other"], [task("again", DUE + 9)], ["free"])
            assert claims.take("one", FIRST, ["free", "again"], DUE) == [task("free")]
            assert claims.take("one", FIRST, ["again"], DUE + 9) == [task("again", DUE + 9)]
        assert set(listed(open)) == {"again", "free", "other"}

    def test_the_end_of_a_run_leaves_a_task_that_was_replaced_or_taken_over(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence, opened(open) as other:
            persistence.save(task("replaced"))
            persistence.save(task("lost"))
            claims, others = owners(persistence, other)
            claims.take("one", FIRST, ["replaced", "lost"], DUE)
            other.save(task("replaced", DUE + 60))
            claims.beat("one", 0.0)
            others.take("two", FIRST, ["lost"], DUE)
            claims.beat("one", LEASE_S)
            claims.end("one", FIRST, ["replaced"], [task("lost", DUE + 5)], ())
            assert others.take("two", FIRST, ["replaced"], DUE + 60) == [task("replaced", DUE + 60)]
        assert listed(open) == {"replaced": task("replaced", DUE + 60), "lost": task("lost")}

    def test_an_owner_has_its_task_again_when_the_reply_was_lost(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence:
            persistence.save(task())
            [claims] = owners(persistence)
            assert claims.take("one", FIRST, ["a"], DUE) == [task()]
            assert claims.take("one", FIRST, ["a"], DUE) == [task()]
            claims.end("one", FIRST, ["a"], (), ())
        assert listed(open) == {}

    def test_the_end_of_a_run_changes_nothing_of_a_later_one(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence, opened(open) as other:
            persistence.save(task())
            claims, others = owners(persistence, other)
            claims.take("one", FIRST, ["a"], DUE)
            persistence.save(task(params="new"))
            claims.take("one", SECOND, ["a"], DUE)
            claims.end("one", FIRST, ["a"], (), ())
            claims.end("one", FIRST, (), [task(params="old")], ())
            claims.end("one", FIRST, (), (), ["a"])
            assert others.take("two", FIRST, ["a"], DUE) == []
            assert claims.read(["a"]) == [task(params="new")]
            claims.end("one", SECOND, ["a"], (), ())
        assert listed(open) == {}

    def test_a_cancel_tells_whether_another_owner_runs_the_task(self, open: Open) -> None:  # noqa: A002
        with opened(open) as persistence, opened(open) as other:
            for task_id in ("waiting", "own", "elsewhere", "of the dead"):
                persistence.save(task(task_id))
            claims, others = owners(persistence, other)
            claims.take("one", FIRST, ["own"], DUE)
            others.take("two", SECOND, ["elsewhere"], DUE)
            answers = {each: claims.cancel("one", each) for each in ("waiting", "own", "elsewhere", "none")}
            assert answers == {"waiting": True, "own": True, "elsewhere": False, "none": False}
            others.take("two", SECOND, ["of the dead"], DUE)
            others.beat("two", 0.0)
            assert claims.cancel("one", "of the dead")
            others.beat("two", LEASE_S)
            others.end("two", SECOND, (), [task("elsewhere", DUE + 5)], ())
        assert listed(open) == {}

    def test_it_tells_what_is_coming_and_reads_it(self, open: Open) -> None:  # noqa: A002
        many = [task(f"id-{number:04}", DUE + number // 400) for number in range(2_500)]
        with opened(open) as persistence:
            cast(BulkPersistence, persistence).save_many([*many, task("dead", NEVER), task("later", DUE + 99)])
            [claims] = owners(persistence)
            assert dict(claims.coming(DUE + 98)) == {each.id: each.due for each in many}
            dues = [due for _, due in claims.coming(DUE + 98)]
            assert dues == sorted(dues)
            assert sorted(claims.read(["later", "id-0001", "none"])) == sorted([many[1], task("later", DUE + 99)])


def owners(*persistences: Persistence) -> list[Claims]:
    """Their claims. The owners `one`, `two` have leases."""
    found = []
    for persistence, owner in zip(persistences, ("one", "two"), strict=False):
        assert isinstance(persistence, SharedClaims), "it has no attribute `claims`"
        claims = persistence.claims
        assert claims is not None
        claims.beat(owner, LEASE_S)
        found.append(claims)
    return found
