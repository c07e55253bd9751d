"""The links: pure where they are, and on a real server where their meaning is what the server holds afterwards."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_app, queue, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.errors import (
    ArgumentError,
    DiscardJob,
    KillJob,
    LeaseLost,
    RetryJob,
    TimeLimitExceeded,
    UnknownJob,
)
from goworkers_py.core.outcome import CANCELLED, DONE, LOST, UNACKNOWLEDGED, Dead, Discard, Outcome, Reschedule, Retry
from goworkers_py.links.chain import Links, Middleware, Run, adapt, wrap_all
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.log import log_runs
from goworkers_py.links.perform import close_own_loop, perform
from goworkers_py.links.retry import RetryLink
from goworkers_py.links.stats import stats
from goworkers_py.observe.run_stats import RESULTS, RUN_SUM, WAIT_SUM, RunStats
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire.message import Message, current_message, reset_current, set_current

NOW = 1_700_000_000.0
RETRY = Retry(NOW, b"{}")


class Link:
    """A user's link from a function."""

    def __init__(self, call: Callable[[str, Message, Callable[[], bool]], bool | None]) -> None:
        self.call = call


def traced(name: str, trace: list[str]) -> Middleware:
    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        trace.append(f"{name} in")
        acknowledge = call_next()
        trace.append(f"{name} out")
        return acknowledge

    return Link(call)


def message(*args: Any, **changes: Any) -> Message:
    return Message(job("J", *args, **changes), "q")


def registry(function: Callable[..., Any] = lambda: None, **options: Any) -> Registry:
    made = Registry()
    made.add(JobSpec("J", function, options=CodeOptions(**options)))
    return made


def fails_with(error: BaseException) -> Run:
    def run(message: Message) -> Outcome:
        raise error

    return run


# --- the shape of the chain


def test_the_first_wrap_is_the_outermost() -> None:
    trace: list[str] = []
    run = wrap_all(lambda message: DONE, [adapt(traced("a", trace)), adapt(traced("b", trace))])
    assert run(message()) is DONE
    assert trace == ["a in", "b in", "b out", "a out"]


@pytest.mark.parametrize(
    ("returns", "inner", "outcome"),
    [
        (True, DONE, DONE),
        (True, RETRY, RETRY),
        (False, DONE, UNACKNOWLEDGED),
        (False, RETRY, UNACKNOWLEDGED),
        (True, UNACKNOWLEDGED, DONE),
        (None, DONE, DONE),  # a forgotten return: what it was given
        (None, RETRY, RETRY),
        (None, UNACKNOWLEDGED, UNACKNOWLEDGED),
        (True, LOST, LOST),  # another process has the job
        (False, LOST, LOST),
    ],
)
def test_a_link_decides_by_what_it_returns(returns: Any, inner: Outcome, outcome: Outcome) -> None:
    told = []

    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        told.append(call_next())
        return returns  # type: ignore[no-any-return]

    assert adapt(Link(call))(lambda message: inner)(message()) == outcome
    assert told == [inner not in (UNACKNOWLEDGED, LOST)]


def test_a_link_that_acknowledges_without_running_the_job_ends_it() -> None:
    assert adapt(Link(lambda queue, message, call_next: True))(fails_with(AssertionError()))(message()) is DONE


def test_a_link_that_returns_nothing_without_running_the_job_leaves_it_unacknowledged() -> None:
    assert (
        adapt(Link(lambda queue, message, call_next: None))(fails_with(AssertionError()))(message()) is UNACKNOWLEDGED
    )


def test_prepended_links_go_before_those_prepended_earlier_and_appended_ones_behind() -> None:
    links, made = Links(), [traced(str(number), []) for number in range(4)]
    links.prepend(made[0])
    links.prepend(made[1])
    links.append(made[2])
    links.append(made[3])
    assert (links.prepended, links.appended) == ([made[1], made[0]], [made[2], made[3]])


# --- retry: exceptions become outcomes


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


def retry_link(handlers: Handlers, of: Registry | None = None) -> RetryLink:
    policy = RetryPolicy(random_below=lambda below: 0)
    return RetryLink(policy, of or registry(), handlers, wall=lambda: NOW)


