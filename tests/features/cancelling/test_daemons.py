"""Jobs are cancelled where they wait and while they run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import redis as redis_py
from apps import own_app, working
from other_machine import other_machine
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, Place, waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, JobCancelled
from goworkers_py.features.cancelling import admin as cancelling
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.service import Canceller
from goworkers_py.features.tracking.effects import TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.observe.run_stats import RESULTS
from goworkers_py.wire.message import Message, current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3)) as app:
        yield app


@pytest.fixture
def told(app: App) -> list[str]:
    """The jids that `on_cancel` was called for."""
    found: list[str] = []

    @app.on_cancel
    def note(message: Message) -> None:
        found.append(message.jid)

    return found


def running(app: App, jid: str) -> bool:
    return app.status(jid).state == "running"


# --- where they wait


def test_a_job_in_its_queue_never_runs(app: App, told: list[str]) -> None:
    ran = []
    job = app.job("J", queue="q")(lambda: ran.append(1))
    first, second = str(job.enqueue()), str(job.enqueue())
    assert app.cancel(first) == "cancelled"
    assert told == [first]
    with working(app):
        assert eventually(lambda: ran == [1])
    assert app.status(second).state == "unknown"


@pytest.mark.parametrize("tracked", [True, False])
def test_a_scheduled_job_and_a_retry_never_run(app: App, tracked: bool) -> None:
    def fail() -> None:
        raise ValueError("no")

    job = app.job("J", queue="q", track=tracked)(fail)
    later = str(job.enqueue_in(3_600))
    assert app.cancel(later) == "cancelled"
    with working(app):
        failing = str(job.enqueue())
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
        assert app.cancel(failing) == "cancelled"
    assert app.inspector.count(RETRIES) == 0
    if tracked:
        found = [app.status(jid) for jid in (later, failing)]
        assert [(one.state, one.timeline[-1].reason) for one in found] == [("cancelled", "cancelled")] * 2


def test_one_of_many_waiting_jobs_is_removed(app: App) -> None:
    job = app.job("J", queue="q", track=True)(lambda number: None)
    jids = [str(jid) for jid in job.enqueue_bulk([[number] for number in range(2_000)])]
    for place in (1_234, 0, 1_999):
        assert app.cancel(jids[place]) == "cancelled"
    assert app.inspector.count(waiting_in("q")) == 1_997


def test_a_job_that_has_ended_is_too_late(app: App) -> None:
    job = app.job("J", queue="q", track=True, retry=0)(lambda: 1 / 0)
    with working(app):
        jid = str(job.enqueue())
        assert eventually(lambda: app.status(jid).state == "dead")
    assert app.cancel(jid) == "too late"
    assert app.inspector.count(DEAD) == 1


def test_a_job_that_is_met_later_is_not_begun(app: App, told: list[str]) -> None:
    ran = []
    job = app.job("J", queue="q")(lambda: ran.append(1))
    app.broker.require_part(Cancels).ask("one", False)
    job.set(jid="one").enqueue()
    with working(app):
        assert eventually(lambda: told == ["one"])
        job.enqueue()
        assert eventually(lambda: ran == [1])
        [lane] = app.runner.in_background.main.health.lanes
        counted = RESULTS.index("cancelled")
        # The handler is called before the job is counted.
        assert eventually(lambda: lane.run_stats.snapshot()["J"][counted] == 1), "it is counted, though it did not run"
    left = app.broker.require_part(Cancels).all("")
    assert left is not None
    assert not left[1], "the tombstone was met"


def test_a_job_that_was_cancelled_before_the_process_started_is_not_begun(
    app: App, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Canceller.run
    late = threading.Event()
    monkeypatch.setattr(Canceller, "run", lambda canceller: late.wait(60) and look(canceller))
    job = app.job("J", queue="q")(lambda: told.append("ran"))
    app.broker.require_part(Cancels).ask("one", False)
    job.set(jid="one").enqueue()
    with working(app):
        try:
            assert eventually(lambda: told)
            assert told == ["one"], "the tombstones are known before the first job is fetched"
        finally:
            late.set()


def test_all_copies_of_a_job_that_was_pushed_twice_are_cancelled(app: App, told: list[str]) -> None:
    """A client sends a push again whose reply was lost."""
    ran: list[int] = []
    app.job("J", queue="q")(lambda: ran.append(1))
    copy = Push("q", b'{"class":"J","args":[],"jid":"one","created_at":%f}' % time.time())
    app.broker.transport.publish([copy, copy])
    assert app.cancel("one") == "cancelled"
    assert (app.inspector.count(waiting_in("q")), told) == (0, ["one"])
    assert not app.broker.require_part(Cancels).stands("one")


@pytest.mark.parametrize("track", [b"", b'"track":true,'], ids=["", "tracked"])
def test_the_copies_of_a_job_that_wait_for_their_retries_are_cancelled(app: App, track: bytes) -> None:
    """Each at a time of its own."""
    raw = b'{"class":"J","args":[],"jid":"one",%s"created_at":%f,"retry":true}' % (track, time.time())
    first, second = (raw.replace(b"[]", b"[%d]" % number) for number in (1, 2))
    app.broker.transport.publish([
        Push("q", first, time.time() + 100, ties=(RecordTie(TrackedJob("one", "J")),) if track else ()),
        Push("q", second, time.time() + 200),
    ])  # fmt: skip
    assert app.cancel("one") == "cancelled"
    assert app.inspector.count(SCHEDULED) == 0


def test_the_copy_of_a_job_that_runs_is_cancelled_with_it(app: App) -> None:
    began, ran = threading.Event(), []

    @app.job("J", queue="q")
    def run_long() -> None:
        ran.append(1)
        began.set()  # the exception may strike from here on
        while True:
            time.sleep(0.01)

    raw = b'{"class":"J","args":[],"jid":"one","created_at":%f}' % time.time()
    app.broker.transport.publish([Push("q", raw)])
    with working(app):
        assert began.wait(20)
        app.broker.transport.publish([Push("nobodys", raw)])
        assert app.cancel("one", timeout=20) == "cancelled"
        assert eventually(lambda: app.inspector.stats().in_progress == 0)
    assert (ran, app.inspector.count(waiting_in("nobodys"))) == ([1], 0)


def test_a_copy_that_comes_to_wait_while_a_job_is_cancelled_is_cancelled_too(app: App) -> None:
    began, raw = threading.Event(), b'{"class":"J","args":[],"jid":"one","created_at":%f}' % time.time()

    @app.job("J", queue="q")
    def run_long() -> None:
        try:
            began.set()  # the exception may strike from here on
            while True:
                time.sleep(0.01)
        except JobCancelled:
            app.broker.transport.publish([Push("nobodys", raw)])
            raise

    app.broker.transport.publish([Push("q", raw)])
    with working(app):
        assert began.wait(20)
        assert app.cancel("one", timeout=20) == "cancelled"
    assert app.inspector.count(waiting_in("nobodys")) == 0


def test_a_copy_that_is_given_back_while_a_job_is_cancelled_is_cancelled_too(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process that stops, say, after the queues were searched."""
    copy = Push("q", b'{"class":"J","args":[],"jid":"one","created_at":%f}' % time.time())
    app.broker.transport.publish([copy])
    is_held, asked = JobLookup.is_held, []

    def given_back(lookup: JobLookup, jid: str) -> bool:
        asked.append(jid)
        if len(asked) == 1:
            app.broker.transport.publish([copy])
        return is_held(lookup, jid)

    monkeypatch.setattr(JobLookup, "is_held", given_back)
    assert app.cancel("one") == "cancelled"
    assert app.inspector.count(waiting_in("q")) == 0


