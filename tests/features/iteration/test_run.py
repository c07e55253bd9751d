"""Jobs whose code is a generator: where a run ends, where the next one goes on, and what is stored between them."""

from __future__ import annotations

import contextlib
import datetime
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from apps import without_server
from waiting import eventually

import goworkers_py as workers
from goworkers_py import ConfigError
from goworkers_py.api.app import App
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import REQUEUE
from goworkers_py.features.iteration import run as iterate
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import Iteration
from goworkers_py.features.iteration.memory import MemoryIterations
from goworkers_py.policy.known_needs import SPEAKS
from goworkers_py.testing import Sandbox
from goworkers_py.testing.runner import SandboxRunner

AT_ONCE = 1e-9  # as a time slice, a run ends at each yield; as a checkpoint, the cursor is stored at each yield


@pytest.fixture
def app() -> App:
    return without_server()


def outcomes(sandbox: Sandbox) -> list[str]:
    return [run.outcome for run in sandbox.run_all(raise_errors=False)]


# --- ends and goes on


def test_a_job_runs_to_its_end_and_its_result_is_kept(app: App, sandbox: Sandbox) -> None:
    @app.job(retain=60)
    def count(upto: int, *, cursor: int | None = None) -> Iterator[int]:
        yield from range(upto)
        return "counted"

    jid = count.enqueue(3)
    assert outcomes(sandbox) == ["done"]
    assert jid is not None
    assert app.result(jid, timeout=5) == "counted"


def test_after_its_time_slice_a_job_goes_on_behind_the_others_from_its_cursor(app: App, sandbox: Sandbox) -> None:
    ran: list[Any] = []

    @app.job(time_slice=AT_ONCE)
    def count(upto: int, *, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, upto):
            ran.append(number)
            yield number + 1

    app.job("other")(lambda: ran.append("other"))
    count.enqueue(3)
    sandbox.app.enqueue("default", "other", [])
    assert outcomes(sandbox) == ["requeue", "done", "requeue", "requeue", "done"]
    assert ran == [0, "other", 1, 2]


