"""The delay queue in one process, on a persistence in memory or in a file."""

from __future__ import annotations

import datetime
import json
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from delaying import Queues, Refusing, SetClock, Walls
from waiting import eventually

import goworkers_py as workers
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, BrokerError, ConfigError, WorkersError
from goworkers_py.features.delays.task import DEAD_AT, NEVER, DelayTask

# --- push, cancel, move


def test_a_task_runs_after_its_delay_with_its_parameters(queues: Queues) -> None:
    ran: list[Any] = []
    queue = queues.started({"remind": lambda params: ran.append((params, time.monotonic()))})
    began = time.monotonic()
    for params in ("text", {"user": 7, "tags": ["ü"]}, None):
        queue.push(0.2, "remind", params)
    assert eventually(lambda: len(ran) == 3)
    # They are due together, and run in several threads.
    assert sorted((params for params, _ in ran), key=str) == [None, "text", {"user": 7, "tags": ["ü"]}]
    assert all(at - began >= 0.2 for _, at in ran)
    assert eventually(lambda: len(queue) == 0)


@pytest.mark.parametrize("delay", [0, -5, datetime.timedelta(seconds=-1), 0.0])
def test_a_delay_of_zero_or_below_is_now_whatever_the_tick(queues: Queues, delay: float | datetime.timedelta) -> None:
    """The original refused 0 and let negative delays pass, which counted below slot 0."""
    ran: list[Any] = []
    queue = queues.started({"now": ran.append}, tick=3600.0)
    queue.push(delay, "now", 1)
    assert eventually(lambda: ran == [1])


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), "5", None, True, 1e13])
def test_a_delay_that_is_no_number_of_seconds_is_refused(queues: Queues, delay: Any) -> None:
    queue = queues.made({})
    with pytest.raises(ArgumentError, match="a delay must be seconds or a timedelta"):
        queue.push(delay, "remind")
    assert queue.pending() == []


@pytest.mark.parametrize(
    ("task_type", "params", "task_id"),
    [
        ("", 1, None),
        (None, 1, None),
        ("t", object(), None),
        ("t", {1: 2}, None),
        ("t", 1, ""),
        ("t", 1, 7),
        ("t", 1, "\ud800"),
        ("\ud800", 1, None),
    ],
)
def test_what_cannot_be_kept_is_refused(queues: Queues, task_type: Any, params: Any, task_id: Any) -> None:
    queue = queues.made({})
    with pytest.raises(ArgumentError):
        queue.push(1, task_type, params, task_id)
    with pytest.raises(ArgumentError):
        queue.push_many([(1, task_type, params, task_id)])
    assert queue.pending() == []


def test_a_push_keeps_its_task_under_an_id_of_its_own_and_other_values_than_texts_as_json(queues: Queues) -> None:
    """The original counted in whole seconds, so that a delay below one was refused."""
    kept = workers.MemoryPersistence()
    queue = queues.made({}, kept)
    given: list[Any] = ["[1]", [1], {"user": 7}, 5, None, True]
    before = time.time()
    ids = [queue.push(0.4, "remind", params) for params in given]
    found = {task.id: task for task in kept.list()}
    assert [found[each].params for each in ids] == given  # a text that looks like JSON stays a text
    assert [json.loads(found[each].to_json())["params"] for each in ids] == given
    assert len(set(ids)) == len(given)
    assert all(0.39 < task.due - before < 20 for task in found.values())


def test_a_cancelled_task_does_not_run(queues: Queues) -> None:
    clock, ran = SetClock(1_764_086_400.0), list[Any]()
    queue = queues.started({"remind": ran.append}, clock=clock)
    assert queue.cancel(queue.push(100, "remind", "cancelled"))
    queue.push(150, "remind", "kept")
    clock.now += 200
    assert eventually(lambda: ran == ["kept"])
    assert not queue.cancel("none")


def test_a_moved_task_runs_at_its_new_time(queues: Queues) -> None:
    clock, ran = SetClock(1_764_086_400.0), list[Any]()
    queue = queues.started({"remind": ran.append}, clock=clock)
    late, early = queue.push(3600, "remind", "moved"), queue.push(100, "remind", "postponed")
    assert queue.move(early, 3600)
    clock.now += 200
    assert queue.move(late, datetime.timedelta(0))
    assert eventually(lambda: ran == ["moved"])
    assert eventually(lambda: [task.id for task in queue.pending()] == [early])  # the run of the other has ended
    assert not queue.move("none", 1)


