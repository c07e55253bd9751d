"""The link `retry`: exceptions become outcomes."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from link_calls import fails_with, message, registry

from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.errors import (
    DiscardJob,
    KillJob,
    LeaseLost,
    RetryJob,
    TimeLimitExceeded,
    UnknownJob,
)
from goworkers_py.core.outcome import LOST, Dead, Discard, Outcome, Retry
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.retry import RetryLink
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire.message import Message

NOW = 1_700_000_000.0


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
