"""Which code runs a task, and what becomes of one that fails or that has no code."""

from __future__ import annotations

import datetime
import logging
from typing import Any

import pytest
import redis as redis_py
from delaying import Queues, SetClock
from waiting import eventually

import goworkers_py as workers
from goworkers_py.core.errors import ConfigError


class Reminder:
    def __init__(self, ran: list[Any]) -> None:
        self._ran = ran

    def do_delay_task(self, params: Any) -> None:
        self._ran.append(params)


def test_executors_are_functions_coroutines_or_objects_with_do_delay_task(queues: Queues) -> None:
    ran: list[Any] = []

    async def soon(params: Any) -> None:
        ran.append(params)

    queue = queues.started({"function": ran.append, "coroutine": soon, "object": Reminder(ran)})
    for kind in ("function", "coroutine", "object"):
        queue.push(0, kind, kind)
    assert eventually(lambda: sorted(ran) == ["coroutine", "function", "object"])
    assert eventually(lambda: len(queue) == 0)


def test_a_factory_makes_the_executor_of_a_type(queues: Queues) -> None:
    ran: list[Any] = []

    def build_executor(task_type: str) -> Any:
        return Reminder(ran) if task_type == "remind" else None

    queue = queues.started(build_executor)
    queue.push(0, "remind", 1)
    queue.push(0, "other", 2, "held")
    assert eventually(lambda: ran == [1])
    assert eventually(lambda: [task.held for task in queue.pending()] == ["no executor for tasks of type 'other'"])


