"""Unique jobs: a push takes the lock of its class and key, and the end of its job frees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import simplejson
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import RETRIES, SCHEDULED, waiting_in
from goworkers_py.api import job_writer
from goworkers_py.api.app import App
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import (
    ArgumentError,
    BrokerUnavailable,
    BrokerUnreachable,
    ConfigError,
    DiscardJob,
    DuplicateJob,
    KillJob,
)
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.holders import LockHolders
from goworkers_py.wire.message import current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3)) as app:
        yield app


def locks(app: App) -> list[str]:
    return sorted(entry.holder.jid for entry in app.client._broker().require_part(Locks).entries())


def waits(app: App, *places: object) -> int:
    return sum(app.inspector.count(place) for place in places or (waiting_in("q"),))  # type: ignore[arg-type]


def test_a_second_job_of_the_same_arguments_is_not_pushed(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    first = order.enqueue(1)
    assert first is not None
    assert order.enqueue(1) is None
    assert order.enqueue(2) is not None
    assert waits(app) == 2
    assert first in locks(app)


def test_the_error_of_a_bulk_of_unique_jobs_says_which_rows_were_pushed(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that repeat an earlier one are no part of the call to the broker."""

    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    kind = type(app.broker.transport)
    publish = kind.publish

    def breaks_off(transport: Any, pushes: Sequence[Push]) -> Any:
        publish(transport, pushes[:2])
        error = BrokerUnavailable("down")
        error.places = frozenset({0, 1})
        raise error

    monkeypatch.setattr(kind, "publish", breaks_off)
    with pytest.raises(BrokerUnavailable) as raised:
        order.enqueue_bulk([[1], [1], [2], [3]])
    assert sorted(filter(None, raised.value.pushed)) == locks(app)
    assert [at for at, jid in enumerate(raised.value.pushed) if jid] == [0, 2]


def test_the_error_of_a_look_for_holders_says_which_rows_were_pushed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    def away(*_: object) -> None:
        raise BrokerUnavailable("down")

    order.enqueue(1)
    monkeypatch.setattr(LockHolders, "gone", away)
    with pytest.raises(BrokerUnavailable) as raised:
        order.enqueue_bulk([[1], [2], [2], [3]])
    assert [at for at, jid in enumerate(raised.value.pushed) if jid] == [1, 3]


def test_raise_names_the_job_that_holds_the_lock(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60, on_conflict="raise")
    def order(order_id: int) -> None: ...

    first = order.enqueue(1)
    with pytest.raises(DuplicateJob) as caught:
        order.enqueue(1)
    assert caught.value.jid == first
    assert "holds the lock Order:" in str(caught.value)


def test_complaint_407_the_key_is_what_a_function_says(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60, unique_by=lambda order_id, *_: order_id)
    def order(order_id: int, note: str) -> None: ...

    assert order.enqueue(1, "a") is not None
    assert order.enqueue(1, "b") is None
    assert order.enqueue_bulk([[1, "c"], [2, "d"], [2, "e"]])[0] is None
    assert waits(app) == 2


def test_a_key_that_is_no_json_is_refused(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60, unique_by=lambda order_id: object())
    def order(order_id: int) -> None: ...

    with pytest.raises(ArgumentError, match="unique_by: the key is a object"):
        order.enqueue(1)
    assert waits(app) == 0