@pytest.mark.parametrize(
    "error", [LeaseLost(), asyncio.CancelledError(), ValueError("in its finally"), TimeLimitExceeded()]
)
def test_a_job_that_was_given_to_another_process_neither_fails_nor_ends_as_cancelled(error: BaseException) -> None:
    told: list[object] = []
    handlers = Handlers(error=[lambda *of: told.append(of)], death=[lambda *of: told.append(of)])
    one = message()
    one.cancel = CancelRequest(retry=False, lost=True)
    assert retry_link(handlers)(fails_with(error))(one) == LOST
    assert told == []


def outcome_of(error: BaseException, handlers: Handlers, of: Registry | None = None, **changes: Any) -> Outcome:
    return retry_link(handlers, of)(fails_with(error))(message(**changes))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_whatever_a_job_raises_is_a_failed_run(error: BaseException, handlers: Handlers) -> None:
    outcome = outcome_of(error, handlers)
    assert isinstance(outcome, Retry)
    assert outcome.at == NOW + 15
    assert json.loads(outcome.payload)["error_class"] in (
        type(error).__name__,
        f"{type(error).__module__}.{type(error).__name__}",
    )


class Rudeness(BaseException):
    """Not SystemExit, which would end the tests."""


class Rude(str):
    """A text that raises whatever is done with it."""

    __slots__ = ()

    def _refuse(self, *_: Any) -> Any:
        raise Rudeness

    __getitem__ = __len__ = __format__ = __eq__ = __add__ = __iter__ = __contains__ = encode = split = _refuse  # type: ignore[assignment]
    __hash__ = str.__hash__


class RudeKind(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise Rudeness
        return super().__getattribute__(name)


class RudeText(Exception):
    def __str__(self) -> str:
        return Rude("rude")


class RudeClass(Exception):
    @property
    def __class__(self) -> type:
        raise Rudeness


class RudeName(Exception, metaclass=RudeKind):
    pass


class RudeTrace(Exception):
    @property
    def __traceback__(self) -> Any:
        raise Rudeness

    __class__ = __traceback__


class RudeRetry(RetryJob):
    def __init__(self) -> None:
        pass

    @property
    def delay(self) -> Any:
        raise Rudeness

    at = delay


def with_names(module: Any, name: str) -> BaseException:
    kind = type("Odd", (Exception,), {"__module__": module})
    kind.__qualname__ = name
    return kind()


def with_delay(delay: Any) -> BaseException:
    error = RetryJob(delay=1)
    error.delay = delay
    return error


RUDE: dict[str, Callable[[], BaseException]] = {
    "text": RudeText,
    "class": RudeClass,
    "class's name": RudeName,
    "traceback": RudeTrace,
    "delay": RudeRetry,
    "module is no text": lambda: with_names(5, "Five"),
    "names of another text": lambda: with_names(Rude("m"), Rude("N")),
    "half a character": lambda: with_names("a\ud800", "b\ud800"),
    "delay is no number": lambda: with_delay("soon"),
    "delay is nan": lambda: with_delay(math.nan),
    "delay is endless": lambda: with_delay(math.inf),
}


@pytest.mark.parametrize("rude", RUDE)
def test_a_job_fails_once_however_its_exception_misbehaves(
    rude: str, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pytest cannot take what it captures of this one out of its process; see test_logs for our own lines.
    monkeypatch.setattr(logging.getLogger("goworkers_py.job"), "disabled", rude == "half a character")
    outcome = outcome_of(RUDE[rude](), handlers)
    assert isinstance(outcome, Retry)
    assert math.isfinite(outcome.at)
    told = json.loads(outcome.payload)
    assert type(told["error_class"]) is type(told["error_message"]) is str


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RetryJob(delay=7), NOW + 7),
        (RetryJob(at=NOW + 90), NOW + 90),
        (RetryJob(at=NOW - 90), NOW),
        (DiscardJob(), Discard),
        (KillJob(), Dead),
    ],
)
def test_a_job_may_say_how_its_run_ends(error: BaseException, outcome: object, handlers: Handlers) -> None:
    got = outcome_of(error, handlers)
    if isinstance(outcome, float):
        assert isinstance(got, Retry)
        assert got.at == outcome
    else:
        assert type(got) is outcome


