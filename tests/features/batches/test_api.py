"""Batches: the pushes of a block are counted together, and callbacks are pushed at their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import simplejson
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import (
    ArgumentError,
    BatchEnded,
    BrokerUnavailable,
    DuplicateJob,
    JobCancelled,
    KillJob,
    TimeLimitExceeded,
)
from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.wire.message import current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3)) as app:
        yield app


class Ran:
    """Jobs that note that they ran."""

    def __init__(self, app: App) -> None:
        self.told: list[Any] = []
        self.job = app.job("Job", queue="q")(self._note)
        self.report = app.job("Report", queue="q")(self._report)

    def _note(self, number: int) -> None:
        self.told.append(number)

    def _report(self, *args: Any) -> None:
        self.told.append(("report", *args))


@pytest.fixture
def ran(app: App) -> Ran:
    return Ran(app)


def status(app: App, bid: str) -> BatchStatus:
    found = app.batches.status(bid)
    assert found is not None
    return found


def waits(app: App) -> int:
    return app.inspector.count(waiting_in("q"))


def test_complaint_640_a_callback_runs_when_all_jobs_of_a_batch_have_succeeded(app: App, ran: Ran) -> None:
    with app.batch("import", on_success=ran.report) as batch:
        for number in range(5):
            ran.job.enqueue(number)
        ran.job.enqueue_bulk([[number] for number in range(5, 10)])
    told = batch.status()
    assert told is not None
    assert (told.name, told.total, told.pending, told.state) == ("import", 10, 10, "open")
    with working(app):
        assert eventually(lambda: ("report", batch.bid) in ran.told)
    assert sorted(ran.told[:-1]) == [*range(10)]
    assert ran.told[-1] == ("report", batch.bid)
    assert status(app, batch.bid).state == "ended"


def test_a_callback_may_have_arguments_of_its_own(app: App, ran: Ran) -> None:
    with app.batch(on_complete=ran.report.s(7, "x")):
        pass
    with working(app):
        assert eventually(lambda: ran.told == [("report", 7, "x")])


def test_pushes_outside_of_the_block_and_of_other_threads_do_not_join(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        other = threading.Thread(target=ran.job.enqueue, args=(1,))
        other.start()
        other.join()
        app.enqueue("q", "Job", [2])
    ran.job.enqueue(3)
    assert status(app, batch.bid).total == 1
    assert waits(app) == 3


def test_a_callback_whose_life_would_begin_at_the_opening_is_refused(app: App, ran: Ran) -> None:
    with (
        pytest.raises(ArgumentError, match="expires_in would count from now"),
        app.batch(on_success=ran.report.set(expires_in=60)),
    ):
        pass


def test_a_reopened_block_that_raises_leaves_the_jobs_of_others(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        ran.job.enqueue(1)
    with pytest.raises(ZeroDivisionError), app.batches.open(batch.bid):
        raise ZeroDivisionError
    with working(app):
        assert eventually(lambda: status(app, batch.bid).state == "ended")
    assert ran.told == [1]


@pytest.mark.parametrize("step", ["begin", "hold", "let_go", "cancel"])
def test_a_step_of_a_batch_whose_reply_was_lost_is_repeated(
    app: App, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    done, asked = getattr(app.batches, step), []

    def do_and_lose(*args: Any) -> Any:
        answer = done(*args)
        asked.append(args)
        if len(asked) == 1:
            raise BrokerUnavailable("the reply was lost")
        return answer

    with app.batch() as outer:
        monkeypatch.setattr(app.batches, step, do_and_lose)
        with suppress(ZeroDivisionError), app.batch() as inner, app.batches.open(inner.bid):
            if step == "cancel":
                raise ZeroDivisionError
    assert len(asked) > 1
    assert (status(app, outer.bid).state, status(app, outer.bid).total) == ("ended", 1)
    assert status(app, inner.bid).ended_at is not None


STRIKES = [TimeLimitExceeded("too long"), JobCancelled("cancelled"), KeyboardInterrupt()]


def struck(step: Callable[..., Any], done: bool, *errors: BaseException) -> Callable[..., Any]:
    """The step, into whose first calls these exceptions are thrown: after it was done, or before."""
    left = [*errors]

    def call(*args: Any) -> Any:
        error = left.pop(0) if left else None
        answer = step(*args) if done or error is None else None
        if error is not None:
            raise error
        return answer

    return call


@pytest.mark.parametrize("error", STRIKES, ids=lambda error: type(error).__name__)
def test_a_hold_that_is_interrupted_after_it_was_done_holds_no_batch(
    app: App, ran: Ran, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with app.batch() as batch:
        ran.job.enqueue(1)
    monkeypatch.setattr(app.batches, "hold", struck(app.batches.hold, True, error))
    with pytest.raises(type(error)), app.batches.open(batch.bid):
        pass
    assert status(app, batch.bid).holds == 0
    assert not status(app, batch.bid).stopped


@pytest.mark.parametrize("error", STRIKES, ids=lambda error: type(error).__name__)
def test_an_opening_that_is_interrupted_after_it_was_done_leaves_no_open_batch(
    app: App, ran: Ran, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with app.batch(on_complete=ran.report) as outer:
        monkeypatch.setattr(app.batches, "begin", struck(app.batches.begin, True, error))
        with pytest.raises(type(error)), app.batch(on_complete=ran.report):
            pass
    assert {one.state for one in app.batches.all()} == {"ended", "cancelled"}
    assert (status(app, outer.bid).total, status(app, outer.bid).cancelled) == (1, 1)
    assert waits(app) == 1


def test_a_batch_whose_opening_lost_two_replies_is_given_up(
    app: App, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = BrokerUnavailable("one"), BrokerUnavailable("two")
    for step in ("begin", "hold"):
        monkeypatch.setattr(app.batches, step, struck(getattr(app.batches, step), True, *lost))
    with pytest.raises(BrokerUnavailable), app.batch() as batch:
        pass
    with app.batch() as batch:
        ran.job.enqueue(1)
    with pytest.raises(BrokerUnavailable), app.batches.open(batch.bid):
        pass
    assert [one.holds for one in app.batches.all()] == [0, 0]


def test_a_batch_that_may_be_held_since_its_opening_is_named_in_the_log(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    down = [BrokerUnavailable("down")] * 2
    monkeypatch.setattr(app.batches, "begin", struck(app.batches.begin, True, *down))
    monkeypatch.setattr(app.batches, "cancel", struck(app.batches.cancel, False, *down))
    with pytest.raises(BrokerUnavailable), app.batch():
        pass
    [batch] = app.batches.all()
    assert f"batch {batch.bid} could not be ended: down" in caplog.text


@pytest.mark.parametrize("error", STRIKES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", ["let_go", "cancel"])
def test_the_end_of_a_block_that_is_interrupted_before_it_was_done_is_repeated(
    app: App, ran: Ran, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    monkeypatch.setattr(app.batches, step, struck(getattr(app.batches, step), False, error))
    batch = app.batch()

    def fill() -> None:
        with batch:
            ran.job.enqueue(1)
            if step == "cancel":
                raise ZeroDivisionError

    with pytest.raises(type(error)):
        fill()
    assert (status(app, batch.bid).holds, status(app, batch.bid).stopped) == (0, step == "cancel")


def test_a_block_that_is_interrupted_at_its_end_in_an_outage_is_named_in_the_log(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = TimeLimitExceeded("too long"), BrokerUnavailable("down"), BrokerUnavailable("down")
    monkeypatch.setattr(app.batches, "let_go", struck(app.batches.let_go, False, *errors))
    with pytest.raises(TimeLimitExceeded), app.batch() as batch:
        pass
    assert f"batch {batch.bid} could not be ended: down" in caplog.text


def test_a_batch_ends_whose_job_meets_its_time_limit_while_it_opens_the_batch(
    app: App, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, struck_by = app.batches.hold, []

    def hold_and_wait(*args: Any) -> bool:
        try:
            hold(*args)
            give_up_at = time.monotonic() + 20
            while time.monotonic() < give_up_at:  # an exception is thrown between two instructions
                time.sleep(0.01)
        except TimeLimitExceeded as error:
            struck_by.append(error)
            raise
        return True

    @app.job("Opens", queue="q", timeout=0.5, retry=False)
    def opens(bid: str) -> None:
        with app.batches.open(bid):
            pass

    with app.batch(on_complete=ran.report) as batch:
        opens.enqueue(batch.bid)
    monkeypatch.setattr(app.batches, "hold", hold_and_wait)
    with working(app):
        assert eventually(lambda: ran.told == [("report", batch.bid)])
    assert len(struck_by) == 1


def test_a_batch_is_held_in_the_second_block_of_one_object(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        ran.job.enqueue(1)
    again = app.batches.open(batch.bid)
    for _ in range(2):
        with again:
            assert status(app, batch.bid).holds == 1
        assert status(app, batch.bid).holds == 0


def test_a_batch_that_stays_held_because_of_an_outage_is_named_in_the_log(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise BrokerUnavailable("down")

    monkeypatch.setattr(app.batches, "let_go", fail)
    with pytest.raises(BrokerUnavailable), app.batch() as batch:
        pass
    assert f"batch {batch.bid} could not be ended: down" in caplog.text


def test_held_pushes_into_a_batch_that_was_closed_by_force_happen_outside_of_it(
    app: App, ran: Ran, caplog: pytest.LogCaptureFixture
) -> None:
    with app.batch() as batch, app.atomic():
        ran.job.enqueue(1)
        app.batches.close(batch.bid, force=True)
    assert waits(app) == 1
    assert f"batch {batch.bid} ended before jobs joined it" in caplog.text
    with app.batch() as batch, app.atomic():
        ran.job.enqueue(2)
        app.batches.cancel(batch.bid)
    assert waits(app) == 1


def test_a_block_that_raises_cancels_its_batch(app: App, ran: Ran) -> None:
    batch = app.batch(on_complete=ran.report, on_success=ran.report)

    def fill() -> None:
        with batch:
            ran.job.enqueue(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill()
    ran.job.enqueue(2)
    with working(app):
        assert eventually(lambda: ran.told == [2] and waits(app) == 0)
        assert eventually(lambda: status(app, batch.bid).state == "cancelled")
    assert ran.told == [2]
    assert status(app, batch.bid).cancelled == 1


def test_complaint_244_a_job_adds_jobs_to_its_own_batch(app: App, ran: Ran) -> None:
    @app.job("Grow", queue="q")
    def grow(depth: int) -> None:
        message = current_message()
        assert message is not None
        assert message.batch is not None
        with message.batch as batch:
            assert batch.bid == batches[0]
            if depth:
                grow.enqueue(depth - 1)
                ran.job.enqueue(depth)

    with app.batch(on_success=ran.report) as batch:
        grow.enqueue(4)
        batches = [batch.bid]
    with working(app):
        assert eventually(lambda: ("report", batch.bid) in ran.told)
    assert sorted(ran.told[:-1]) == [1, 2, 3, 4]
    assert status(app, batch.bid).succeeded == 9


def test_atomic_pushes_of_a_job_join_its_batch_in_the_step_of_its_end(app: App, ran: Ran) -> None:
    @app.job("Grow", queue="q", atomic=True)
    def grow() -> None:
        with current_message().batch:  # type: ignore[union-attr]
            ran.job.enqueue(1)
        assert status(app, batch.bid).total == 1

    with app.batch(on_success=ran.report) as batch:
        grow.enqueue()
    with working(app):
        assert eventually(lambda: ran.told == [1, ("report", batch.bid)])
    assert status(app, batch.bid).total == 2


def test_atomic_outside_of_a_job_pushes_inside_of_the_block(app: App, ran: Ran) -> None:
    with app.batch() as batch, app.atomic():
        ran.job.enqueue(1)
    assert status(app, batch.bid).total == 1


def test_atomic_around_a_batch_is_refused(app: App, ran: Ran) -> None:
    refused: list[Exception] = []

    @app.job("Opens", queue="q", retry=False)
    def opens() -> None:
        try:
            with app.batch(), app.atomic():
                ran.job.enqueue(1)
        except ArgumentError as error:
            refused.append(error)
        with pytest.raises(ArgumentError, match="open it outside"), app.atomic(), app.batch():
            pass

    with pytest.raises(ArgumentError, match="open it outside"), app.atomic(), app.batch():
        pass
    opens.enqueue()
    with working(app):
        assert eventually(lambda: bool(refused) and waits(app) == 0)
    assert "outside of atomic" in str(refused[0])


def test_a_batch_inside_of_another_one_ends_first(app: App, ran: Ran) -> None:
    with app.batch("outer", on_success=ran.report) as outer:
        ran.job.enqueue(1)
        with app.batch("inner", on_success=ran.report) as inner:
            ran.job.enqueue(2)
        ran.job.enqueue(3)
    assert inner.bid.startswith(f"{outer.bid}.")
    assert status(app, outer.bid).total == 3
    with working(app):
        assert eventually(lambda: ("report", outer.bid) in ran.told)
        assert eventually(lambda: ("report", inner.bid) in ran.told)
    # The report of the inner one may come before the third job of the outer one: they are in different threads.
    assert ran.told.index(2) < ran.told.index(("report", inner.bid))
    assert {1, 2, 3} <= set(ran.told[: ran.told.index(("report", outer.bid))])


def test_batches_are_not_nested_without_end(app: App) -> None:
    def nest() -> None:
        with app.batch():
            nest()

    with pytest.raises(ArgumentError, match="at most 9 other ones"):
        nest()


def test_a_death_fires_once_and_complete_waits_for_the_last_end(app: App, ran: Ran) -> None:
    @app.job("Dies", queue="q")
    def dies() -> None:
        raise KillJob("no more")

    on = {"on_success": ran.report.s("success"), "on_complete": ran.report.s("complete")}
    with app.batch(**on, on_death=ran.report.s("death")) as batch:
        dies.enqueue()
        dies.enqueue()
        ran.job.enqueue(1)
    with working(app):
        assert eventually(lambda: status(app, batch.bid).state == "ended" and waits(app) == 0)
        assert eventually(lambda: len(ran.told) == 3)
    assert sorted(map(str, ran.told)) == ["('report', 'complete')", "('report', 'death')", "1"]
    [death, _] = app.batches.deaths(batch.bid)
    assert (death.job_class, death.error) == ("Dies", "goworkers_py.KillJob: no more")


def test_the_last_dead_job_that_is_retried_lets_the_batch_succeed(app: App, ran: Ran) -> None:
    broken = [True]

    @app.job("Dies", queue="q")
    def dies() -> None:
        if broken:
            raise KillJob("no more")

    with app.batch(on_success=ran.report) as batch:
        dies.enqueue()
    with working(app):
        assert eventually(lambda: status(app, batch.bid).state == "ended")
        broken.clear()
        list(app.inspector.retry(DEAD, Filter()))
        assert eventually(lambda: ran.told == [("report", batch.bid)])
    assert (status(app, batch.bid).succeeded, status(app, batch.bid).failed) == (1, 0)


def test_cancel_ends_what_waits_and_interrupts_what_runs(app: App, ran: Ran) -> None:
    begun, told = threading.Event(), []

    @app.job("Long", queue="q")
    def long() -> None:
        try:
            begun.set()  # the exception may strike from here on
            while True:  # an exception is thrown between two instructions
                time.sleep(0.01)
        except JobCancelled:
            told.append("interrupted")
            raise

    with app.batch(on_complete=ran.report) as batch:
        long.enqueue()
        ran.job.set(queue="other").enqueue(1)
    with working(app):
        assert begun.wait(20)
        assert app.batches.cancel(batch.bid)
        assert eventually(lambda: told == ["interrupted"])
        assert eventually(lambda: status(app, batch.bid).cancelled == 1)
    assert status(app, batch.bid).state == "cancelling"
    assert not app.batches.cancel("none")


def test_a_push_into_a_cancelled_batch_raises(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        batch.cancel()
        with pytest.raises(BatchEnded, match="takes no jobs"):
            ran.job.enqueue(1)
    assert waits(app) == 0


def test_a_batch_is_opened_again_by_its_id(app: App, ran: Ran) -> None:
    with app.batch(on_success=ran.report) as batch:
        ran.job.enqueue(1)
    with app.batches.open(batch.bid) as again:
        ran.job.enqueue(2)
        assert again.bid == batch.bid
        assert status(app, batch.bid).holds == 1
    with working(app):
        assert eventually(lambda: ("report", batch.bid) in ran.told)
    with pytest.raises(BatchEnded), app.batches.open(batch.bid):
        pass
    with pytest.raises(BatchEnded), app.batches.open("none"):
        pass


def test_a_batch_object_is_for_one_block_at_a_time(app: App) -> None:
    with app.batch() as batch, pytest.raises(ArgumentError, match="one `with` block"):
        batch.__enter__()


def test_close_and_list(app: App, ran: Ran) -> None:
    with app.batch("a") as batch:
        ran.job.enqueue(1)
    assert [one.bid for one in app.batches.all()] == [batch.bid]
    assert app.batches.close(batch.bid)
    assert app.batches.close(batch.bid, force=True)
    assert status(app, batch.bid).state == "ended"


def test_what_a_callback_cannot_be_is_refused(app: App, ran: Ran) -> None:
    with pytest.raises(ArgumentError, match="is no job"):
        app.batch(on_success="Report")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes no lock"), app.batch(on_success=ran.report.set(unique_for=60)):
        pass
    with pytest.raises(ArgumentError, match="retain"):
        app.batch(retain=0)
    with pytest.raises(ArgumentError, match="the name of a batch"):
        app.batch(b"name")  # type: ignore[arg-type]
    assert list(app.batches.all()) == []


def test_client_links_and_duplicates_are_not_counted(app: App, ran: Ran) -> None:
    app.client_middleware(lambda job: None if job["args"] == [1] else job)
    with app.batch() as batch:
        ran.job.enqueue(1)
        ran.job.enqueue(2)
        options = EnqueueOptions(jid="one", track=True)
        app.enqueue_with_options("q", "Job", [3], options)
        with pytest.raises(DuplicateJob):
            app.enqueue_with_options("q", "Job", [3], options)
    assert status(app, batch.bid).total == 2


def test_a_unique_job_joins_only_when_it_is_pushed(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(number: int) -> None: ...

    with app.batch() as batch:
        assert order.enqueue(1) is not None
        assert order.enqueue(1) is None
        order.enqueue_bulk([[1], [2], [3]])
    assert status(app, batch.bid).total == 3
    with working(app):
        assert eventually(lambda: status(app, batch.bid).state == "ended")


def test_a_job_that_is_enqueued_again_is_in_no_batch(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        jid = ran.job.enqueue(1)
    assert jid is not None
    app.inspector.enqueue_again(app.broker.admin.jobs_in(waiting_in("q")).first(1)[0])
    assert status(app, batch.bid).total == 1
    with working(app):
        assert eventually(lambda: waits(app) == 0 and len(ran.told) == 2)
    assert status(app, batch.bid).succeeded == 1


def test_jobs_in_no_batch_have_none(app: App) -> None:
    seen: list[Any] = []

    @app.job("Looks", queue="q")
    def looks() -> None:
        seen.append(current_message().batch)  # type: ignore[union-attr]

    looks.enqueue()
    with working(app):
        assert eventually(lambda: seen == [None])


def test_the_payload_says_which_batch_the_job_is_in(app: App, ran: Ran) -> None:
    with app.batch(on_success=ran.report) as batch:
        ran.job.enqueue(1)
    raw = simplejson.loads(app.broker.admin.jobs_in(waiting_in("q")).first(1)[0].payload)
    assert raw["pyworkers"] == {"v": 1, "needs": ["batch"], "batch": {"id": batch.bid, "to": ["q"]}}
    assert "bid" not in raw