def test_a_push_may_ask_for_a_lock_or_go_without_one(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    @app.job("Plain", queue="q")
    def plain(order_id: int) -> None: ...

    assert order.enqueue(1)
    assert order.set(unique_for=False).enqueue(1)
    assert plain.set(unique_for=60).enqueue(1)
    assert plain.set(unique_for=60).enqueue(1) is None
    options = EnqueueOptions(unique_for=60, unique_by=lambda number: number % 2)
    assert app.enqueue_with_options("q", "Odd", [1], options)
    assert app.enqueue_with_options("q", "Odd", [3], options) is None


def test_of_a_bulk_push_only_the_first_job_of_a_key_is_pushed(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    jids = order.enqueue_bulk([[number % 500] for number in range(1500)])
    assert sum(jid is not None for jid in jids) == 500
    assert all(jids[:500])
    assert waits(app) == 500


def test_a_bulk_push_beside_a_worker_pushes_each_key_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first jobs have ended before the last ones are pushed."""
    monkeypatch.setattr(job_writer, "SLICE", 5)
    ran: list[int] = []

    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None:
        ran.append(order_id)

    with working(app):
        jids = order.enqueue_bulk([[number % 10] for number in range(40)])
        assert [jid is not None for jid in jids] == [True] * 10 + [False] * 30
        assert eventually(lambda: len(ran) == 10)
    assert sorted(ran) == [*range(10)]


def test_with_raise_all_slices_of_a_bulk_push_are_pushed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_writer, "SLICE", 2)

    @app.job("Order", queue="q", unique_for=60, on_conflict="raise")
    def order(order_id: int) -> None: ...

    with pytest.raises(DuplicateJob):
        order.enqueue_bulk([[number] for number in (1, 1, 2, 3, 2)])
    assert waits(app) == 3


def test_the_lock_is_free_when_the_job_has_succeeded(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    with working(app):
        assert order.enqueue(1)
        assert eventually(lambda: not locks(app))
        assert order.enqueue(1)
        assert eventually(lambda: not locks(app))


def test_complaint_629_the_lock_lasts_through_retries_and_is_free_at_death(app: App) -> None:
    runs: list[int] = []

    @app.job("Order", queue="q", unique_for=20, retry=1, retry_in=30)
    def order(order_id: int) -> None:
        runs.append(order_id)
        raise KillJob if len(runs) == 2 else KeyError("no such order")

    with working(app):
        jid = order.enqueue(1)
        assert eventually(lambda: waits(app, RETRIES) == 1)
        (entry,) = app.client._broker().require_part(Locks).entries()
        assert entry.expires_at > time.time() + 25  # beyond the time of the retry
        assert order.enqueue(1) is None
        assert locks(app) == [jid]
        list(app.inspector.retry(RETRIES, Filter()))
        assert eventually(lambda: app.inspector.stats().dead == 1)
        assert not locks(app)
        assert order.enqueue(1)


@pytest.mark.parametrize("error", [DiscardJob, KillJob])
def test_complaint_369_the_lock_is_free_when_the_job_ends_without_success(app: App, error: type[Exception]) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None:
        raise error

    with working(app):
        assert order.enqueue(1)
        assert eventually(lambda: not locks(app))


def test_the_lock_is_free_when_the_job_expires_or_is_cancelled(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60, expires_in=0.01)
    def order(order_id: int) -> None: ...

    @app.job("Later", queue="q", unique_for=60)
    def later(order_id: int) -> None: ...

    order.enqueue(1)
    cancelled = later.enqueue_in(60, 1)
    time.sleep(0.05)
    with working(app):
        assert app.cancel(str(cancelled)) == "cancelled"
        assert eventually(lambda: not locks(app))


def test_a_lock_until_the_start_is_free_while_the_job_runs(app: App) -> None:
    runs: list[str] = []
    go_on = threading.Event()

    @app.job("Order", queue="q", unique_for=60, unique_until="start", unique_by=lambda order_id, *_: order_id)
    def order(order_id: int, run: str) -> None:
        runs.append(run)
        if run == "first":
            assert order.enqueue(1, "second") is not None
        go_on.wait(10)

    with working(app):
        order.enqueue(1, "first")
        assert eventually(lambda: len(runs) == 2)
        assert runs == ["first", "second"]
        go_on.set()


def test_a_long_run_keeps_its_lock(app: App) -> None:
    over, go_on = [], threading.Event()

    # The job has to begin within the time of its lock, also on a machine that stands still for seconds.
    @app.job("Order", queue="q", unique_for=6)
    def order(order_id: int) -> None:
        go_on.wait(9)
        over.append(order_id)

    with working(app):
        order.enqueue(1)
        while not over:
            assert locks(app) or over
            time.sleep(0.05)
        assert eventually(lambda: not locks(app))


def test_a_client_middleware_sees_the_job_and_keeps_its_lock(app: App) -> None:
    @app.client_middleware
    def tag(job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "tags": ["seen"], "kwargs": {"more": 1}}

    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int, more: int = 0) -> None: ...

    assert order.enqueue(1)
    assert order.enqueue(1) is None
    [job] = app.inspector.jobs(waiting_in("q"))
    fields = simplejson.loads(job.payload)
    assert (fields["tags"], fields["pyworkers"]["needs"]) == (["seen"], ["kwargs", "unique"])
    assert fields["pyworkers"]["lock"]["name"].startswith("Order:")


def test_a_lock_until_its_expiry_outlives_the_job(app: App) -> None:
    done = threading.Event()

    @app.job("Order", queue="q", unique_for=2, unique_until="expiry")
    def order(order_id: int) -> None:
        done.set()

    with working(app):
        began = time.monotonic()
        assert order.enqueue(1)
        assert done.wait(10)
        assert eventually(lambda: app.inspector.stats().processed == 1)
        assert order.enqueue(1) is None or time.monotonic() > began + 1.9, "or its time is over"
        assert eventually(lambda: order.enqueue(1) is not None)


def test_replace_lets_the_waiting_job_run_with_the_newest_arguments(app: App) -> None:
    seen: list[object] = []

    @app.job("Index", queue="q", unique_for=60, unique_by=lambda key, *_, **__: key, on_conflict="replace")
    def index(key: int, text: str, *, more: str = "") -> None:
        message = current_message()
        seen.append((text, more, message and message.jid))

    jid = index.enqueue(1, "old")
    assert index.enqueue(1, "newer") == jid
    assert index.enqueue(1, "newest", more="of it") == jid
    assert waits(app) == 1
    with working(app):
        assert eventually(lambda: not locks(app))
    assert seen == [("newest", "of it", jid)]


def test_what_the_newest_push_leaves_out_is_not_taken_from_an_older_one(app: App) -> None:
    seen: list[str] = []

    @app.job("Index", queue="q", unique_for=60, unique_by=lambda key, **_: key, on_conflict="replace")
    def index(key: int, *, text: str = "none") -> None:
        seen.append(text)

    index.set(expires_in=0.1).enqueue(1, text="old")
    index.enqueue(1)
    time.sleep(0.2)
    with working(app):
        assert eventually(lambda: seen == ["none"])


def test_replace_puts_the_job_off_or_brings_it_forward(app: App) -> None:
    ran: dict[int, float] = {}

    @app.job("Index", queue="q", unique_for=60, on_conflict="replace")
    def index(key: int) -> None:
        ran[key] = time.time()

    began = time.time()
    index.enqueue(1)
    index.enqueue_in(2, 1)
    index.enqueue_in(60, 2)
    index.enqueue(2)
    with working(app):
        assert eventually(lambda: len(ran) == 2)
    assert ran[2] < began + 30
    assert began + 2 <= ran[1] < began + 30


def test_once_begun_a_job_is_not_replaced_and_its_retries_keep_the_arguments(app: App) -> None:
    seen: list[str] = []
    go_on = threading.Event()

    @app.job("Index", queue="q", unique_for=60, unique_by=lambda key, *_, **__: key, on_conflict="replace", retry_in=30)
    def index(key: int, text: str) -> None:
        seen.append(text)
        go_on.wait(10)
        if len(seen) == 1:
            raise KeyError(text)

    index.enqueue(1, "old")
    index.enqueue(1, "newest")
    with working(app):
        assert eventually(lambda: seen == ["newest"])
        assert index.enqueue(1, "too late") is None
        go_on.set()
        assert eventually(lambda: waits(app, RETRIES) == 1)
        (job,) = app.inspector.jobs(RETRIES)
        assert simplejson.loads(job.payload)["args"] == [1, "newest"]
        list(app.inspector.retry(RETRIES, Filter()))
        assert eventually(lambda: not locks(app))
    assert seen == ["newest", "newest"]


def test_rescheduled_jobs_run_one_after_the_other(app: App) -> None:
    running, most, done = [0], [0], []

    @app.job("Order", queue="q", unique_for=60, unique_by=lambda *_: "one", on_conflict="reschedule")
    def order(number: int) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.1)
        running[0] -= 1
        done.append(number)

    jids = [order.enqueue(number) for number in range(2)]
    assert len(set(jids)) == 2
    assert (waits(app), waits(app, SCHEDULED)) == (1, 1)
    with working(app):
        assert eventually(lambda: len(done) == 2, within_s=20)
    assert most == [1]
    assert not locks(app)


def test_a_lock_is_free_at_the_next_push_when_another_program_has_deleted_its_job(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    assert order.enqueue(1)
    assert order.enqueue_in(60, 2)
    app.client._broker().admin.jobs_in(waiting_in("q")).clear()
    app.client._broker().admin.jobs_in(SCHEDULED).clear()
    assert order.enqueue(1)
    assert order.enqueue_in(60, 2)


def test_a_held_back_push_takes_its_lock_at_the_end_of_the_block(app: App) -> None:
    @app.job("Order", queue="q", unique_for=60)
    def order(order_id: int) -> None: ...

    with app.atomic():
        order.enqueue(1)
        order.enqueue(2)
        order.enqueue(2)
        assert not locks(app)
    assert waits(app) == 2


def test_replace_goes_with_a_lock_until_success_only(app: App) -> None:
    with pytest.raises(ArgumentError, match="does not go with unique_until='start'"):
        app.enqueue_with_options(
            "q", "Odd", [1], EnqueueOptions(unique_for=60, unique_until="start", on_conflict="replace")
        )


def test_options_of_a_lock_are_refused_where_no_lock_is_asked_for() -> None:
    app = App()
    with pytest.raises(ConfigError, match="@job: Odd: unique_by needs unique_for"):
        app.job("Odd", unique_by=lambda *_: 1, on_conflict="raise")(lambda: None)
    with pytest.raises(ArgumentError, match="on_conflict needs unique_for"):
        app.job("Plain")(lambda: None).set(on_conflict="raise")
    lone = EnqueueOptions(unique_by=lambda *_: 1)
    with pytest.raises(ArgumentError, match="unique_by needs unique_for"):
        app.enqueue_with_options("q", "Plain", [1], lone)
    with pytest.raises(ArgumentError, match="unique_by needs unique_for"):
        app.enqueue_bulk("q", "Plain", [[1]], lone)


def test_a_default_of_unique_for_is_enough_for_the_other_options_of_a_lock() -> None:
    app = App()
    app.defaults(unique_for=60)
    job = app.job("Fine", unique_by=lambda *_: 1, on_conflict="raise")(lambda: None)
    job.set(unique_for=False)
    job.set(on_conflict="skip")


def test_replace_with_a_lock_until_the_start_is_refused_where_the_job_is_declared() -> None:
    with pytest.raises(ConfigError, match="@job: Odd: on_conflict='replace' does not go with unique_until='start'"):
        App().job("Odd", unique_for=60, unique_until="start", on_conflict="replace")(lambda: None)


def test_a_key_that_is_a_dict_is_refused(app: App) -> None:
    job = app.job("Odd", queue="q", unique_for=60, unique_by=lambda *_: {"a": 1})(lambda number: None)
    with pytest.raises(ArgumentError, match="unique_by: the key is a dict; return a text, a number or a list of them"):
        job.enqueue(1)
    assert waits(app) == 0


def test_a_key_function_that_does_not_take_the_arguments_is_named(app: App) -> None:
    job = app.job("Odd", queue="q", unique_for=60, unique_by=lambda: 1)(lambda number: None)
    with pytest.raises(ArgumentError, match=r"Odd: unique_by: .* takes 0 positional arguments but 1 was given"):
        job.enqueue(1)


def test_a_unique_push_to_a_server_that_is_away_says_which_one() -> None:
    app = App()
    app.configure(broker="redis://127.0.0.1:1/0")
    with pytest.raises(BrokerUnreachable, match=r"redis://127\.0\.0\.1:1/0"):
        app.job("Sync", unique_for=60)(lambda: None).enqueue()