def test_an_asynchronous_generator_goes_on_from_its_cursor(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []

    @app.job(time_slice=AT_ONCE)
    async def count(*, cursor: int = 0) -> AsyncIterator[int]:
        try:
            for number in range(cursor, 3):
                ran.append(number)
                yield number + 1
        finally:
            ran.append(-1)

    count.enqueue()
    assert outcomes(sandbox) == ["requeue"] * 3 + ["done"]
    assert ran == [0, -1, 1, -1, 2, -1, -1]


def test_a_process_that_stops_begins_no_step(app: App, sandbox: Sandbox) -> None:
    """Its fetcher may get the job once more, just after the job went back into its queue."""
    ran: list[int] = []

    @app.job
    def count(*, cursor: int = 0) -> Iterator[int]:
        ran.append(cursor)
        yield 1

    runner = SandboxRunner(app, sandbox._broker)
    runner._shared.state.quiet = True
    assert runner.run(Delivery(b'{"class":"count","args":[],"jid":"1"}', "default", "me")) == REQUEUE
    assert ran == []
    assert sandbox._broker.require_part(Iterations).begin("1", "").cursor.run == 1


def test_a_broker_without_cursors_refuses_the_run_by_its_name(app: App, sandbox: Sandbox) -> None:
    count_to_three(app)
    runner = SandboxRunner(app, sandbox._broker, of_code=Broker())
    runner.run(Delivery(b'{"class":"count","args":[],"jid":"1"}', "default", "me"))
    assert str(runner._error) == (
        "the memory of a test block keeps no cursor of an iterable job: push such jobs to a partition on Redis"
    )


def test_the_finally_of_a_generator_runs_when_it_is_to_go_on_later(app: App, sandbox: Sandbox) -> None:
    closed: list[str] = []

    @app.job(time_slice=AT_ONCE)
    def count(*, cursor: int | None = None) -> Iterator[int]:
        try:
            if cursor is None:
                yield 1
        finally:
            closed.append(str(cursor))

    count.enqueue()
    assert outcomes(sandbox) == ["requeue", "done"]
    assert closed == ["None", "1"]


def test_a_bare_yield_does_not_end_a_run(app: App, sandbox: Sandbox) -> None:
    @app.job(time_slice=AT_ONCE)
    def count(*, cursor: int | None = None) -> Iterator[None]:
        yield
        yield

    count.enqueue()
    assert outcomes(sandbox) == ["done"]


@pytest.mark.parametrize("value", [0, "", "\u00e9", 2.5, False, [1, [2]], {"id": 7}, (1, "a"), 2**70])
def test_a_cursor_may_be_any_json(value: Any, app: App, sandbox: Sandbox) -> None:
    got: list[Any] = []

    @app.job(time_slice=AT_ONCE)
    def count(*, cursor: Any = "none") -> Iterator[Any]:
        got.append(cursor)
        if cursor == "none":
            yield value

    count.enqueue()
    assert outcomes(sandbox) == ["requeue", "done"]
    assert got == ["none", list(value) if isinstance(value, tuple) else value]


def test_a_cursor_of_an_annotated_type_is_converted(app: App, sandbox: Sandbox) -> None:
    got: list[Any] = []
    day = datetime.date(2025, 2, 4)

    @app.job(time_slice=AT_ONCE)
    def count(start: int, /, *, cursor: "datetime.date | None" = None) -> Iterator[datetime.date]:  # noqa: UP037
        got.append(cursor)
        if cursor is None:
            yield day

    count.enqueue(1)
    assert outcomes(sandbox) == ["requeue", "done"]
    assert got == [None, day]


def test_a_cursor_that_json_cannot_hold_fails_the_run_at_its_yield(app: App, sandbox: Sandbox) -> None:
    @app.job(retry=0)
    def count(*, cursor: Any = None) -> Iterator[object]:
        yield object()

    count.enqueue()
    [run] = sandbox.run_all(raise_errors=False)
    assert run.outcome == "dead"
    assert "the cursor" in str(run.error)


# --- failures


def test_a_retry_goes_on_from_the_last_yield(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []

    @app.job
    def count(*, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 4):
            ran.append(number)
            if ran == [0, 1, 2]:
                raise ValueError(number)
            yield number + 1

    count.enqueue()
    assert outcomes(sandbox) == ["retry"]
    sandbox.travel(600)
    assert outcomes(sandbox) == ["done"]
    assert ran == [0, 1, 2, 2, 3]


def test_an_error_of_the_cleanup_fails_the_run_and_keeps_the_cursor(app: App, sandbox: Sandbox) -> None:
    got: list[int] = []

    @app.job(time_slice=AT_ONCE)
    def count(*, cursor: int = 0) -> Iterator[int]:
        got.append(cursor)
        try:
            if not cursor:
                yield 5
        finally:
            if not cursor:
                raise ValueError("cleanup")

    count.enqueue()
    assert outcomes(sandbox) == ["retry"]
    sandbox.travel(600)
    assert outcomes(sandbox) == ["done"]
    assert got == [0, 5]


def test_a_discarded_job_leaves_no_cursor(app: App, sandbox: Sandbox) -> None:
    @app.job
    def count(*, cursor: int | None = None) -> Iterator[int]:
        assert cursor is None
        yield 1
        raise workers.DiscardJob

    for _ in range(2):
        count.set(jid="same").enqueue()
        assert outcomes(sandbox) == ["discard"]


# --- checkpoints


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    stored: list[str] = []
    original = MemoryIterations.checkpoint
    monkeypatch.setattr(
        MemoryIterations,
        "checkpoint",
        lambda self, jid, cursor: stored.append(cursor.value) or original(self, jid, cursor),
    )
    return stored


def count_to_three(app: App, **options: Any) -> workers.Job[..., Any]:
    @app.job(**options)
    def count(*, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            yield number + 1

    return count


def test_the_cursor_is_stored_when_its_time_has_come(app: App, sandbox: Sandbox, checkpoints: list[str]) -> None:
    count_to_three(app).enqueue()
    assert (outcomes(sandbox), checkpoints) == (["done"], [])
    count_to_three(app).set(checkpoint=AT_ONCE).enqueue()
    assert (outcomes(sandbox), checkpoints) == (["done"], ["1", "2", "3"])


@pytest.mark.parametrize("error", [BrokerUnavailable, BrokerRefused])
def test_a_checkpoint_that_fails_does_not_fail_the_job(
    error: type[Exception], app: App, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fails(*_: object) -> bool:
        raise error("down")

    monkeypatch.setattr(MemoryIterations, "checkpoint", fails)
    count_to_three(app, checkpoint=AT_ONCE).enqueue()
    assert outcomes(sandbox) == ["done"]
    assert "the cursor was not stored" in caplog.text


def test_a_run_that_another_one_has_followed_ends_and_waits_until_that_one_has_got_on(
    app: App, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is in its queue twice. Without the pause, the two would end each other's runs for ever."""
    ran: list[int] = []
    monkeypatch.setattr(iterate, "BEHIND_ANOTHER", 60 / AT_ONCE)

    @app.job(checkpoint=AT_ONCE, queue="low")
    def count(*, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            ran.append(number)
            if len(ran) == 2:
                message = workers.current_message()
                assert message is not None
                sandbox._broker.require_part(Iterations).begin(message.jid, repr(message.created_at))
            yield number + 1

    count.enqueue()
    assert outcomes(sandbox) == ["reschedule"]
    assert ran == [0, 1]
    [waiting] = sandbox.jobs(count)
    assert (waiting.queue, waiting.at is not None) == ("low", True)
    sandbox.travel(61)
    assert outcomes(sandbox) == ["done"]
    assert ran == [0, 1, 1, 2]


def test_a_job_whose_cursor_cannot_be_read_now_goes_back_without_spending_a_retry(
    app: App, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, tries = MemoryIterations.begin, iter([True, False])

    def fails_once(iterations: MemoryIterations, jid: str, of: str) -> Iteration:
        if next(tries):
            raise BrokerUnavailable("down")
        return original(iterations, jid, of)

    monkeypatch.setattr(MemoryIterations, "begin", fails_once)
    count_to_three(app).enqueue()
    assert outcomes(sandbox) == ["requeue", "done"]


def test_a_job_without_a_jid_fails_and_its_retry_has_one(app: App, sandbox: Sandbox) -> None:
    count_to_three(app)
    sandbox._broker.transport.publish([Push("default", b'{"class":"count","args":[]}')])
    assert outcomes(sandbox) == ["retry"]
    sandbox.travel(600)
    assert outcomes(sandbox) == ["done"]


# --- pushes that are held back


def test_pushes_that_are_held_back_happen_when_a_run_ends_for_now(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []
    child = app.job("child", queue="children")(ran.append)

    @app.job(time_slice=AT_ONCE, checkpoint=AT_ONCE)
    def parents(*, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            with app.atomic():
                child.enqueue(number)
            yield number + 1

    parents.enqueue()
    assert outcomes(sandbox).count("requeue") == 3
    assert ran == [0, 1, 2]


def test_after_a_failure_the_work_whose_pushes_were_held_back_is_repeated(
    app: App, sandbox: Sandbox, checkpoints: list[str]
) -> None:
    ran: list[int] = []
    seen: list[int] = []
    child = app.job("child", queue="children")(ran.append)

    @app.job(checkpoint=AT_ONCE)
    def parents(*, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            seen.append(number)
            if number == 1:
                with app.atomic():
                    child.enqueue(number)
            if seen == [0, 1, 2]:
                raise ValueError
            yield number + 1

    parents.enqueue()
    assert outcomes(sandbox) == ["retry"]
    assert (ran, checkpoints) == ([], ["1"])
    sandbox.travel(600)
    assert outcomes(sandbox) == ["done", "done"]
    assert (seen, ran) == ([0, 1, 2, 1, 2], [1])


def test_a_block_without_a_push_keeps_no_cursor_from_being_stored(
    app: App, sandbox: Sandbox, checkpoints: list[str]
) -> None:
    child = app.job("child", queue="children")(lambda: None)

    @app.job(checkpoint=AT_ONCE)
    def parents(*, cursor: int = 0) -> Iterator[int]:
        with app.atomic():
            pass
        yield 1
        with contextlib.suppress(ValueError), app.atomic():
            child.enqueue()
            raise ValueError
        yield 2
        with app.atomic():
            child.enqueue()
        yield 3

    parents.enqueue()
    assert outcomes(sandbox) == ["done", "done"]
    assert checkpoints == ["1", "2"]


def test_a_yield_inside_of_a_block_that_holds_back_is_refused(app: App, sandbox: Sandbox) -> None:
    @app.job(retry=0)
    def parents(*, cursor: int = 0) -> Iterator[int]:
        with app.atomic():
            yield 1

    parents.enqueue()
    [run] = sandbox.run_all(raise_errors=False)
    assert (run.outcome, "end the block before the yield" in str(run.error)) == ("dead", True)


# --- cancelling, expiry


def test_a_cancelled_job_ends_at_its_next_yield(app: App) -> None:
    app.configure(broker=f"memory://{time.monotonic_ns()}", timeout=5)
    ran: list[str] = []

    @app.job
    def count(*, cursor: int | None = None) -> Iterator[int | None]:
        try:
            while True:
                ran.append("step begins")
                if not eventually(lambda: workers_message().cancel is not None):
                    raise AssertionError("not cancelled")
                ran.append("step ends")
                yield None
        finally:
            ran.append("closed")

    def workers_message() -> workers.Message:
        message = workers.current_message()
        assert message is not None
        return message

    app.start()
    try:
        jid = count.set(track=True).enqueue()
        assert jid is not None
        assert eventually(lambda: bool(ran))
        assert app.cancel(jid, timeout=20) == "cancelled"
        assert ran == ["step begins", "step ends", "closed"]
    finally:
        app.quit()
        app.use(app.config)


def test_a_job_that_is_interrupted_and_retried_goes_on_behind_the_step_that_it_was_in(
    app: App, sandbox: Sandbox
) -> None:
    ran: list[int] = []

    @app.job
    def count(*, cursor: int = 0) -> Iterator[int]:
        message = workers.current_message()
        assert message is not None
        for number in range(cursor, 3):
            if not ran:
                message.cancel = CancelRequest(retry=True)
            ran.append(number)
            yield number + 1

    count.enqueue()
    assert outcomes(sandbox) == ["retry"]
    sandbox.travel(600)
    assert outcomes(sandbox) == ["done"]
    assert ran == [0, 1, 2]


def test_a_job_that_has_given_up_leaves_no_cursor(app: App, sandbox: Sandbox) -> None:
    began: list[str] = []

    @app.job(interrupt=False)
    def count(*, cursor: int | None = None) -> Iterator[int]:
        yield 1
        message = workers.current_message()
        assert message is not None
        began.append(repr(message.created_at))
        message.cancel = CancelRequest(retry=False)
        assert message.cancelled

    count.set(jid="same").enqueue()
    assert outcomes(sandbox) == ["cancelled"]
    assert sandbox._broker.require_part(Iterations).begin("same", began[0]).cursor.run == 1


def test_a_job_that_was_begun_in_time_does_not_expire_between_its_runs(app: App, sandbox: Sandbox) -> None:
    @app.job(time_slice=AT_ONCE, expires_in=60)
    def count(*, cursor: int = 0) -> Iterator[int]:
        if cursor < 2:
            sandbox.travel(600)
            yield cursor + 1

    count.enqueue()
    assert outcomes(sandbox) == ["requeue", "requeue", "done"]


# --- declaring


def test_a_generator_function_without_a_cursor_is_refused_with_what_to_write(app: App) -> None:
    def bare() -> Iterator[int]:
        yield 1

    def positional(cursor: int | None = None) -> Iterator[int]:
        yield 1

    async def asynchronous(*, cursor: int) -> AsyncIterator[int]:
        yield 1

    for function in (bare, positional, asynchronous):
        with pytest.raises(ConfigError, match=r"write `def .*\(\.\.\., \*, cursor=None\)`"):
            app.job(function)  # type: ignore[call-overload]


def test_an_iterable_job_cannot_be_atomic_as_a_whole(app: App) -> None:
    with pytest.raises(ConfigError, match="atomic=True holds back"):
        count_to_three(app, atomic=True)


def test_a_decorated_generator_function_is_iterable_and_one_that_is_used_up_is_not(app: App, sandbox: Sandbox) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))

    def listed(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(function)(lambda *args, **kwargs: len(list(function(*args, **kwargs))))

    @app.job(time_slice=AT_ONCE)
    @logged
    def goes_on(*, cursor: int = 0) -> Iterator[int]:
        if not cursor:
            yield 1

    @app.job
    @listed
    def used_up() -> Iterator[int]:
        yield 1

    goes_on.enqueue()
    assert outcomes(sandbox) == ["requeue", "done"]
    used_up.enqueue()
    assert outcomes(sandbox) == ["done"]


def test_a_push_needs_a_worker_that_iterates(app: App, sandbox: Sandbox) -> None:
    count_to_three(app).enqueue()
    [push] = sandbox._broker.transport.pushed
    assert b'"needs":["iterate"]' in push.payload
    assert "iterate" in SPEAKS


def test_a_push_by_class_name_needs_nothing(app: App, sandbox: Sandbox) -> None:
    """Also where the code is known: docs/iteration.md says what that means beside older releases."""
    count_to_three(app)
    app.enqueue("default", "count", [])
    [push] = sandbox._broker.transport.pushed
    assert b"needs" not in push.payload
    assert outcomes(sandbox) == ["done"]