def test_a_factory_that_raises_loses_nothing(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    def build_executor(task_type: str) -> Any:
        raise OSError("no database")

    kept = workers.MemoryPersistence()
    queue = queues.started(build_executor, kept)
    queue.push(0, "remind", 1, "a")
    assert eventually(lambda: "the factory of executors failed" in caplog.text)
    assert [task.id for task in kept.list()] == ["a"]


def test_a_job_runs_here_with_its_typed_arguments_and_as_the_current_message(queues: Queues) -> None:
    app, ran = workers.App(), list[Any]()

    @app.job("Billing::InvoiceJob")
    def invoice(number: int, day: datetime.date) -> None:
        message = workers.current_message()
        assert message is not None
        ran.append((number, day, message.jid))

    @app.job
    def remind(options: dict[str, int]) -> None:
        ran.append(options)

    queue = queues.started(app)
    queue.push(0, "Billing::InvoiceJob", [42, "2025-02-04"], "task-1")
    assert eventually(lambda: ran == [(42, datetime.date(2025, 2, 4), "task-1")])
    queue.push(0, "remind", {"user": 7})
    assert eventually(lambda: len(ran) == 2)
    named = queues.started({"bill": invoice})
    named.push(0, "bill", [43, "2025-02-05"], "task-2")
    assert eventually(lambda: ran[1:] == [{"user": 7}, (43, datetime.date(2025, 2, 5), "task-2")])


def test_the_enqueue_of_a_job_is_an_executor_that_pushes_it(
    queues: Queues, redis: redis_py.Redis, redis_url: str
) -> None:
    app = workers.App()
    app.configure(broker=redis_url)

    @app.job
    def invoice(number: int) -> None: ...

    queue = queues.started({"bill": invoice.enqueue})
    queue.push(0, "bill", 42)
    assert eventually(lambda: redis.llen("queue:default") == 1)
    assert b'"args":[42]' in redis.lindex("queue:default", 0)
    app.broker.close()


@pytest.mark.parametrize("executors", [None, 7, {"remind": None}, {"remind": "send"}])
def test_what_runs_nothing_is_refused(executors: Any) -> None:
    """The original refused a missing builder too."""
    with pytest.raises(ConfigError, match=r"DelayQueue: .*execut"):
        workers.DelayQueue(executors, workers.MemoryPersistence())


# --- failures


def test_a_failed_task_is_retried_by_the_policy_of_jobs_and_its_retries_are_delays(queues: Queues) -> None:
    clock, tries, kept = SetClock(1_764_086_400.0), list[int](), workers.MemoryPersistence()

    def fail(params: object) -> None:
        tries.append(1)
        raise ValueError("no paper")

    queue = queues.started({"print": fail}, kept, clock=clock)
    queue.push(0, "print", None, "a")
    assert eventually(lambda: kept.list()[0].due > clock.now)
    [task] = kept.list()
    assert task.notes is not None
    assert (task.notes["error_class"], task.notes["error_message"], task.notes["retry_count"]) == (
        "ValueError", "no paper", 0,
    )  # fmt: skip
    assert 15 <= task.due - clock.now < 25  # Sidekiq's first pause
    clock.now = task.due + 1
    assert eventually(lambda: (kept.list()[0].notes or {}).get("retry_count") == 1)
    assert len(tries) == 2


def test_a_task_that_failed_for_the_last_time_is_kept_and_told_and_can_run_again(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    app, tries, told = workers.App(), list[int](), list[workers.DelayTask]()

    @app.job(retry=0)
    def fail(params: object) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no paper")

    kept = workers.MemoryPersistence()
    queue = queues.made({"print": fail}, kept)
    queue.on_held(told.append)
    queue.start()
    queue.push(0, "print", 1, "a")
    assert eventually(lambda: [task.is_dead for task in queue.pending()] == [True])
    assert "failed for the last time; it is kept: run it with move(id, 0), or cancel(id) type=print id=a" in caplog.text
    assert eventually(lambda: [task.id for task in told] == ["a"])  # after the task was kept
    queue.stop()
    again = queues.started({"print": fail}, kept)
    assert [task.id for task in again.pending() if task.is_dead] == ["a"]
    assert again.move("a", 0)
    assert eventually(lambda: len(again) == 0)
    assert (len(tries), kept.list()) == (2, [])


@pytest.mark.parametrize("verb", ["move", "cancel"])
def test_a_function_of_on_held_moves_or_cancels_the_task_that_has_just_died(queues: Queues, verb: str) -> None:
    ran: list[int] = []
    told: list[bool] = []
    kept = workers.MemoryPersistence()

    def fail_once(params: object) -> None:
        ran.append(1)
        if len(ran) == 1:
            raise workers.KillJob

    queue = queues.made({"remind": fail_once}, kept)

    @queue.on_held
    def held(task: workers.DelayTask) -> None:
        told.append(queue.move(task.id, 0) if verb == "move" else queue.cancel(task.id))

    queue.start()
    queue.push(0, "remind", 1, "a")
    assert eventually(lambda: told == [True])
    assert eventually(lambda: list(kept.list()) == [] and len(queue) == 0)
    assert len(ran) == (2 if verb == "move" else 1)


@pytest.mark.parametrize("error", [workers.DiscardJob(), SystemExit(3)])
def test_a_task_may_end_as_jobs_do(queues: Queues, error: BaseException) -> None:
    def fail(params: object) -> None:
        raise error

    queue = queues.started({"print": fail})
    queue.push(0, "print", None, "a")
    assert eventually(lambda: all((task.notes or {}).get("retry_count") == 0 for task in queue.pending()))
    queue.push(0, "print")
    assert eventually(lambda: not any(task.notes is None for task in queue.pending()))
    assert isinstance(error, SystemExit) == bool(queue.pending())


def test_retry_in_of_a_job_tells_the_pause(queues: Queues) -> None:
    app, clock = workers.App(), SetClock(1_764_086_400.0)

    @app.job(retry_in=lambda count, error: 7_000)
    def fail(params: object) -> None:
        raise ValueError

    queue = queues.started({"print": fail}, clock=clock)
    queue.push(0, "print")
    assert eventually(lambda: any(7_000 <= task.due - clock.now < 7_020 for task in queue.pending()))


# --- unknown types


def test_a_task_of_an_unknown_type_is_kept_told_and_runs_after_a_start_that_knows_it(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    kept, told, ran = workers.MemoryPersistence(), list[str](), list[Any]()
    queue = queues.made({}, kept)

    @queue.on_held
    def tell(task: workers.DelayTask) -> None:
        told.append(task.id)
        raise ValueError("a fault in the hook")

    queue.start()
    queue.push(0, "new", 1, "a")
    queue.push(0, "new", 2, "b")
    assert eventually(lambda: told == ["a", "b"])
    assert eventually(lambda: [task.held != "" for task in queue.pending()] == [True, True])
    lines = [record for record in caplog.records if "is held" in record.message]
    assert len(lines) == 1
    assert lines[0].levelno == logging.ERROR
    queue.stop()
    queues.started({"new": ran.append}, kept)
    assert eventually(lambda: sorted(ran) == [1, 2])


def test_a_held_task_can_be_cancelled(queues: Queues) -> None:
    queue = queues.started({})
    queue.push(0, "new", 1, "a")
    assert eventually(lambda: [task.held != "" for task in queue.pending()] == [True])
    assert queue.cancel("a")
    assert queue.pending() == []


def test_a_job_whose_parameters_do_not_fit_is_held_after_ten_minutes(queues: Queues) -> None:
    app, clock = workers.App(), SetClock(1_764_086_400.0)

    @app.job("Invoice")
    def invoice(day: datetime.date) -> None: ...

    queue = queues.started(app, clock=clock)
    queue.push(0, "Invoice", ["no date"], "a")
    for _ in range(15):
        before = clock.now
        assert eventually(lambda before=before: queue.pending()[0].due > before)  # a minute at most, until it is held
        clock.now += 61
    [task] = queue.pending()
    assert task.is_dead