def broken(count: int, error: BaseException) -> float:
    raise SystemExit


@pytest.mark.parametrize(
    ("retry_in", "at"),
    [(40, NOW + 40), (lambda count, error: 100 + count, NOW + 102), (broken, NOW + 31), (lambda *_: "soon", NOW + 31)],
)
def test_the_delay_is_the_jobs_own_where_it_has_a_good_one(retry_in: Any, at: float, handlers: Handlers) -> None:
    got = outcome_of(ValueError(), handlers, registry(retry_in=retry_in), retry_count=1)
    assert isinstance(got, Retry)
    assert got.at == at


@pytest.mark.parametrize(
    ("error", "changes", "told"),
    [
        (ValueError(), {}, ["error"]),
        (ValueError(), {"retry": 0}, ["error", "death"]),
        (ValueError(), {"retry": False}, ["error", "death"]),
        (DiscardJob(), {}, ["error", "death"]),
        (KillJob(), {}, ["error", "death"]),
        (RetryJob(delay=1), {}, ["error"]),
    ],
)
def test_error_handlers_hear_of_every_failure_and_death_handlers_of_the_last(
    error: BaseException, changes: dict[str, Any], told: list[str], handlers: Handlers
) -> None:
    heard: list[tuple[str, str, BaseException]] = []
    handlers.error.append(lambda message, error: heard.append(("error", message.job_class, error)))
    handlers.death.append(lambda message, error: heard.append(("death", message.job_class, error)))
    outcome_of(error, handlers, **changes)
    assert heard == [(kind, "J", error) for kind in told]


