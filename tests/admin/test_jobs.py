"""Pages, samples, times and copies of jobs, by `workers.inspector`, on the memory broker and on Redis."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apps import job, own_app

from goworkers_py.admin import job_lookup
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.job_pages import JobPage, pages_in
from goworkers_py.admin.jobs import ALL
from goworkers_py.admin.places import DEAD, PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import MOST_OF_ONE_TIME, PAGE, Changed, Place
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.span import BEGINNING, Reached, Span
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.stored_job import StoredJob

Q = waiting_in("q")
FAR = 4_000_000_000.0


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=2)) as app:
        yield app


def numbered(count: int, **fields: Any) -> list[bytes]:
    return [job("J", number, jid=f"{number:06}", queue="q", **fields) for number in range(count)]


def schedule(app: App, *payloads: bytes, since: float = FAR, every: float = 1.0) -> None:
    pushes = [Push("q", payload, since + every * number) for number, payload in enumerate(payloads)]
    app.broker.transport.publish(pushes)


def put(app: App, *payloads: bytes) -> None:
    app.broker.transport.publish([Push("q", payload) for payload in payloads])


def jids(jobs: Any) -> list[str]:
    return [one.jid for one in jobs]


def told(steps: Iterator[tuple[int, Changed]]) -> Changed:
    total = Changed()
    for _, changed in steps:
        total.add(changed)
    return total


def all_pages(
    app: App, place: Place, wanted: Filter = ALL, between: Callable[[], object] = int, **how: Any
) -> list[JobPage]:
    pages = [app.inspector.page(place, wanted, **how)]
    while pages[-1].next:
        between()
        pages.append(app.inspector.page(place, wanted, after=pages[-1].next, **how))
    return pages


# --- pages


@pytest.mark.parametrize("place", [SCHEDULED, Q])
def test_every_job_is_on_one_page(app: App, place: Place) -> None:
    (schedule if place == SCHEDULED else put)(app, *numbered(25))
    pages = all_pages(app, place, limit=10)
    assert [len(page.jobs) for page in pages] == [10, 10, 5]
    assert [one for page in pages for one in jids(page.jobs)] == jids(app.inspector.jobs(place))


def test_a_page_holds_wanted_jobs_and_comes_after_some_that_were_looked_at(app: App) -> None:
    schedule(app, *numbered(50))
    pages = all_pages(app, SCHEDULED, Filter(match='"jid": "00004'), limit=10, most=20)
    assert [(len(page.jobs), page.looked_at) for page in pages] == [(0, 20), (0, 20), (10, 10), (0, 0)]


def test_jobs_that_leave_between_two_pages_hide_no_other(app: App) -> None:
    schedule(app, *numbered(60))
    chosen = iter([*(f"{number:06}" for number in range(60))])

    def remove_five() -> None:
        gone = Filter(jids=[next(chosen) for _ in range(5)])
        told(app.inspector.delete(SCHEDULED, gone))

    pages = all_pages(app, SCHEDULED, between=remove_five, limit=10)
    assert [one for page in pages for one in jids(page.jobs)] == [f"{number:06}" for number in range(60)]


def test_the_page_goes_on_where_its_last_job_was_even_if_that_has_left(app: App) -> None:
    schedule(app, *numbered(30))
    page = app.inspector.page(SCHEDULED, limit=10)
    told(app.inspector.delete(SCHEDULED, Filter(jids=jids(page.jobs))))
    assert jids(app.inspector.page(SCHEDULED, after=page.next, limit=3).jobs) == ["000010", "000011", "000012"]


def test_jobs_that_come_between_two_pages_of_a_queue_are_not_shown_in_place_of_others(app: App) -> None:
    put(app, *numbered(30))
    page = app.inspector.page(Q, limit=10)
    put(app, *(job("New", number) for number in range(100)))
    assert jids(app.inspector.page(Q, after=page.next, limit=2).jobs) == ["000019", "000018"]


def test_dead_jobs_are_paged_the_last_dead_first(app: App) -> None:
    schedule(app, *numbered(5))
    for number in range(5):
        told(app.inspector.kill(SCHEDULED, Filter(jids=[f"{number:06}"])))
    pages = all_pages(app, DEAD, limit=2)
    assert [jids(page.jobs) for page in pages] == [["000004", "000003"], ["000002", "000001"], ["000000"]]


@pytest.mark.parametrize("after", ["x", "1-2", "-", "a-b-c", "1-00-x"])
def test_a_page_after_something_else_is_refused(app: App, after: str) -> None:
    with pytest.raises(ArgumentError, match="is not what `next` of a page was"):
        app.inspector.page(SCHEDULED, after=after)


def test_a_page_of_no_jobs_is_refused(app: App) -> None:
    with pytest.raises(ArgumentError, match="at least 1"):
        app.inspector.page(SCHEDULED, limit=0)


# --- times


def test_only_the_jobs_of_a_span_of_time_are_read_and_changed(app: App) -> None:
    schedule(app, *numbered(3 * PAGE))
    wanted = Filter(since=FAR + PAGE, until=FAR + PAGE + 9)
    assert jids(app.inspector.jobs(SCHEDULED, wanted)) == [f"{PAGE + number:06}" for number in range(10)]
    span = Span.of(wanted.since, wanted.until, newest_first=False)
    assert len(list(pages_in(app.broker.admin.jobs_in(SCHEDULED), span))) == 1
    steps = list(app.inspector.delete(SCHEDULED, wanted))
    assert (told(iter(steps)).done, len(steps)) == (10, 1), "one page was read"
    assert app.inspector.count(SCHEDULED) == 3 * PAGE - 10
    [page] = all_pages(app, SCHEDULED, Filter(since=FAR + 3 * PAGE - 5))
    assert len(page.jobs) == 5


def test_dead_jobs_of_a_span_of_time_come_the_last_dead_first(app: App) -> None:
    schedule(app, *numbered(4))
    times = []
    for number in range(4):
        told(app.inspector.kill(SCHEDULED, Filter(jids=[f"{number:06}"])))
        times.append(app.inspector.first(DEAD, 9)[-1].at or 0.0)
        time.sleep(0.002)
    assert jids(app.inspector.jobs(DEAD, Filter(since=times[1], until=times[2]))) == ["000002", "000001"]


def test_wanted_jobs_wait_for_another_time(app: App) -> None:
    schedule(app, *numbered(10), every=0)
    wanted = Filter(match='"jid": "00000')
    assert told(app.inspector.reschedule(SCHEDULED, wanted, FAR + 60, dry_run=True)) == Changed(10)
    assert told(app.inspector.reschedule(SCHEDULED, Filter(argument="7"), FAR + 60)) == Changed(1)
    assert told(app.inspector.reschedule(SCHEDULED, Filter(), FAR + 60)) == Changed(9), "one waits for it already"
    assert {one.at for one in app.inspector.jobs(SCHEDULED)} == {FAR + 60}


@pytest.mark.parametrize("place", [SCHEDULED, Q], ids=["scheduled", "queue"])
@pytest.mark.parametrize("every", [0, 1], ids=["one time", "own times"])
def test_a_change_goes_on_behind_what_a_former_one_has_reached(app: App, place: Place, every: int) -> None:
    number = 2 * PAGE + 50
    put(app, *numbered(number)) if place == Q else schedule(app, *numbered(number), every=every)
    wanted, done, calls, start = Filter(match="7"), 0, 0, BEGINNING
    while (step := next(iter(app.inspector.delete(place, wanted, start=start)), None)) is not None and calls < 9:
        calls, done, start = calls + 1, done + step[1].done, Reached.read(str(step[1].reached))
    assert done == sum("7" in f"{one:06}" for one in range(number))
    assert calls <= 4
    assert [*app.inspector.jobs(place, wanted)] == []


@pytest.mark.parametrize("told", ["x", "", "-1  a", "0 nan a", f"{2**60}  ", "1 x y", "1.5  "])
def test_what_no_change_has_reached_is_refused(told: str) -> None:
    with pytest.raises(ArgumentError, match="is not how far a change has come"):
        Reached.read(told)


@pytest.mark.parametrize("place", [DEAD, PARKED, Q])
def test_only_jobs_that_wait_for_a_time_are_rescheduled(app: App, place: Place) -> None:
    with pytest.raises(ArgumentError, match="only scheduled jobs and retries wait for a time"):
        app.inspector.reschedule(place, Filter(), FAR)


# --- counts


def test_a_small_place_is_sampled_as_a_whole(app: App) -> None:
    schedule(app, *numbered(30), *(job("Other", number) for number in range(10)))
    sample = app.inspector.sample(SCHEDULED)
    assert (sample.total, sample.looked_at) == (40, 40)
    assert [(kind.job_class, kind.count) for kind in sample.kinds] == [("J", 30), ("Other", 10)]
    assert app.inspector.sample(RETRIES).kinds == []


def test_a_sample_estimates_the_counts_of_many_jobs(app: App) -> None:
    mixed = [job("Rare" if number % 10 == 0 else "J", number) for number in range(6_000)]
    schedule(app, *mixed)
    sample = app.inspector.sample(SCHEDULED, 1_000)
    assert (sample.total, sample.looked_at) == (6_000, 1_000)
    counts = {kind.job_class: kind.count for kind in sample.kinds}
    assert sum(counts.values()) == pytest.approx(6_000, abs=10)
    assert 300 < counts["Rare"] < 900


def test_failures_are_those_of_retries_and_dead_jobs(app: App) -> None:
    failed = [job("J", number, error_class="ValueError", failed_at=1.0) for number in range(3)]
    schedule(app, *failed)
    told(app.inspector.kill(SCHEDULED, Filter(argument="0")))
    assert [(kind.job_class, kind.error_class, kind.count) for kind in app.inspector.failures()] == [
        ("J", "ValueError", 1)
    ]


# --- one job


@pytest.mark.parametrize("tracked", [True, False])
def test_a_job_is_found_where_it_waits(app: App, tracked: bool) -> None:
    one = app.job("J", queue="q", track=tracked)(lambda: None)
    later, now = str(one.enqueue_in(1_000)), str(one.enqueue())
    assert [(place, found.jid) for place, found in app.inspector.find(later)] == [(SCHEDULED, later)]
    assert [(place, found.jid) for place, found in app.inspector.find(now)] == [(Q, now)]
    assert list(app.inspector.find("nowhere")) == []
    told(app.inspector.kill(SCHEDULED, Filter(jids=[later])))
    assert [place for place, _ in app.inspector.find(later)] == [DEAD]


def test_a_tracked_job_among_a_great_many_of_one_time_is_shown_changed_and_cancelled(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lookup, "MOST_SEARCHED", 100)
    schedule(app, *numbered(MOST_OF_ONE_TIME + 200), every=0)
    # Jobs of one time are in the order of their bytes, and this class comes after the others.
    last = app.job("ZLast", queue="q", track=True)(lambda: None).set(at=FAR)
    jid, other = str(last.enqueue()), str(last.enqueue())
    status = app.inspector.status(jid)
    assert (status.state, status.due, status.absent) == ("scheduled", FAR, False)
    assert [place for place, _ in app.inspector.find(jid)] == [SCHEDULED]
    assert app.inspector.cancel(jid, timeout=0.1) == "cancelled"
    assert app.inspector.status(jid).state == "cancelled"
    assert app.inspector.count(SCHEDULED) == MOST_OF_ONE_TIME + 201
    assert told(app.inspector.retry(SCHEDULED, Filter(jids=[other]))).done == 1


def test_a_job_is_not_told_to_be_absent_when_not_all_jobs_in_progress_were_read(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = "host:1:00000000000a"
    app.broker.recoverable.beat(Presence(owner, {"q": 3}))
    app.broker.transport.publish([Push("q", payload) for payload in numbered(3)])
    assert len(app.broker.transport.consume(owner, [("q", 3)], 3)) == 3
    assert app.inspector.status("nowhere").absent
    monkeypatch.setattr(job_lookup, "MOST_SEARCHED", 2)
    assert not app.inspector.status("nowhere").absent


def test_a_tracked_job_is_changed_without_reading_the_others(app: App) -> None:
    schedule(app, *numbered(2 * PAGE))
    jid = str(app.job("J", queue="q", track=True)(lambda: None).set(at=FAR + PAGE + 0.5).enqueue())
    [(looked_at, changed)] = app.inspector.retry(SCHEDULED, Filter(jids=[jid]))
    assert changed.done == 1
    assert looked_at < 2 * PAGE
    assert app.status(jid).state == "waiting"


def test_the_timeline_of_a_job_without_a_record_is_what_its_payload_tells(app: App) -> None:
    times = {"created_at": 100.0, "enqueued_at": 110.0, "failed_at": 120.0, "retried_at": 130.0}
    schedule(app, job("J", jid="one", error_class="OSError", **times))
    assert [(move.state, move.at) for move in app.inspector.timeline("one")] == [
        ("created", 100.0), ("waiting", 110.0), ("retry", 120.0), ("retry", 130.0),
    ]  # fmt: skip


def test_the_timeline_of_a_tracked_job_is_that_of_its_record(app: App) -> None:
    jid = str(app.job("J", queue="q", track=True)(lambda: None).enqueue_in(1_000))
    told(app.inspector.reschedule(SCHEDULED, Filter(jids=[jid]), FAR))
    assert [(move.state, move.reason) for move in app.inspector.timeline(jid)][-1] == ("scheduled", "rescheduled")


# --- again


def again(app: App, payload: bytes, **changes: Any) -> dict[str, Any]:
    jid = app.inspector.enqueue_again(StoredJob(payload), **changes)
    [(_, found)] = app.inspector.find(jid)
    fields: dict[str, Any] = json.loads(found.payload)
    assert fields["jid"] == jid
    return fields


FAILED = job(
    "J", 1, jid="first", queue="q", retry=5, tags=["eu"], created_at=100.0, enqueued_at=100.0, failed_at=120.0,
    retry_count=3, error_class="E", error_message="m", error_backtrace="x", retried_at=130.0, bid="b", custom=1.50,
)  # fmt: skip


def test_a_job_is_pushed_again_as_it_was_before_it_failed(app: App) -> None:
    fields = again(app, FAILED)
    assert {name: fields[name] for name in ("class", "args", "queue", "retry", "tags", "custom")} == {
        "class": "J", "args": [1], "queue": "q", "retry": 5, "tags": ["eu"], "custom": 1.5,
    }  # fmt: skip
    assert fields["jid"] != "first"
    assert fields["created_at"] == fields["enqueued_at"] == pytest.approx(time.time(), abs=60)
    assert not {name for name in fields if "error" in name or "retr" in name} - {"retry"}
    assert not {"bid", "failed_at"} & set(fields)


def test_a_job_is_pushed_again_with_other_arguments_to_another_queue_at_another_time(app: App) -> None:
    fields = again(app, FAILED, args=["other"], kwargs={"pdf": True}, queue="slow", at=FAR)
    assert (fields["args"], fields["kwargs"], fields["queue"]) == (["other"], {"pdf": True}, "slow")
    assert fields["pyworkers"]["needs"] == ["kwargs"]
    assert "enqueued_at" not in fields
    assert [one.at for one in app.inspector.jobs(SCHEDULED)] == [FAR]


def test_a_tracked_job_is_tracked_again(app: App) -> None:
    jid = str(app.job("J", queue="q", track=True)(lambda: None).enqueue())
    [(_, found)] = app.inspector.find(jid)
    assert app.status(app.inspector.enqueue_again(found)).tracked


@pytest.mark.parametrize(("payload", "changes", "why"), [
    (b"no job", {}, "is not a job"), (b'{"class":"J","queue":7}', {}, "is not a queue's name"),
    (FAILED, {"args": [object()]}, "not plain JSON"), (FAILED, {"queue": ""}, None),
    (b'{"class":"W","wrapped":"R","queue":"q","args":[{"arguments":[]}]}', {"args": [1]}, "only Rails can write"),
])  # fmt: skip
def test_a_job_that_cannot_be_pushed_again_is_refused(
    app: App, payload: bytes, changes: dict[str, Any], why: str | None
) -> None:
    if why is None:
        assert again(app, payload, **changes)["queue"] == "q"
        return
    with pytest.raises(ArgumentError, match=why):
        app.inspector.enqueue_again(StoredJob(payload), **changes)