def test_a_known_id_replaces_the_task(queues: Queues) -> None:
    ran: list[Any] = []
    queue = queues.started({"remind": ran.append})
    assert queue.push(3600, "remind", "old", "user-7") == "user-7"
    queue.push(0.05, "remind", "new", "user-7")
    assert eventually(lambda: ran == ["new"])
    assert eventually(lambda: queue.pending() == [])


def test_a_task_that_is_replaced_while_it_runs_runs_again(queues: Queues) -> None:
    began, go_on, ran = threading.Event(), threading.Event(), list[Any]()

    def run(params: str) -> None:
        ran.append(params)
        began.set()
        assert go_on.wait(20)

    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": run}, kept)
    queue.push(0, "remind", "old", "user-7")
    assert began.wait(20)
    queue.push(0.2, "remind", "new", "user-7")
    go_on.set()
    assert eventually(lambda: ran == ["old", "new"])
    assert eventually(lambda: list(kept.list()) == [])


def test_the_end_of_a_run_leaves_the_task_that_replaced_it(queues: Queues) -> None:
    began, go_on = threading.Event(), threading.Event()

    def run(params: str) -> None:
        began.set()
        assert go_on.wait(20)

    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": run}, kept)
    queue.push(0, "remind", "old", "user-7")
    assert began.wait(20)
    queue.push(3_600, "remind", "new", "user-7")
    go_on.set()
    assert queue.stop(20)
    assert [task.params for task in kept.list()] == ["new"]


def test_a_task_that_was_replaced_while_it_waited_for_a_thread_does_not_begin(queues: Queues) -> None:
    began, go_on, ran = threading.Event(), threading.Event(), list[Any]()

    def run(params: str) -> None:
        ran.append(params)
        began.set()
        assert go_on.wait(20)

    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": run}, kept, threads=1)
    queue.push(0, "remind", "first")
    assert began.wait(20)
    queue.push(0, "remind", "old", "user-7")
    assert eventually(lambda: queue._all_timers().running == 2)  # the thread gets it when the first one has ended
    queue.push(3_600, "remind", "new", "user-7")
    go_on.set()
    assert queue.stop(20)
    assert ran == ["first"]
    assert [task.params for task in kept.list()] == ["new"]


def test_a_task_does_not_begin_while_it_is_moved(queues: Queues) -> None:
    class Slow(workers.MemoryPersistence):
        def save(self, task: workers.DelayTask) -> None:
            if task.due > time.time() + 1_000:
                time.sleep(0.4)
            super().save(task)

    ran: list[Any] = []
    queue = queues.started({"remind": ran.append}, Slow())
    queue.push(0.2, "remind", "moved", "a")
    moved = queue.move("a", 3_600)
    queue.push(0, "remind", "next")
    assert eventually(lambda: "next" in ran)
    # On a busy machine the task may have begun before the move, which then says so.
    assert eventually(lambda: ("moved" in ran) != moved)


def test_a_task_that_runs_is_not_cancelled_and_is_not_retried(queues: Queues) -> None:
    began, go_on, tries = threading.Event(), threading.Event(), list[int]()

    def run(params: object) -> None:
        tries.append(1)
        began.set()
        assert go_on.wait(20)
        raise workers.RetryJob(delay=0)

    queue = queues.started({"remind": run})
    task_id = queue.push(0, "remind")
    assert began.wait(20)
    assert not queue.cancel(task_id)
    assert not queue.move(task_id, 0)
    go_on.set()
    assert eventually(lambda: queue.pending() == [])
    time.sleep(0.1)
    assert tries == [1]


def test_many_are_pushed_at_once(queues: Queues) -> None:
    ran: list[Any] = []
    queue = queues.started({"remind": ran.append})
    ids = queue.push_many([(0.05, "remind", number, f"id-{number}") for number in range(1_200)] + [(0.05, "remind")])
    assert ids[:2] == ["id-0", "id-1"]
    assert len(ids) == 1_201
    assert eventually(lambda: len(ran) == 1_201)
    assert eventually(lambda: queue.pending() == [])
    with pytest.raises(ArgumentError):
        queue.push_many([(1, "remind", 1, "good"), (1, "", 2)])
    assert queue.pending() == []