def test_a_handler_that_raises_changes_nothing_and_the_next_one_is_told(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    heard = []

    def bad_handler(message: Message, error: BaseException) -> None:
        raise SystemExit

    handlers.error += [bad_handler, lambda message, error: heard.append("error")]
    handlers.death += [bad_handler, lambda message, error: heard.append("death")]
    assert isinstance(outcome_of(KillJob(), handlers), Dead)
    assert heard == ["error", "death"]
    assert caplog.text.count("bad_handler") >= 2


@pytest.mark.parametrize(
    ("error", "changes", "level", "line", "traced"),
    [
        (ValueError("no"), {}, "ERROR", "failed: ValueError: no; to be retried in 15 s", True),
        (ValueError("no"), {"retry": 0}, "ERROR", "failed: ValueError: no; moved to the dead set", True),
        (ValueError("no"), {"retry": False}, "ERROR", "failed: ValueError: no; not retried", True),
        (ValueError("x" * 5000), {}, "ERROR", f"failed: ValueError: {'x' * 1000}; to be retried in 15 s", True),
        (KillJob("no"), {}, "ERROR", "failed: goworkers_py.KillJob: no; moved to the dead set", True),
        # the job's own wish
        (RetryJob("soon", delay=5), {}, "WARNING", "failed: goworkers_py.RetryJob: soon; to be retried in 5 s",
         False),
        (RetryJob("soon", delay=5), {"retry": 0}, "ERROR",
         "failed: goworkers_py.RetryJob: soon; moved to the dead set", True),
        (DiscardJob("stale"), {}, "INFO", "discarded: stale", False),
        # `perform` warns of it, once a class
        (UnknownJob("J?"), {}, "INFO", "failed: goworkers_py.UnknownJob: J?; to be retried in 15 s", False),
        (UnknownJob("J?"), {"retry": 0}, "ERROR", "failed: goworkers_py.UnknownJob: J?; moved to the dead set",
         True),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_that_says_what_becomes_of_the_job(
    error: BaseException,
    changes: dict[str, Any],
    level: str,
    line: str,
    traced: bool,
    handlers: Handlers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "goworkers_py"):
        outcome_of(error, handlers, **changes)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, line)
    assert (record.exc_info is not None) == traced
    if traced:
        assert record.exc_info is not None
        assert record.exc_info[1] is error


def test_a_failure_tells_which_one_it_is_and_when_the_next_run_will_be(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    outcome_of(ValueError(), handlers, retry_count=3)
    outcome_of(ValueError(), handlers, retry=0)
    outcome_of(RetryJob(delay=1e300), handlers)
    retried, dead, beyond = (vars(record) for record in caplog.records)
    assert (retried["retry_count"], retried["next_retry_at"]) == (4, "2023-11-14T22:17:51.000Z")
    assert dead["retry_count"] == 0
    assert "next_retry_at" not in dead
    assert beyond["next_retry_at"] == "1e+300"


def test_a_wish_to_be_retried_for_a_reason_shows_the_reason(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    error = RetryJob(delay=5)
    error.__cause__ = OSError("busy")
    outcome_of(error, handlers)
    assert "OSError: busy" in caplog.text


def test_a_log_handler_that_raises_changes_nothing_for_the_job(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise LookupError("no such field")

    broken = Broken()
    logging.getLogger("goworkers_py.job").addHandler(broken)
    try:
        assert isinstance(outcome_of(ValueError(), handlers), Retry)
    finally:
        logging.getLogger("goworkers_py.job").removeHandler(broken)
    assert "a failed run could not be logged: no such field" in caplog.messages


# --- log and stats


@pytest.mark.parametrize(
    ("outcome", "line"),
    [(DONE, "done"), (UNACKNOWLEDGED, "ended unacknowledged"), (LOST, "ended with a lost lease"),
     (RETRY, "ended in failure"), (Reschedule(NOW, b"{}"), "ended to run again"), (CANCELLED, "ended as cancelled")],
)  # fmt: skip
def test_a_run_is_logged_at_its_start_and_its_end(
    outcome: Outcome, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "goworkers_py"):
        assert log_runs(Registry())(lambda message: outcome)(message()) is outcome
    start, end = caplog.records
    assert (start.getMessage(), end.getMessage()) == ("start", line)
    assert vars(end)["elapsed"] >= 0


def test_runs_are_not_logged_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "goworkers_py"):
        assert log_runs(Registry())(lambda message: DONE)(message()) is DONE
    assert not caplog.records


def test_stats_count_each_outcome_and_measure_the_durations() -> None:
    tally, pace = RunStats(), AdaptivePrefetch(None, 1)
    link = stats(tally, pace)
    for outcome in (DONE, DONE, RETRY, UNACKNOWLEDGED):
        begun = message(enqueued_at=NOW + 0.5)
        begun.begun_at = NOW + 2
        assert link(lambda message, outcome=outcome: outcome)(begun) is outcome  # type: ignore[misc]
    ((name, row),) = tally.snapshot().items()
    assert name == "J"
    assert dict(zip(RESULTS, row[:RUN_SUM], strict=True)) == {
        "done": 2, "retried": 1, "dead": 0, "discarded": 0, "requeued": 0, "unacknowledged": 1, "cancelled": 0,
        "expired": 0,
    }  # fmt: skip
    assert row[WAIT_SUM] == 4 * 1.5
    assert tally.ended == 4
    assert pace.reserve() > 0  # so short a job that it pays to hold some


# --- perform: finding the code and running it


@pytest.fixture
def seen() -> list[Any]:
    return []


def test_a_job_is_run_by_the_function_registered_for_its_class(seen: list[Any]) -> None:
    assert perform(registry(lambda *args: seen.append(args)))(message(1, "b")) is DONE
    assert seen == [(1, "b")]


def test_an_activejob_is_run_by_its_wrapped_class(seen: list[Any]) -> None:
    wrapper = Message(job("Sidekiq::ActiveJob::Wrapper", 5, wrapped="J"), "q")
    perform(registry(seen.append))(wrapper)
    assert seen == [5]


def test_a_queues_handler_gets_the_message_whatever_its_class(seen: list[Any]) -> None:
    of = registry(lambda: pytest.fail("the class must not decide"))
    of.handle("q", seen.append)
    given = message({"not": "an array"}, args=7)
    perform(of)(given)
    assert seen == [given]


def test_a_job_without_args_is_called_without_any(seen: list[Any]) -> None:
    perform(registry(lambda: seen.append("called")))(Message(b'{"class":"J"}', "q"))
    assert seen == ["called"]


@pytest.mark.parametrize("args", [{"a": 1}, "ab", 7, True])
def test_args_that_are_no_array_fail_the_job(args: Any) -> None:
    with pytest.raises(ArgumentError, match="args must be an array"):
        perform(registry())(message(args=args))


def test_an_unknown_class_fails_each_time_and_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    run = perform(Registry())
    for name in ("A::B", "A::B", "C"):
        with pytest.raises(UnknownJob, match=name):
            run(Message(job(name), "q"))
    assert [record.getMessage()[:34] for record in caplog.records] == [
        "no job is registered as 'A::B': de",
        "no job is registered as 'C': decor",
    ]


def test_not_every_class_that_strangers_name_is_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.modules[perform.__module__], "MOST_WARNED_OF", 10)
    run = perform(Registry())
    for name in ("A", *map(str, range(10)), "A"):
        with pytest.raises(UnknownJob):
            run(Message(job(name), "q"))
    assert len(caplog.records) == 12, "the first one is remembered for ever"


# --- async jobs


@pytest.fixture
def loop() -> Iterator[None]:
    """This thread plays a worker's."""
    yield
    close_own_loop()


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("form", ["function", "partial", "method", "decorated", "handler"])
def test_an_async_function_is_awaited_in_whatever_form_it_comes(form: str, seen: list[Any]) -> None:
    class Sender:
        async def send(self, what: Any) -> None:
            await asyncio.sleep(0)
            seen.append(what)

    async def send(what: Any) -> None:
        await Sender().send(what)

    @functools.wraps(send)
    def decorated(what: Any) -> Any:
        return send(what)

    functions = {
        "function": send, "partial": functools.partial(send), "method": Sender().send, "decorated": decorated,
    }  # fmt: skip
    of = registry(functions.get(form, send))
    if form == "handler":
        of.handle("q", send)
    given = message("a")
    perform(of)(given)
    assert seen == [given if form == "handler" else "a"]


def test_each_thread_runs_its_async_jobs_in_one_loop_of_its_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    run = perform(registry(note))

    def worker() -> None:
        run(message())
        run(message())
        close_own_loop()

    for _ in range(2):
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    first, again, other, other_again = loops
    assert first is again
    assert other is other_again
    assert first is not other
    assert all(loop.is_closed() for loop in loops)


@pytest.mark.usefixtures("loop")
def test_tasks_that_an_async_job_leaves_behind_are_cancelled(seen: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    async def forgotten() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def leave(fail: bool) -> None:
        seen.append(asyncio.create_task(forgotten()))
        await asyncio.sleep(0)
        if fail:
            raise ValueError("failed too")

    run = perform(registry(leave))
    run(message(False))
    assert seen[1:] == ["cancelled"]
    with pytest.raises(ValueError, match="failed too"):
        run(message(True))
    assert seen[3:] == ["cancelled"]
    assert caplog.text.count("left 1 asyncio task") == 2


@pytest.mark.usefixtures("loop")
def test_the_current_message_is_known_inside_async_jobs_and_their_tasks(seen: list[Any]) -> None:
    async def look() -> None:
        seen.append(current_message())
        seen.append(await asyncio.create_task(look_deeper()))

    async def look_deeper() -> Message | None:
        return current_message()

    given = message()
    token = set_current(given)
    try:
        perform(registry(look))(given)
    finally:
        reset_current(token)
    assert seen == [given, given]


# --- on a server: what the links leave there


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as app:
        yield app


def test_links_stand_in_the_order_prepended_ours_appended_the_queues_own(app: App, seen: list[Any]) -> None:
    def first_failure(message: Message, error: BaseException) -> None:
        seen.append("our retry")

    def last(message: Message) -> None:
        seen.append("job")
        raise ValueError

    for name in ("inner", "outer"):
        app.middleware.prepend(traced(f"prepended {name}", seen))
        app.middleware.append(traced(f"appended {name.replace('inner', '1').replace('outer', '2')}", seen))
    app.on_error(first_failure)
    app.process("q", last, 1, traced("queue 1", seen), traced("queue 2", seen))
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: "prepended outer out" in seen)
    assert seen == [
        "prepended outer in", "prepended inner in", "appended 1 in", "appended 2 in", "queue 1 in", "queue 2 in",
        "job", "our retry", "prepended inner out", "prepended outer out",
    ]  # fmt: skip


def test_a_job_that_is_not_acknowledged_stays_in_progress_and_is_back_in_its_queue_after_stop(
    app: App, redis: redis_py.Redis, seen: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_odd(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        return call_next() and message.args[0] % 2 == 0

    app.middleware.append(Link(refuse_odd))
    app.process("q", lambda message: seen.append(message.args[0]), 1)
    jids = app.enqueue_bulk("q", "J", [[1], [2], [3], [4]])
    with working(app):
        assert eventually(lambda: len(seen) == 4 and len(in_progress(redis)) == 2)
        assert set(fields(in_progress(redis), "jid")) == {jids[0], jids[2]}
        assert not queue(redis)
    assert fields(queue(redis), "jid") == [jids[0], jids[2]]
    assert not in_progress(redis)
    assert redis.get("stat:processed") == b"2"
    assert caplog.text.count("not acknowledged, stays in progress until this process stops: class=J jid=") == 2
    assert caplog.text.count("was not acknowledged, requeued: class=J jid=") == 2
    assert "not finished in time" not in caplog.text


def test_a_link_that_swallows_an_exception_has_the_job_acknowledged(
    app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def swallow(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        try:
            return call_next()
        except ZeroDivisionError as error:
            seen.append(error)
            return True

    app.middleware.append(Link(swallow))
    app.process("q", lambda message: 1 // 0, 1)
    with working(app):
        app.enqueue("q", "J", [])
        assert eventually(lambda: redis.get("stat:processed") == b"1")
    assert len(seen) == 1
    assert not redis.exists("retry", "dead", "queue:q", "stat:failed")


@pytest.mark.parametrize("place", ["prepend", "append"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_link_that_raises_has_the_job_retried(
    place: str, moment: str, app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def call(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        if moment == "before":
            raise LookupError("the link's own")
        call_next()
        raise LookupError("the link's own")

    getattr(app.middleware, place)(Link(call))
    app.process("q", lambda message: seen.append("job"), 1)
    with working(app):
        jid = app.enqueue("q", "J", [])
        assert eventually(lambda: redis.zcard("retry"))
    (entry,) = (json.loads(raw) for raw in redis.zrange("retry", 0, -1))
    assert (entry["jid"], entry["error_class"], entry["error_message"]) == (jid, "LookupError", "the link's own")
    assert seen == ([] if moment == "before" else ["job"])
    assert not in_progress(redis)
    assert not queue(redis)


def test_a_link_that_changes_the_arguments_changes_neither_what_is_acknowledged_nor_what_is_retried(
    app: App, redis: redis_py.Redis, seen: list[Any]
) -> None:
    def change(queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        message.args[0]["secret"] = "decrypted"
        message.args = [*message.args, "added"]
        return call_next()

    def run(message: Message) -> None:
        seen.append(message.args)
        if message.args[0]["fail"]:
            raise ValueError

    app.middleware.append(Link(change))
    app.process("q", run, 1)
    with working(app):
        app.enqueue("q", "J", [{"fail": False}])
        app.enqueue("q", "J", [{"fail": True}])
        assert eventually(lambda: redis.zcard("retry") and redis.get("stat:processed") == b"2")
        assert not in_progress(redis)
    assert seen == [[{"fail": fail, "secret": "decrypted"}, "added"] for fail in (False, True)]
    assert fields(redis.zrange("retry", 0, -1), "args") == [[{"fail": True}]]
