"""Groups: members wait, a function of the user makes one job of them, and that job runs instead."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import simplejson
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, ConfigError, DiscardJob, KillJob
from goworkers_py.core.timing import TIMING
from goworkers_py.features.groups import member_lookup
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupEntry, OwnSettings
from goworkers_py.features.unique.contract import Locks
from goworkers_py.wire.message import Message, current_message

GRACE_S = 0.05


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3), timing=TIMING, poll_interval=1) as app:
        yield app


class Invoices:
    """A job that is aggregated, and what has happened to it."""

    def __init__(self, app: App, **options: Any) -> None:
        self.ran: list[tuple[Any, ...]] = []
        self.aggregated: list[list[list[Any]]] = []
        self.failures: list[BaseException] = []

        @app.job("Invoice", queue="q", **{"group_grace": GRACE_S, **options})
        def invoice(*numbers: int) -> None:
            self.ran.append(numbers)

        @invoice.aggregate
        def one_invoice(members: list[list[Any]]) -> list[Any]:
            self.aggregated.append(members)
            if self.failures:
                raise self.failures.pop()
            return [number for args in members for number in args]

        self.job, self.function = invoice, one_invoice


def entries(app: App) -> list[GroupEntry]:
    return [*app.broker.require_part(Groups).entries()]


def open_group(app: App, name: str = "user:7") -> GroupEntry:
    entry = app.broker.require_part(Groups).entry(Group("q", "Invoice", name))
    assert entry is not None
    return entry


def test_the_members_of_a_group_run_as_one_job_in_their_order(app: App) -> None:
    invoices = Invoices(app)
    grouped = invoices.job.set(group="user:7")
    for number in range(5):  # before the start: a pause between two of them could make two sets
        assert grouped.enqueue(number)
    with working(app):
        invoices.job.set(group="user:8").enqueue(8)
        invoices.job.enqueue(100)
        assert eventually(lambda: len(invoices.ran) >= 3)
        assert eventually(lambda: not entries(app))
    assert sorted(invoices.ran) == [(0, 1, 2, 3, 4), (8,), (100,)]


def test_the_function_below_aggregate_stays_a_function(app: App) -> None:
    assert Invoices(app).function([[1], [2, 3]]) == [1, 2, 3]


def test_a_bulk_push_fills_a_group_of_the_largest_size(app: App) -> None:
    invoices = Invoices(app, group_grace=3600, group_max_size=3)
    invoices.job.set(group="user:7").enqueue_bulk([[number] for number in range(7)])
    with working(app):
        assert eventually(lambda: len(invoices.ran) == 2)
    assert sorted(invoices.ran) == [(0, 1, 2), (3, 4, 5)]
    assert open_group(app).size == 1


def test_complaint_887_an_aggregator_that_fails_is_retried_and_the_members_are_safe(app: App) -> None:
    invoices = Invoices(app)
    invoices.failures = [RuntimeError("first"), RuntimeError("second")]
    invoices.job.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: len(invoices.aggregated) == 1)
        for _ in range(2):
            assert eventually(lambda: app.inspector.count(RETRIES) == 1)
            assert [entry.size for entry in entries(app)] == [2]
            list(app.inspector.retry(RETRIES, Filter()))
        assert eventually(lambda: invoices.ran == [(1, 2)])
    assert invoices.aggregated == [[[1], [2]]] * 3
    assert entries(app) == []


def test_complaint_516_settings_are_those_of_the_class_of_the_push_and_of_the_group(app: App) -> None:
    invoices = Invoices(app, group_grace=datetime.timedelta(minutes=5), group_max_delay=600, group_max_size=9)
    invoices.job.set(group="user:7").enqueue(1)
    invoices.job.set(group="user:8", group_grace=30).enqueue(1)
    assert open_group(app).settings == (300.0, 600.0, 9)
    assert open_group(app, "user:8").settings == (30.0, 600.0, 9)
    app.broker.require_part(Groups).configure(Group("q", "Invoice", "user:7"), OwnSettings(grace_s=1, max_size=2))
    assert open_group(app).settings == (1.0, 600.0, 2)
    invoices.job.set(group="user:7").enqueue(2)
    [full] = [
        entry
        for entry in app.broker.require_part(Groups).entries()
        if entry.due is not None and entry.due <= time.time()
    ]
    assert full.size == 2


def test_an_aggregator_that_returns_no_list_fails_and_the_members_are_safe(app: App) -> None:
    @app.job("Invoice", queue="q", group_grace=GRACE_S)
    def invoice(number: int) -> None: ...

    @invoice.aggregate
    def one_invoice(members: list[list[Any]]) -> int:
        return len(members)

    invoice.set(group="user:7").enqueue(1)
    with working(app):
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
    [job] = app.broker.admin.jobs_in(RETRIES).first(10)
    assert job.message is not None
    assert "must return the list of arguments" in job.message.fields["error_message"]
    assert [entry.size for entry in entries(app)] == [1]


def test_arguments_that_do_not_fit_the_job_fail_and_the_members_are_safe(app: App) -> None:
    @app.job("Invoice", queue="q", group_grace=GRACE_S)
    def invoice(number: int) -> None: ...

    @invoice.aggregate
    def one_invoice(members: list[list[Any]]) -> list[Any]:
        return [1, 2, 3]

    invoice.set(group="user:7").enqueue(1)
    with working(app):
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
    assert [entry.size for entry in entries(app)] == [1]


def test_a_dead_aggregation_job_keeps_its_members_and_a_retry_goes_on(app: App) -> None:
    invoices = Invoices(app)
    invoices.failures = [KillJob("no")]
    invoices.job.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: app.inspector.count(DEAD) == 1)
        assert [entry.size for entry in entries(app)] == [2]
        list(app.inspector.retry(DEAD, Filter()))
        assert eventually(lambda: invoices.ran == [(1, 2)])
    assert entries(app) == []


@pytest.mark.parametrize("options", [{"retry": False}, {"retry": 0, "dead": False}])
def test_an_error_of_an_aggregator_without_retries_keeps_the_members(app: App, options: dict[str, Any]) -> None:
    invoice = app.job("Invoice", queue="q", group_grace=1, **options)(lambda *_: None)

    @invoice.aggregate
    def sum_up(members: list[list[int]]) -> list[int]:
        raise ValueError("no")

    invoice.set(group="user:7").enqueue(1)
    with working(app):
        assert eventually(lambda: app.inspector.count(DEAD) == 1)
    assert [entry.size for entry in entries(app)] == [1]


def test_the_deletion_of_an_aggregation_job_deletes_its_members(app: App) -> None:
    invoices = Invoices(app)
    invoices.failures = [KillJob("no")]
    invoices.job.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: app.inspector.count(DEAD) == 1)
    list(app.inspector.delete(DEAD, Filter()))
    assert entries(app) == []


def test_an_aggregator_that_discards_discards_the_members(app: App) -> None:
    invoices = Invoices(app)
    invoices.failures = [DiscardJob("no")]
    invoices.job.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: bool(invoices.aggregated) and not entries(app))
    assert invoices.ran == []
    assert app.inspector.count(DEAD) == 0


def test_a_scheduled_member_joins_when_it_is_due(app: App) -> None:
    invoices = Invoices(app, group_grace=3600)
    invoices.job.set(group="user:7").enqueue_in(0.2, 1)
    invoices.job.set(group="user:7").enqueue(2)
    assert app.inspector.count(SCHEDULED) == 1
    assert open_group(app).size == 1
    with working(app):
        assert eventually(lambda: open_group(app).size == 2)
        assert app.inspector.stats().processed == 0
        assert app.broker.require_part(Groups).make_due(open_group(app).group)
        assert eventually(lambda: bool(invoices.ran))
    assert invoices.ran == [(2, 1)]


def test_a_member_that_ruby_pushes_joins_with_the_settings_of_the_class(app: App) -> None:
    # So long a grace that only the full size of the class, and no pause between the two, ends the group.
    invoices = Invoices(app, group_grace=3600, group_max_size=2)
    field = {"v": 1, "needs": ["group"], "group": {"name": "user:7"}}
    payload = {"class": "Invoice", "args": [1], "jid": "ruby", "retry": True, "queue": "q", "pyworkers": field}
    for number in (1, 2):
        raw = simplejson.dumps({**payload, "args": [number]}).encode()
        app.broker.transport.publish([Push("q", raw)])
    with working(app):
        assert eventually(lambda: bool(invoices.ran))
    assert sorted(invoices.ran[0]) == [1, 2]


def test_a_foreign_member_with_keyword_arguments_runs_by_itself(app: App) -> None:
    ran = threading.Event()

    @app.job("Invoice", queue="q")
    def invoice(number: int, pdf: bool = False) -> None:
        ran.set()

    field = {"v": 1, "needs": ["group", "kwargs"], "group": {"name": "user:7"}}
    payload = {"class": "Invoice", "args": [1], "kwargs": {"pdf": True}, "jid": "ruby", "pyworkers": field}
    app.broker.transport.publish([Push("q", simplejson.dumps(payload).encode())])
    with working(app):
        assert ran.wait(20)


def test_members_that_cannot_be_aggregated_are_refused(app: App) -> None:
    @app.job("Invoice", queue="q")
    def invoice(number: int, pdf: bool = False) -> None: ...

    with pytest.raises(ArgumentError, match="takes no keyword arguments"):
        invoice.set(group="user:7").enqueue(1, pdf=True)
    with pytest.raises(ArgumentError, match="does not go with unique_until='start'"):
        invoice.set(group="user:7", unique_for=60, on_conflict="replace").enqueue(1)
    for wrong in ({"group": ""}, {"group": 7}, {"group_grace": 0}, {"group_max_size": 0}, {"group_max_delay": -1}):
        with pytest.raises(ArgumentError):
            invoice.set(**{"group": "user:7", **wrong}).enqueue(1)  # type: ignore[typeddict-item]
    assert entries(app) == []


def test_a_generator_cannot_aggregate(app: App) -> None:
    @app.job("Invoice", queue="q")
    def invoice(number: int) -> None: ...

    with pytest.raises(ConfigError, match="aggregate"):

        @invoice.aggregate
        def one_invoice(members: list[list[Any]]) -> Iterator[int]:
            yield 1


def test_typed_arguments_are_converted_for_the_aggregator_and_for_the_job(app: App) -> None:
    ran: list[Any] = []
    today = datetime.date(2025, 2, 4)

    @app.job("Report", queue="q", group_grace=GRACE_S)
    def report(days: list[datetime.date]) -> None:
        ran.append(days)

    @report.aggregate
    def one_report(members: list[list[Any]]) -> list[Any]:
        return [[day for [days] in members for day in days]]

    report.set(group="days").enqueue([today])
    report.set(group="days").enqueue([today + datetime.timedelta(days=1)])
    with working(app):
        assert eventually(lambda: sum(map(len, ran)) == 2)
    assert ran[0][0] == today


def test_a_unique_member_holds_its_lock_until_it_is_aggregated(app: App) -> None:
    invoices = Invoices(app, unique_for=3600, group_grace=3600)
    grouped = invoices.job.set(group="user:7")
    assert grouped.enqueue(1)
    assert grouped.enqueue(1) is None
    assert grouped.enqueue(2)
    with working(app):
        app.broker.require_part(Groups).make_due(open_group(app).group)
        assert eventually(lambda: invoices.ran == [(1, 2)])
        assert eventually(lambda: not [*app.broker.require_part(Locks).entries()])
    assert grouped.enqueue(1)


def test_a_tracked_member_is_grouped_and_then_completed(app: App) -> None:
    invoices = Invoices(app, group_grace=3600)
    jid = invoices.job.set(group="user:7", track=True).enqueue(1)
    plain = invoices.job.set(group="user:7").enqueue(2)
    assert jid
    assert plain
    for one in (jid, plain):
        status = app.status(one)
        assert (status.state, status.group, status.queue, status.verified) == ("grouped", "user:7", "q", True)
    with working(app):
        app.broker.require_part(Groups).make_due(open_group(app).group)
        assert eventually(lambda: app.status(jid).state == "completed")
    assert app.status(jid).timeline[-1].reason.startswith("aggregated by ")


def test_a_member_among_a_great_many_groups_may_not_be_found_and_is_not_taken_for_absent(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoices = Invoices(app, group_grace=3600)
    for number in range(4):
        invoices.job.set(group=f"user:{number}").enqueue(number)
    tracked = str(invoices.job.set(group="zoe", track=True).enqueue(1))
    plain = str(invoices.job.set(group="zoe").enqueue(2))
    assert app.status("nowhere").absent
    monkeypatch.setattr(member_lookup, "MOST_GROUPS", 2)
    assert [app.status(tracked).state, app.status(tracked).verified] == ["grouped", True], "its group is known"
    status = app.status(plain)
    assert [status.state, status.absent] == ["unknown", False]


def test_a_tracked_scheduled_member_is_grouped_when_it_is_due(app: App) -> None:
    invoices = Invoices(app, group_grace=3600)
    jid = invoices.job.set(group="user:7", track=True).enqueue_in(0.1, 1)
    assert jid
    with working(app):
        assert eventually(lambda: app.status(jid).state == "grouped")
    # A worker that stands still as it lets the member join is written down as running it.
    states = [move.state for move in app.status(jid).timeline if move.state != "running"]
    assert states == ["scheduled", "waiting", "grouped"]


@pytest.mark.parametrize("track", [True, False])
def test_a_cancel_takes_a_member_out_of_its_group(app: App, track: bool) -> None:
    invoices = Invoices(app, group_grace=3600)
    jid = invoices.job.set(group="user:7", track=track).enqueue(1)
    invoices.job.set(group="user:7").enqueue(2)
    assert jid
    assert app.cancel(jid) == "cancelled"
    assert open_group(app).size == 1
    assert app.status(jid).state == ("cancelled" if track else "unknown")
    with working(app):
        app.broker.require_part(Groups).make_due(open_group(app).group)
        assert eventually(lambda: invoices.ran == [(2,)])


def test_a_member_that_expires_while_it_waits_is_left_out(app: App) -> None:
    invoices = Invoices(app, group_grace=3600)
    gone = invoices.job.set(group="user:7", expires_in=0.05, track=True).enqueue(1)
    invoices.job.set(group="user:7").enqueue(2)
    invoices.job.set(group="user:8", expires_in=0.05).enqueue(3)
    assert gone
    time.sleep(0.1)
    with working(app):
        for name in ("user:7", "user:8"):
            app.broker.require_part(Groups).make_due(open_group(app, name).group)
        assert eventually(lambda: bool(invoices.ran) and not entries(app))
        assert app.status(gone).state == "expired"
    assert invoices.ran == [(2,)]


def test_the_push_of_an_atomic_job_joins_at_its_end(app: App) -> None:
    invoices, seen = Invoices(app, group_grace=3600), []

    @app.job("Order", queue="q", atomic=True)
    def order() -> None:
        invoices.job.set(group="user:7").enqueue(1)
        seen.append(len(entries(app)))

    order.enqueue()
    with working(app):
        assert eventually(lambda: len(entries(app)) == 1)
    assert seen == [0]


def test_an_async_aggregator_and_its_own_pushes_happen_once(app: App) -> None:
    ran: list[str] = []
    fail = [RuntimeError("after its push")]

    @app.job("Note", queue="q")
    def note(text: str) -> None:
        ran.append(text)

    @app.job("Invoice", queue="q", group_grace=GRACE_S)
    def invoice(*numbers: int) -> None:
        ran.append(f"invoice {numbers}")

    @invoice.aggregate
    async def one_invoice(members: list[list[Any]]) -> Any:
        note.enqueue(f"{len(members)} members")
        if fail:
            raise fail.pop()
        return [number for [number] in members]

    invoice.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
        list(app.inspector.retry(RETRIES, Filter()))
        assert eventually(lambda: len(ran) == 2)
    assert sorted(ran) == ["2 members", "invoice (1, 2)"]


def test_a_middleware_sees_the_members_and_a_client_link_the_one_job(app: App) -> None:
    seen: list[Any] = []
    pushed: list[Any] = []

    class Seeing:
        def call(self, queue: str, message: Message, call_next: Any) -> Any:
            seen.append(message.args)
            return call_next()

    app.middleware.append(Seeing())
    app.client_middleware(lambda job: (pushed.append(job["args"]), job)[1])
    invoices = Invoices(app)
    invoices.job.set(group="user:7").enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: invoices.ran == [(1, 2)])
    assert seen == [[[[1], [2]]], [1, 2]]
    assert pushed == [[1], [2], [1, 2]]


@pytest.mark.parametrize("calls", [False, True])
def test_the_members_end_where_a_middleware_answers_that_their_job_is_done(app: App, calls: bool) -> None:
    """It has not called the function, or has swallowed its error."""

    class Answering:
        def call(self, queue: str, message: Message, call_next: Any) -> bool:
            if calls:
                with suppress(RuntimeError):
                    call_next()
            return True

    app.middleware.append(Answering())
    invoices = Invoices(app)
    invoices.failures.append(RuntimeError("no"))
    jids = invoices.job.set(group="user:7", track=True).enqueue_bulk([[1], [2]])
    with working(app):
        assert eventually(lambda: {app.status(jid).state for jid in jids} == {"completed"})
        assert eventually(lambda: not entries(app))
    assert (invoices.ran, len(invoices.aggregated)) == ([], int(calls))


def test_the_one_job_has_the_options_of_its_class_and_of_no_group(app: App) -> None:
    fields: list[Any] = []

    @app.job("Seen", queue="q", group_grace=GRACE_S, tags=["money"], retry=3, unique_for=60)
    def seen(*numbers: int) -> None:
        message = current_message()
        assert message is not None
        fields.append(message.fields)

    @seen.aggregate
    def one(members: list[list[Any]]) -> list[Any]:
        message = current_message()
        assert message is not None
        assert message.tags == ["money"]
        return []

    seen.set(group="user:7").enqueue(1)
    with working(app):
        assert eventually(lambda: bool(fields))
    assert (fields[0]["tags"], fields[0]["retry"], fields[0]["class"]) == (["money"], 3, "Seen")
    assert "pyworkers" not in fields[0]


def test_a_class_that_nobody_aggregates_waits(app: App) -> None:
    @app.job("Invoice", queue="q", group_grace=GRACE_S)
    def invoice(number: int) -> None: ...

    @app.job("Other", queue="q", group_grace=GRACE_S)
    def job(number: int) -> None: ...

    done = threading.Event()

    @job.aggregate
    def one(members: list[list[Any]]) -> list[Any]:
        done.set()
        return members[0]

    invoice.set(group="user:7").enqueue(1)
    job.set(group="user:7").enqueue(1)
    with working(app):
        assert done.wait(20)
    assert open_group(app).size == 1


def test_a_set_whose_job_another_program_has_deleted_is_flushed_by_hand(app: App) -> None:
    invoices = Invoices(app)
    invoices.failures = [RuntimeError("no")]
    invoices.job.set(group="user:7").enqueue(1)
    with working(app):
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
        [job] = app.broker.admin.jobs_in(RETRIES).first(10)
        if app.broker.name == "Redis":
            app.broker.connections.call("DEL", "retry")  # type: ignore[attr-defined]
            assert app.inspector.count(RETRIES) == 0
        [entry] = entries(app)
        assert app.broker.require_part(Groups).make_due(entry.group)
        assert eventually(lambda: invoices.ran == [(1,)])
        # Where its first job comes back, it finds that the set has ended.
        app.broker.transport.publish([Push("q", job.payload)])
        assert eventually(lambda: app.inspector.count(waiting_in("q")) == 0)
    assert invoices.ran == [(1,)]


def test_enqueue_options_have_groups_too(app: App) -> None:
    assert app.enqueue_with_options("q", "Invoice", [1], EnqueueOptions(group="user:7", group_grace=5))
    assert open_group(app).settings.grace_s == 5


def test_a_cancelled_member_of_a_set_that_is_not_aggregated_yet_is_left_out(app: App) -> None:
    invoices = Invoices(app)
    app.inspector.pause("q")
    jid = invoices.job.set(group="user:7", track=True).enqueue(1)
    invoices.job.set(group="user:7").enqueue(2)
    assert jid
    with working(app):
        assert eventually(lambda: [entry.group.set != "" for entry in entries(app)] == [True])
        assert app.cancel(jid, timeout=0) == "requested"
        app.inspector.resume("q")
        assert eventually(lambda: bool(invoices.ran))
        assert app.status(jid).state == "cancelled"
        assert app.cancel(jid) == "cancelled"
    assert invoices.ran == [(2,)]


@pytest.mark.server
def test_several_processes_flush_and_aggregate_each_member_once(redis_url: str) -> None:
    ran: list[int] = []

    def process() -> tuple[App, Invoices]:
        app = stack.enter_context(own_app(redis_url, QueueConfig(name="q", concurrency=2)))
        return app, Invoices(app, group_max_size=4)

    with ExitStack() as stack:
        processes = [process() for _ in range(4)]
        for app, _ in processes:
            stack.enter_context(working(app))
        for number in range(200):
            _, invoices = processes[number % 4]
            invoices.job.set(group=f"user:{number % 10}").enqueue(number)

        def all_ran() -> list[int]:
            return [number for _, one in processes for numbers in one.ran for number in numbers]

        assert eventually(lambda: len(all_ran()) >= 200)
        assert eventually(lambda: not entries(processes[0][0]))
        ran = all_ran()
    assert sorted(ran) == list(range(200))