def test_many_threads_push_cancel_and_move_while_the_wheel_turns(queues: Queues) -> None:
    """The original changed its slots in several threads without a lock."""
    ran: list[str] = []
    cancelled: list[str] = []
    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": ran.append}, kept, tick=0.01, slots=16)

    def work(name: str) -> None:
        for number in range(800):
            key = f"{name}-{number}"
            queue.push((number % 40) / 100, "remind", key, key)
            if number % 3 == 0 and queue.cancel(key):
                cancelled.append(key)
            elif number % 3 == 1:
                queue.move(key, (number % 7) / 100)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eventually(lambda: len(queue) == 0)
    assert len(cancelled) > 100
    assert sorted(ran + cancelled) == sorted(f"{name}-{number}" for name in "abcd" for number in range(800))
    assert kept.list() == []


def test_pending_tells_the_tasks_by_their_due_times_and_quantity_those_of_a_slot(queues: Queues) -> None:
    queue = queues.made({}, tick=1.0, slots=60)
    for delay in (90, 30, 30_000):
        queue.push(delay, "remind", delay)
    assert [task.params for task in queue.pending()] == [30, 90, 30_000]
    assert sum(queue.quantity(slot) for slot in range(60)) == len(queue) == 3
    for slot in (-1, 60):
        with pytest.raises(ArgumentError):
            queue.quantity(slot)


def test_a_task_that_runs_for_long_holds_up_neither_the_wheel_nor_the_others(queues: Queues) -> None:
    go_on, ran = threading.Event(), list[Any]()
    queue = queues.started({"long": lambda params: go_on.wait(20), "short": ran.append}, threads=2)
    queue.push(0, "long")
    for number in range(5):
        queue.push(0.05 * number, "short", number)
    assert eventually(lambda: len(ran) == 5)
    assert not go_on.is_set()
    go_on.set()


# --- the persistence comes first


def test_a_push_whose_save_fails_is_refused(queues: Queues) -> None:
    """The original ignored the error: the task was lost with the process."""
    ran: list[Any] = []
    kept = Refusing()
    queue = queues.started({"remind": ran.append}, kept)
    queue.push(3600, "remind", "old", "user-7")
    kept.refuses.add("save")
    for task_id in (None, "user-7"):
        with pytest.raises(OSError, match="refused"):
            queue.push(0, "remind", "new", task_id)
    with pytest.raises(OSError, match="refused"):
        queue.move("user-7", 0)
    assert [task.params for task in queue.pending()] == ["old"]
    assert ran == []


def test_a_task_is_in_the_persistence_until_its_run_has_ended(queues: Queues) -> None:
    """The original deleted it before its run ended: a crash meanwhile lost it."""
    began, go_on = threading.Event(), threading.Event()

    def run(params: object) -> None:
        began.set()
        assert go_on.wait(20)

    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": run}, kept)
    queue.push(0, "remind", None, "a")
    assert began.wait(20)
    assert [task.id for task in kept.list()] == ["a"]
    go_on.set()
    assert eventually(lambda: kept.list() == [])


def test_an_end_that_cannot_be_told_is_told_later_and_the_task_runs_once(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Any] = []
    kept = Refusing()
    queue = queues.started({"remind": ran.append}, kept)
    kept.refuses.add("delete")
    queue.push(0, "remind", 1, "a")
    assert eventually(lambda: "the persistence of the delay queue cannot serve" in caplog.text)
    kept.refuses.clear()
    assert eventually(lambda: kept.list() == [])
    assert eventually(lambda: "serves again" in caplog.text)
    assert ran == [1]