def test_an_interruption_removes_no_job_that_waits(app: App) -> None:
    """Not even where the record tells of an earlier cancel."""
    raw = b'{"class":"J","args":[],"jid":"one","track":true,"created_at":%f}' % time.time()
    app.broker.transport.publish([Push("q", raw, ties=(RecordTie(TrackedJob("one", "J")),))])
    assert app.cancel("one") == "cancelled"
    app.broker.transport.publish([Push("q", raw)])  # as Ruby pushes
    app.cancel("one", retry=True, timeout=0)
    assert app.inspector.count(waiting_in("q")) == 1
    assert not app.broker.require_part(Cancels).stands("one")


def clock_from(is_reached: Callable[[], bool]) -> SimpleNamespace:
    """A module `time` whose monotonic clock stands still until then, but not for ever."""
    reached_at, give_up_at = list[float](), time.monotonic() + 30

    def monotonic() -> float:
        now = time.monotonic()
        if not reached_at and (is_reached() or now > give_up_at):
            reached_at.append(now)
        return now - reached_at[0] if reached_at else 0.0

    return other_machine(monotonic=monotonic)


@pytest.mark.parametrize("all_of_them", [False, True], ids=["one job", "by filter"])
@pytest.mark.parametrize("track", [b"", b'"track":true,'], ids=["", "tracked"])
def test_a_job_is_not_cancelled_before_all_its_running_copies_have_ended(
    app: App, track: bytes, all_of_them: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wait for the answers begins to count when the first copy has ended: until then it may take long.
    monkeypatch.setattr(cancelling, "machine", clock_from(lambda: app.inspector.stats().in_progress == 1))
    began, may_end, held_on = [threading.Event() for _ in range(2)], threading.Event(), threading.Event()

    @app.job("J", queue="q")
    def hold_on(number: int) -> None:
        try:
            began[number].set()  # the exception may strike from here on
            while True:
                time.sleep(0.01)
        except JobCancelled:
            held_on.set()
            while number and not may_end.is_set():
                time.sleep(0.01)
            raise

    def cancelled(timeout: float) -> str:
        if not all_of_them:
            return app.cancel("one", timeout=timeout)
        counts = app.inspector.cancel_all(Filter(job_class="J"), timeout=timeout)
        return "requested" if counts.requested else "cancelled"

    raw = b'{"class":"J","args":[%%d],"jid":"one",%s"created_at":%f}' % (track, time.time())
    app.broker.transport.publish([
        Push("q", raw % 0, ties=(RecordTie(TrackedJob("one", "J")),) if track else ()),
        Push("q", raw % 1),
    ])  # fmt: skip
    with working(app):
        assert all(one.wait(20) for one in began)
        assert not track or eventually(lambda: running(app, "one"))
        assert cancelled(timeout=1) == "requested"
        assert held_on.wait(20)
        assert app.broker.require_part(Cancels).stands("one"), (
            "the other copy would run again if its process were killed"
        )
        may_end.set()
        assert eventually(lambda: app.inspector.stats().in_progress == 0)
        assert not app.broker.require_part(Cancels).stands("one")


def test_a_job_that_was_pushed_again_after_its_cancel_is_cancelled_again(app: App) -> None:
    raw = b'{"class":"J","args":[],"jid":"one","track":true,"created_at":%f}' % time.time()
    app.broker.transport.publish([Push("q", raw, ties=(RecordTie(TrackedJob("one", "J")),))])
    assert app.cancel("one") == "cancelled"
    app.broker.transport.publish([Push("q", raw)])  # as Ruby pushes
    assert app.cancel("one") == "cancelled"
    assert app.inspector.count(waiting_in("q")) == 0
    assert app.cancel("one", timeout=20) == "cancelled", "again, without waiting for an answer"


@pytest.mark.parametrize(("retry", "place", "cancelled"), [(0, DEAD, 0), (3, RETRIES, 1)])
def test_a_job_that_ends_while_all_are_cancelled_leaves_no_tombstone(
    app: App, retry: int, place: Place, cancelled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    @app.job("J", queue="q", retry=retry)
    def fail() -> None:
        began.set()
        may_end.wait(20)
        raise ValueError

    fail.set(jid="one").enqueue()
    ask = app.broker.require_part(Cancels).ask
    with working(app):
        assert began.wait(20)

        def ask_late(jid: str, retry: bool) -> object:
            may_end.set()
            assert eventually(lambda: app.inspector.count(place) == 1)
            return ask(jid, retry)

        monkeypatch.setattr(app.broker.require_part(Cancels), "ask", ask_late)
        counts = app.inspector.cancel_all(Filter(job_class="J"), timeout=0.1)
    assert (counts.cancelled, counts.requested, counts.too_late) == (cancelled, 0, 1 - cancelled)
    assert app.inspector.count(RETRIES) == 0
    assert not app.broker.require_part(Cancels).stands("one"), "its retry by hand would be dropped"


def test_a_job_that_is_nowhere_leaves_no_tombstone(app: App) -> None:
    assert app.cancel("nobody", timeout=0.05) == "not found"
    left = app.broker.require_part(Cancels).all("")
    assert left is not None
    assert not left[1]


@pytest.mark.parametrize("jid", [None, "", 7])
def test_what_is_no_jid_is_refused(app: App, jid: str) -> None:
    for ask in (app.cancel, app.status, app.result):
        with pytest.raises(ArgumentError, match="a jid is a text, not "):
            ask(jid)


# --- while they run


@pytest.mark.parametrize("tracked", [True, False])
def test_a_running_job_is_interrupted_and_not_retried(app: App, told: list[str], tracked: bool) -> None:
    began, errors = threading.Event(), list[BaseException]()

    @app.job("Long", queue="q", track=tracked)
    def long() -> None:
        try:
            began.set()  # the exception may strike from here on
            while True:
                time.sleep(0.001)
        except JobCancelled as error:
            errors.append(error)
            raise ValueError("in the clean-up") from error

    with working(app):
        jid = str(long.enqueue())
        assert began.wait(30)
        assert app.cancel(jid, timeout=30) == "cancelled"
        assert (len(errors), told) == (1, [jid])
        assert app.inspector.count(RETRIES) == app.inspector.count(DEAD) == 0
        assert app.status(jid).state == ("cancelled" if tracked else "unknown")
        stats = app.inspector.stats()
        assert (stats.processed, stats.failed) == (0, 0)


def test_a_coroutine_is_cancelled(app: App, told: list[str]) -> None:
    began = threading.Event()

    @app.job("Long", queue="q")
    async def long() -> None:
        began.set()
        await asyncio.sleep(60)

    with working(app):
        jid = str(long.enqueue())
        assert began.wait(30)
        assert app.cancel(jid, timeout=30) == "cancelled"
        assert told == [jid]


def test_a_job_that_is_not_interrupted_asks_and_ends_as_cancelled(app: App, told: list[str]) -> None:
    began = threading.Event()

    @app.job("Polite", queue="q", interrupt=False, track=True)
    def polite() -> str:
        began.set()
        while not current_message().cancelled:  # type: ignore[union-attr]
            time.sleep(0.001)
        return "gave up"

    with working(app):
        jid = str(polite.enqueue())
        assert began.wait(30)
        assert app.cancel(jid, timeout=30) == "cancelled"
        assert (app.status(jid).state, told) == ("cancelled", [jid])


def test_a_job_that_is_not_interrupted_and_does_not_ask_completes(app: App, told: list[str]) -> None:
    began, go_on = threading.Event(), threading.Event()

    @app.job("Deaf", queue="q", interrupt=False, track=True)
    def deaf() -> None:
        began.set()
        go_on.wait(30)

    with working(app):
        jid = str(deaf.enqueue())
        assert began.wait(30)
        assert app.cancel(jid, timeout=0.05) == "requested"
        go_on.set()
        assert eventually(lambda: app.status(jid).state == "completed")
        assert told == []


def test_a_job_that_waits_is_not_cancelled_where_only_a_run_was_to_be_interrupted(app: App) -> None:
    job = app.job("J", queue="q")(lambda: None)
    jid = str(job.enqueue_in(3_600))
    assert app.cancel(jid, retry=True, timeout=0.05) == "not running"
    assert app.status(jid).state == "scheduled"
    assert not app.broker.require_part(Cancels).stands(jid)


def test_a_jid_that_was_cancelled_can_be_pushed_anew(app: App) -> None:
    """The processes forget a tombstone a little later than the broker."""
    ran = []
    job = app.job("J", queue="q")(ran.append)
    with working(app):
        for number in range(20):
            job.set(jid=f"reminder {number}").enqueue_in(3_600, -1)
            assert app.cancel(f"reminder {number}") == "cancelled"
            job.set(jid=f"reminder {number}").enqueue(number)
        assert eventually(lambda: sorted(ran) == list(range(20)))


def test_an_interrupted_job_is_retried_where_that_was_said(app: App, told: list[str]) -> None:
    began = threading.Event()

    @app.job("Long", queue="q", track=True)
    def long() -> None:
        began.set()
        while True:
            time.sleep(0.001)

    with working(app):
        jid = str(long.enqueue())
        assert began.wait(30)
        assert app.cancel(jid, retry=True, timeout=30) == "interrupted"
        assert app.inspector.count(RETRIES) == 1
        assert (app.status(jid).state, app.status(jid).error_class, told) == ("retry", "goworkers_py.JobCancelled", [])


def test_the_exception_strikes_no_other_job(app: App) -> None:
    """Short jobs beside the cancelled ones, in the same threads."""
    ended = []

    @app.job("Short", queue="q")
    def short(number: int) -> None:
        ended.append(number)

    @app.job("Spins", queue="q")
    def spins() -> None:
        stop_at = time.monotonic() + 0.003
        while time.monotonic() < stop_at:
            pass

    with working(app):
        jids = []
        for number in range(300):
            jids.append(str(spins.enqueue()))
            short.enqueue(number)
        for jid in jids:
            app.broker.require_part(Cancels).ask(jid, False)
        assert eventually(lambda: len(ended) == 300)
        assert eventually(lambda: app.inspector.stats().in_progress == 0)
    assert app.inspector.count(RETRIES) == 0
    assert sorted(ended) == list(range(300))


@pytest.mark.server
@pytest.mark.parametrize("beside", ["other", "\\ud800"], ids=["", "beside a job whose jid is no text"])
def test_sidekiqs_cancel_is_met(redis_url: str, beside: str) -> None:
    began, ended = threading.Event(), threading.Event()
    with own_app(redis_url, QueueConfig(name="q")) as app:

        @app.job("Long", queue="q", track=True)
        def long() -> None:
            began.set()
            while True:
                time.sleep(0.001)

        with working(app) as daemon:
            assert daemon.runner.in_background is not None
            services = daemon.runner.in_background.main._services.of_features
            canceller = next(service for service in services if isinstance(service, Canceller))
            canceller.compare_every_s = 0.05
            canceller.wake()
            app.job("Beside", queue="q")(ended.wait)
            app.broker.transport.publish([Push("q", b'{"class":"Beside","args":[],"jid":"%s"}' % beside.encode())])
            assert eventually(lambda: app.inspector.stats().in_progress == 1)
            jid = str(long.enqueue())
            assert began.wait(30)
            assert eventually(lambda: running(app, jid))
            app.broker.admin._connections.call("HSET", f"it-{jid}", "cancelled", 1)  # type: ignore[attr-defined]
            assert eventually(lambda: app.status(jid).state == "cancelled")
            ended.set()


@pytest.mark.server
def test_a_tracked_job_that_sidekiq_has_cancelled_before_its_begin_is_interrupted_soon(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canceller, "compare_every_s", 3_600.0)  # so that only the look at the begin can find it
    with own_app(redis_url, QueueConfig(name="q", concurrency=1)) as app:
        begun = threading.Event()

        def run() -> None:
            begun.set()
            while True:
                time.sleep(0.01)

        job = app.job("J", queue="q", track=True)(run)
        redis.hset("it-one", "cancelled", 1)
        with working(app):
            job.set(jid="one").enqueue()
            assert begun.wait(30)
            assert eventually(lambda: app.status("one").state == "cancelled")
