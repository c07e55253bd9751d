"""`workers.testing.crash_points`: a job is killed at each of its steps, and delivered again. No test here has a server.

Each `where` is checked by the name of this file only: the line moves with the file.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from apps import without_server

from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.api.block_owner import BlockKeeper
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.message import Message, current_message


@pytest.fixture
def app() -> App:
    app = without_server()

    @app.job("Mail", queue="mail")
    def mail(order: int) -> None: ...

    return app


class Shop:
    """The state outside of the jobs."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def reset(self) -> None:
        self.paid.clear()

    def state(self) -> Any:
        return self.paid


@pytest.fixture
def shop() -> Shop:
    return Shop()


def told(points: list[testing.CrashPoint]) -> list[str]:
    return [re.sub(r":\d+\)", ")", str(point)) for point in points]


def check(app: App, shop: Shop, job: Any, *args: Any, **options: Any) -> list[str]:
    return told(testing.crash_points(job, *args, app=app, state=shop.state, reset=shop.reset, **options))


def refusal(app: App, shop: Shop, job: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check(app, shop, job, *args, **options)
    return re.sub(r"\.py:\d+\)", ".py)", str(caught.value))


# --- the points


def test_a_push_has_a_point_before_it_and_one_after_it(app: App, shop: Shop) -> None:
    @app.job("Charge", atomic=False)
    def charge(order: int) -> None:
        if order not in shop.paid:
            shop.paid.append(order)
        app.enqueue("mail", "Mail", [order])

    assert check(app, shop, charge, 42, pushed="ignore") == [
        "killed before push 1 of 1 (Mail, test_crash_points.py)",
        "killed after push 1 of 1 (Mail, test_crash_points.py)",
        "killed at its end, before its acknowledgement",
    ]


def test_the_message_names_the_point_the_difference_and_a_way_out(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        shop.paid.append(order)
        app.enqueue("mail", "Mail", [order])

    text = refusal(app, shop, charge, 42)
    assert text.splitlines()[:6] == [
        "Charge(42) is not idempotent: 3 of 3 crash points end differently",
        "killed before push 1 of 1 (Mail, test_crash_points.py), then delivered again:",
        "    state: [42, 42]",
        "    without the crash: [42]",
        "killed after push 1 of 1 (Mail, test_crash_points.py), then delivered again:",
        "    state: [42, 42]",
    ]
    assert "    jobs: Mail(42) in queue mail: there are 2, and without the crash 1\n" in text
    assert "\nhint: work is done twice, or not at all" in text
    assert "\nhint: a push before the crash" in text


def test_work_that_is_marked_as_done_before_it_is_done_is_lost(app: App, shop: Shop) -> None:
    """Killed at its push, the job does nothing when it is delivered again."""
    marks: set[int] = set()

    def reset() -> None:
        shop.reset()
        marks.clear()

    @app.job("Charge")
    def charge(order: int) -> None:
        if order in marks:
            return
        marks.add(order)
        app.enqueue("mail", "Mail", [order])
        shop.paid.append(order)

    with pytest.raises(AssertionError) as caught:
        testing.crash_points(charge, 42, app=app, state=shop.state, reset=reset)
    assert "2 of 3 crash points" in str(caught.value)
    assert "jobs: Mail(42) in queue mail: there are 0, and without the crash 1" in str(caught.value)


def test_a_state_of_several_lines_is_told_as_a_diff(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        shop.paid.append(order)

    def state() -> dict[str, Any]:
        return {f"account number {number}": [*shop.paid] if number == 7 else [] for number in range(20)}

    with pytest.raises(AssertionError) as caught:
        testing.crash_points(charge, 42, app=app, state=state, reset=shop.reset)
    assert "    - 'account number 7': [42]," in str(caught.value)
    assert "    + 'account number 7': [42, 42]," in str(caught.value)
    assert "number 12" not in str(caught.value)


def test_an_atomic_job_has_its_end_only_and_its_pushes_go_with_the_crash(app: App, shop: Shop) -> None:
    @app.job("Charge", atomic=True)
    def charge(order: int) -> None:
        app.enqueue("mail", "Mail", [order])

    assert check(app, shop, charge, 42) == ["killed at its end, before its acknowledgement"]


def test_a_chain_and_the_steps_of_a_batch_are_points(app: App, shop: Shop) -> None:
    @app.job("Part")
    def part(number: int) -> None: ...

    @app.job("All")
    def everything() -> None:
        with app.batch("all"):
            part.enqueue(1)
        app.chain(part.s(1), part.s(2)).enqueue()

    assert check(app, shop, everything, pushed="run")[::2] == [
        "killed before batch 1 of 2 (open, test_crash_points.py)",
        "killed before push 1 of 2 (Part, test_crash_points.py)",
        "killed before batch 2 of 2 (let go, test_crash_points.py)",
        "killed before push 2 of 2 (chains, test_crash_points.py)",
        "killed at its end, before its acknowledgement",
    ]


def test_pushes_of_threads_that_the_job_starts_are_points(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(app.enqueue, "mail", "Mail", [order]).result()
        shop.paid.append(order)

    text = refusal(app, shop, charge, 1)
    assert "killed after push 1 of 1" in text
    assert "killed before push" not in text


# --- lines


def pay(shop: Shop, order: int) -> None:
    if order not in shop.paid:
        shop.paid.append(order)


def test_a_kill_between_two_lines_is_found_if_lines_are_asked_for(app: App, shop: Shop) -> None:
    marks: list[int] = []

    @app.job("Charge", atomic=True)
    def charge(order: int) -> None:
        if order not in marks:
            shop.paid.append(order)
            marks.append(order)

    def reset() -> None:
        shop.reset()
        marks.clear()

    assert len(testing.crash_points(charge, 42, app=app, state=shop.state, reset=reset)) == 1
    with pytest.raises(AssertionError, match="1 of 4 crash points") as caught:
        testing.crash_points(charge, 42, app=app, state=shop.state, reset=reset, lines=True)
    line = charge.__wrapped__.__wrapped__.__code__.co_firstlineno + 4
    assert f"killed before line test_crash_points.py:{line} in charge, then delivered again:" in str(caught.value)


def test_lines_of_helpers_and_loops_are_points_the_first_two_times(app: App, shop: Shop) -> None:
    @app.job("Charge")
    async def charge(*orders: int) -> None:
        for order in orders:
            await asyncio.sleep(0)
            pay(shop, order)

    tracer = sys.gettrace()
    points = testing.crash_points(charge, *range(9), app=app, state=shop.state, reset=shop.reset, lines=True)
    assert sys.gettrace() is tracer
    lines = [point.step.about for point in points if point.step.kind == "line"]
    assert lines.count("pay") == 2 * 2  # two lines, of nine calls the first two
    assert lines.count("charge") == 2 * 3


def test_lines_of_an_iterable_job_are_points_with_and_without_checkpoints(app: App, shop: Shop) -> None:
    @app.job("Rows")
    def rows(*, cursor: int = 0) -> Iterator[int]:
        for row in range(cursor, 2):
            if row not in shop.paid:
                shop.paid.append(row)
            yield row + 1

    lines = [point for point in check(app, shop, rows, lines=True) if "line" in point]
    without, with_each = ("without a checkpoint", "with a checkpoint at each yield")
    assert sum(without in point for point in lines) == sum(with_each in point for point in lines) == 2 * 4


# --- limits


def test_the_entry_and_the_exit_of_a_block_under_a_limit_are_points_and_its_place_is_free_again(
    app: App, shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of ours keeps the lease of the block. It ends with the killed process, however slow it is."""
    beat = BlockKeeper.beat
    monkeypatch.setattr(BlockKeeper, "beat", lambda keeper: (time.sleep(0.1), beat(keeper)))
    bank = app.limit("bank", concurrent=1)

    @app.job("Charge")
    def charge(order: int) -> None:
        with bank.acquire(timeout=5):
            if order not in shop.paid:
                shop.paid.append(order)

    assert check(app, shop, charge, 42) == [
        "killed before limit entry 1 of 1 (bank, test_crash_points.py)",
        "killed after limit entry 1 of 1 (bank, test_crash_points.py)",
        "killed before limit exit 1 of 1 (bank, test_crash_points.py)",
        "killed after limit exit 1 of 1 (bank, test_crash_points.py)",
        "killed at its end, before its acknowledgement",
    ]
    assert not [thread for thread in threading.enumerate() if thread.name == "limit blocks"]
    assert [record.message for record in caplog.records if record.levelname != "INFO"] == []


def test_a_job_that_waits_for_the_place_of_a_killed_block_gets_it(app: App, shop: Shop) -> None:
    bank = app.limit("bank", concurrent=1)

    @app.job("Pay", limits=[bank])
    def pay(order: int) -> None: ...

    @app.job("Charge")
    def charge(order: int) -> None:
        if order not in shop.paid:
            with bank.acquire(timeout=5):
                shop.paid.append(order)
                pay.enqueue(order)

    assert len(check(app, shop, charge, 42, pushed="run")) == 7


def test_a_job_with_a_place_and_a_lock_gets_both_again(app: App, shop: Shop) -> None:
    @app.job("Charge", limits=[app.limit("order", concurrent=1)], unique_for=60, track=True, timeout=60)
    def charge(order: int) -> None:
        app.enqueue("mail", "Mail", [order])
        if order not in shop.paid:
            shop.paid.append(order)

    assert len(check(app, shop, charge, 42, pushed="run")) == 3


def test_a_unique_push_is_made_once(app: App, shop: Shop) -> None:
    @app.job("Remind", unique_for=60)
    def remind(order: int) -> None: ...

    @app.job("Charge")
    def charge(order: int) -> None:
        remind.enqueue(order)

    assert len(check(app, shop, charge, 42)) == 3


# --- iterable jobs


def test_an_iterable_job_goes_on_from_its_checkpoint_or_from_its_start(app: App, shop: Shop) -> None:
    begun_at: list[int] = []

    @app.job("Rows")
    def rows(*, cursor: int = 0) -> Iterator[int]:
        begun_at.append(cursor)
        for row in range(cursor, 2):
            if row not in shop.paid:
                shop.paid.append(row)
            yield row + 1

    without, with_each = ", without a checkpoint", ", with a checkpoint at each yield"
    assert check(app, shop, rows) == [
        f"killed at yield 1 of 2{without}",
        "stopped at yield 1 of 2",
        f"killed at yield 2 of 2{without}",
        "stopped at yield 2 of 2",
        f"killed at its end, before its acknowledgement{without}",
        "killed before checkpoint 1 of 2 (cursor 1)",
        "killed after checkpoint 1 of 2 (cursor 1)",
        "killed before checkpoint 2 of 2 (cursor 2)",
        "killed after checkpoint 2 of 2 (cursor 2)",
        f"killed at its end, before its acknowledgement{with_each}",
    ]
    undisturbed = [0, 0, 0]
    assert begun_at == [*undisturbed, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2, 0, 2]


def test_a_cursor_that_skips_a_row_is_found(app: App, shop: Shop) -> None:
    @app.job("Rows")
    def rows(*, cursor: int = 0) -> Iterator[int]:
        for row in range(cursor, 3):
            yield row + 1  # says that the row is done, and it is not
            shop.paid.append(row)

    text = refusal(app, shop, rows)
    assert "stopped at yield 1 of 3, then delivered again:\n    state: [1, 2]" in text


def test_pushes_in_atomic_between_two_yields_are_made_once(app: App, shop: Shop) -> None:
    @app.job("Rows")
    async def rows(*, cursor: int = 0) -> AsyncIterator[int]:
        for row in range(cursor, 2):
            with app.atomic():
                app.enqueue("mail", "Mail", [row])
            yield row + 1

    assert len(check(app, shop, rows)) == 6


# --- the dead run


def test_a_killed_run_reaches_the_broker_no_more(app: App, shop: Shop) -> None:
    """It may catch the kill: no call of it passes, and its end does not count."""
    caught: list[str] = []

    @app.job("Charge")
    def charge(order: int) -> None:
        for _ in range(2):
            try:
                app.enqueue("mail", "Mail", [order])
            except Exception:
                caught.append("Exception")
            except BaseException:
                caught.append("BaseException")

    text = refusal(app, shop, charge, 42)
    assert "killed after push 1 of 2" in text
    assert "killed before push 1 of 2" not in text
    assert "there are 4" in text  # at the end: two and two
    assert {*caught} == {"BaseException"}


def test_a_kill_spends_no_retry_and_no_handler_is_called(app: App, shop: Shop) -> None:
    runs: list[tuple[str, Any, Any]] = []
    called: list[BaseException] = []
    app.on_error(lambda message, error: called.append(error))
    app.on_death(lambda message, error: called.append(error))

    @app.job("Charge", retry=0)
    def charge(order: int) -> None:
        message = current_message()
        assert message is not None
        runs.append((message.jid, message.get("retry_count"), message.get("recovered", {}).get("count")))
        app.enqueue("mail", "Mail", [order])

    check(app, shop, charge, 42, pushed="run")
    jid = runs[0][0]
    assert runs == [(jid, None, None), (jid, None, None), *[(jid, None, None), (jid, None, 1)] * 3]
    assert called == []


def test_middleware_and_its_pushes_are_around_each_run(app: App, shop: Shop) -> None:
    class Audit:
        def call(self, queue: str, message: Message, call_next: Any) -> bool:
            if message.job_class == "Charge":
                app.enqueue("mail", "Mail", [0])
            return bool(call_next())

    app.middleware.append(Audit())

    @app.job("Charge")
    def charge(order: int) -> None: ...

    assert check(app, shop, charge, 42, pushed="ignore")[0].startswith("killed before push 1 of 1 (Mail")


# --- what is compared


def test_pushed_jobs_run_if_asked_and_what_they_leave_is_compared(app: App, shop: Shop) -> None:
    @app.job("Pay", queue="bank")
    def pay(order: int) -> None:
        if order not in shop.paid:
            shop.paid.append(order)

    @app.job("Charge")
    def charge(order: int) -> None:
        pay.enqueue(order)

    assert len(check(app, shop, charge, 42, pushed="run")) == 3
    assert "there are 2" in refusal(app, shop, charge, 42)

    @app.job("Later")
    def later(order: int) -> None:
        pay.enqueue_in(60, order)

    text = refusal(app, shop, later, 42, pushed="run")
    assert "jobs: Pay(42) in queue bank (scheduled): there are 2, and without the crash 1" in text
    assert len(check(app, shop, later, 42, pushed="ignore")) == 3


def test_a_job_that_does_not_end_after_the_crash_is_told_whatever_it_has_pushed(app: App, shop: Shop) -> None:
    runs: list[int] = []

    @app.job("Charge", limits=[app.limit("bank", rate="1/hour")])
    def charge(order: int) -> None:
        runs.append(order)
        shop.paid.append(order)

    assert "Charge(42) in queue default" in refusal(app, shop, charge, 42, pushed="ignore")
    assert len(runs) == 3  # two undisturbed runs, and the one that was killed


def test_pushes_that_are_not_the_same_are_told_though_they_are_as_many(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        if not shop.paid:
            shop.paid.append(order)
            app.enqueue("mail", "Mail", [1])
        else:
            app.enqueue("mail", "Mail", [2])

    text = refusal(app, shop, charge, 42)
    assert "jobs: Mail(1) in queue mail: there are 0, and without the crash 1" in text
    assert "jobs: Mail(2) in queue mail: there are 1, and without the crash 0" in text


def test_a_second_run_that_fails_is_told(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        if order in shop.paid:
            raise KeyError("paid already")
        shop.paid.append(order)

    assert "then delivered again:\n    it failed: KeyError: 'paid already'" in refusal(app, shop, charge, 42)


def test_an_error_of_the_undisturbed_run_is_raised_in_the_test(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        raise ConnectionError("the bank does not answer")

    with pytest.raises(ConnectionError, match="the bank"):
        check(app, shop, charge, 42)


def test_a_job_that_ends_in_an_outcome_of_its_own_is_compared_too(app: App, shop: Shop) -> None:
    from goworkers_py.core.errors import KillJob

    @app.job("Charge")
    def charge(order: int) -> None:
        message = current_message()
        if message is not None and message.get("recovered"):
            raise KillJob("seen before")

    assert "jobs: Charge(42) in queue default (dead): there are 1, and without the crash 0" in refusal(
        app, shop, charge, 42
    )


def test_a_reset_that_forgets_something_is_told(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None:
        shop.paid.append(order)

    with pytest.raises(AssertionError, match="differently in two undisturbed runs") as caught:
        testing.crash_points(charge, 42, app=app, state=shop.state)
    assert "state: [42, 42]\n    without the crash: [42]" in str(caught.value)


def test_steps_that_differ_from_run_to_run_are_told(app: App, shop: Shop) -> None:
    runs: list[int] = []

    @app.job("Charge")
    def charge(order: int) -> None:
        runs.append(order)
        if len(runs) < 3:
            app.enqueue("mail", "Mail", [order])

    assert "do the steps of the job differ from run to run?" in refusal(app, shop, charge, 42, pushed="ignore")


# --- how it is called


def test_a_signature_gives_a_job_its_keywords(app: App, shop: Shop) -> None:
    seen: list[str] = []

    @app.job("Move")
    def move(*, state: str) -> None:
        seen.append(state)

    assert len(check(app, shop, move.s(state="paid"))) == 1
    assert {*seen} == {"paid"}


def test_what_cannot_be_checked_is_refused(app: App, shop: Shop) -> None:
    @app.job("Grouped", group_grace=1)
    def grouped(order: int) -> None: ...

    @grouped.aggregate
    def together(rows: list[list[Any]]) -> list[Any]:
        return [0]

    with pytest.raises(ArgumentError, match=r"Grouped\.set\(group=None\)"):
        check(app, shop, grouped.set(group="all"), 1)
    with pytest.raises(ArgumentError, match="pushed must be"):
        check(app, shop, grouped, 1, pushed="twice")
    assert len(check(app, shop, grouped, 1)) == 1
    with pytest.raises(ArgumentError, match="has no lines of Python"):
        check(app, shop, app.job("Print")(print), 1, lines=True)

    app.client_middleware(lambda job: None)
    with pytest.raises(ArgumentError, match="was not pushed"):
        check(app, shop, grouped, 1)


def test_a_block_around_it_keeps_its_jobs_and_its_clock(app: App, shop: Shop) -> None:
    @app.job("Charge")
    def charge(order: int) -> None: ...

    with testing.fake(app) as sandbox:
        app.enqueue("mail", "Mail", [7])
        check(app, shop, charge, 42)
        assert [job.args for job in sandbox.jobs()] == [[7]]
        assert charge.enqueue(1) is not None


async def _in_a_loop(app: App, shop: Shop, job: Any) -> list[str]:
    return check(app, shop, job, 42)


def test_an_async_job_is_checked_in_a_test_that_runs_in_a_loop(app: App, shop: Shop) -> None:
    @app.job("Charge")
    async def charge(order: int) -> None:
        await asyncio.sleep(0)
        app.enqueue("mail", "Mail", [order])
        shop.paid.append(order)

    with pytest.raises(AssertionError, match="2 of 3 crash points"):
        asyncio.run(_in_a_loop(app, shop, charge))