def test_a_restart_runs_what_is_left_at_its_absolute_time(queues: Queues) -> None:
    """The original began anew to count: (CycleCount + 1) * 3600 + WheelPosition seconds from the restart on."""
    kept, clock, ran = workers.MemoryPersistence(), SetClock(1_764_086_400.0), list[Any]()
    queue = queues.made({"remind": ran.append}, kept, clock=clock)
    queue.push(5_000, "remind", "in 5000 s", "a")
    queue.stop()
    clock.now += 4_990
    again = queues.made({"remind": ran.append}, kept, clock=clock)
    again.start()
    [task] = again.pending()
    assert task.due == 1_764_086_400.0 + 5_000
    clock.now += 9
    time.sleep(0.1)
    assert ran == []
    clock.now += 2
    assert eventually(lambda: ran == ["in 5000 s"])


def test_what_became_due_without_a_process_runs_at_once_in_order_and_at_a_bounded_rate(queues: Queues) -> None:
    kept, clock, ran = workers.MemoryPersistence(), SetClock(1_764_086_400.0), list[tuple[int, float]]()
    queue = queues.made({}, kept, clock=clock)
    for number in range(60):
        queue.push(1 + (number * 37) % 60, "remind", (number * 37) % 60)
    queue.stop()
    clock.now += 3_000
    again = queues.made(
        {"remind": lambda number: ran.append((number, time.monotonic()))}, kept, clock=clock, threads=1, late_per_s=100
    )
    began = time.monotonic()
    again.start()
    assert eventually(lambda: len(ran) == 60)
    assert [number for number, _ in ran] == [*range(60)]
    # 10 at once, then 100 a second: the last one not before (60 - 10) / 100 s.
    assert ran[-1][1] - began >= 0.45


def test_late_tasks_do_not_hold_up_those_in_time(queues: Queues) -> None:
    kept, clock, ran = workers.MemoryPersistence(), SetClock(1_764_086_400.0), list[Any]()
    queue = queues.made({}, kept, clock=clock)
    queue.push_many([(1, "remind", number) for number in range(50)])
    queue.stop()
    clock.now += 3_000
    again = queues.started({"remind": ran.append}, kept, clock=clock, late_per_s=1)
    again.push(0, "remind", "in time")
    assert eventually(lambda: "in time" in ran)
    assert len(ran) < 50


def test_a_step_of_the_wall_clock_moves_no_task(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    walls, ran = Walls(monkeypatch), list[Any]()
    queue = queues.started({"remind": ran.append})
    queue.push(3_600, "remind", "in an hour", "a")
    walls.step(7_200)
    queue.push(0.1, "remind", "soon")
    assert eventually(lambda: ran == ["soon"])
    walls.step(-20_000)
    queue.push(0.1, "remind", "soon again")
    assert eventually(lambda: ran == ["soon", "soon again"])
    assert [task.id for task in queue.pending()] == ["a"]


def test_a_machine_that_slept_runs_at_once_what_became_due_meanwhile(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of waits stands while the machine sleeps, that of due times goes on."""
    slept, ran = [0.0], list[Any]()
    awake = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    monkeypatch.setattr(machine, "awake_and_asleep", lambda: time.monotonic() + awake + slept[0])
    queue = queues.started({"remind": ran.append}, threads=1)  # two threads would run the two in any order
    queue.push_many([(3_000, "remind", "second"), (2_000, "remind", "first"), (9_000, "remind", "third")])
    slept[0] = 4_000.0
    assert eventually(lambda: ran == ["first", "second"])
    assert eventually(lambda: len(queue) == 1)


# --- start and stop


def test_a_second_start_does_nothing(queues: Queues) -> None:
    ran: list[Any] = []
    queue = queues.made({"remind": ran.append})
    queue.push(0, "remind", "before the start")
    queue.start()
    queue.start()
    assert eventually(lambda: ran == ["before the start"])
    assert sum(thread.name == "delay wheel" for thread in threading.enumerate()) == 1


def test_a_stop_waits_for_what_runs_and_leaves_the_rest(queues: Queues, tmp_path: Path) -> None:
    began, ended = threading.Event(), list[Any]()

    def run(params: object) -> None:
        began.set()
        time.sleep(0.3)
        ended.append(params)

    path = tmp_path / "delays.db"
    queue = queues.started({"remind": run}, workers.SQLitePersistence(path), threads=1)
    tasks = range(60)  # not done in 15 s, should the stop come that late
    queue.push_many([(0, "remind", number, f"{number}") for number in tasks])
    queue.push(3_600, "remind", "later", "later")
    assert began.wait(20)
    assert queue.stop(20)
    with closing(workers.SQLitePersistence(path)) as kept:
        left = {task.id for task in kept.list()}
    assert left == {f"{number}" for number in tasks if number not in ended} | {"later"}
    assert 1 <= len(ended) < len(tasks)
    with pytest.raises(WorkersError, match="this delay queue was stopped"):
        queue.push(1, "remind")


def test_a_task_that_still_runs_may_push_and_move_during_the_stop(queues: Queues) -> None:
    begun, stops = threading.Event(), threading.Event()

    def run(params: Any) -> None:
        begun.set()
        assert stops.wait(20)
        assert queue.move("other", 60)
        queue.push_many([(60, "other", 2, "more")])

    queue = queues.started({"run": run, "other": print})
    queue.push(100, "other", 1, "other")
    queue.push(0, "run")
    assert begun.wait(20)
    ended: list[bool] = []
    ending = threading.Thread(target=lambda: ended.append(queue.stop(20)))
    ending.start()
    assert eventually(queue._lock._lock.locked)
    stops.set()
    ending.join(20)
    assert ended == [True]
    assert {task.id for task in queue.pending()} == {"other", "more"}


def test_a_task_that_stops_its_own_queue_is_refused_and_the_queue_goes_on(queues: Queues) -> None:
    told, ran = list[str](), list[Any]()

    def stop(params: object) -> None:
        try:
            queue.stop(20)
        except WorkersError as error:
            told.append(str(error))

    queue = queues.started({"stop": stop, "remind": ran.append})
    queue.push(0, "stop")
    assert eventually(lambda: len(told) == 1)
    assert told[0].startswith("a task cannot stop its own delay queue")
    queue.push(0, "remind", "next")
    assert eventually(lambda: ran == ["next"])
    assert queue.stop(20)


def test_a_function_of_on_held_may_run_the_task_again_at_the_start(queues: Queues) -> None:
    ran: list[Any] = []
    kept = workers.MemoryPersistence()
    kept.save(DelayTask("dead", NEVER, "run", "x", {DEAD_AT: 1.0}))
    queue = queues.made({"run": ran.append}, persistence=kept)
    queue.on_held(lambda task: queue.move(task.id, 0))
    starting = threading.Thread(target=queue.start, daemon=True)
    starting.start()
    assert eventually(lambda: ran == ["x"])


def test_a_stop_ends_at_its_timeout_and_the_task_that_still_runs_is_kept(queues: Queues) -> None:
    began, go_on = threading.Event(), threading.Event()

    def run(params: object) -> None:
        began.set()
        assert go_on.wait(20)

    kept = workers.MemoryPersistence()
    queue = queues.started({"remind": run}, kept)
    queue.push(0, "remind", None, "a")
    assert began.wait(20)
    assert not queue.stop(0.1)
    assert [task.id for task in kept.list()] == ["a"]
    go_on.set()
    assert queue.stop(20)
    assert kept.list() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"persistence": None}, "persistence is None"),
        ({"tick": 0.001}, "tick must be 0.01 s or more"),
        ({"tick": float("inf")}, "tick must be"),
        ({"slots": 1}, "needs 2 slots"),
        ({"threads": 0}, "a thread"),
        ({"late_per_s": 0}, "late_per_s above 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        workers.DelayQueue({}, **{"persistence": workers.MemoryPersistence(), **changes})


def test_a_server_that_is_away_refuses_the_start_and_the_push() -> None:
    queue = workers.DelayQueue({}, workers.RedisPersistence("redis://127.0.0.1:1/0"))
    with pytest.raises(BrokerError):
        queue.push(1, "remind")
    with pytest.raises(BrokerError):
        queue.start()
    queue.stop()


def test_the_clock_is_that_of_the_persistence(queues: Queues) -> None:
    class Ahead(workers.MemoryPersistence):
        def time(self) -> float:
            return time.time() + 1_000_000

    queue = queues.made({}, Ahead())
    queue.push(100, "remind")
    [task] = queue.pending()
    assert abs(task.due - time.time() - 1_000_100) < 60
    assert type(queue.clock) is Clock
