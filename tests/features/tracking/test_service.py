"""The thread that writes that tracked jobs run, and how far they have got."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from waiting import eventually

from goworkers_py.config.options import Config
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import BEGUN, ENDED, Delivery
from goworkers_py.core.outcome import DONE, Done, Outcome
from goworkers_py.features.tracking.contract import RunningMark
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.features.tracking.run import TrackedRuns
from goworkers_py.features.tracking.service import MOST_TRIES, Tracker
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire.message import Message


class Marks:
    """Records that keep what it was asked to write. `answer` says whether it was written."""

    def __init__(self) -> None:
        self.told: list[RunningMark] = []
        self.answer: Callable[[RunningMark], bool] = lambda mark: True

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        self.told += marks
        return [self.answer(mark) for mark in marks]

    def of(self, jid: str) -> list[tuple[bool, str | None]]:
        return [(mark.first, mark.progress) for mark in self.told if mark.job.jid == jid]


class AtWork:
    def __init__(self) -> None:
        self.marks = Marks()
        self.running: dict[str, Delivery] = {}
        records: Any = self.marks
        tracking = Tracking(Registry(), Config(), time.time)
        self.shown: list[Delivery] = []
        self.tracker = Tracker(records, lambda: list(self.running.values()), Outage("test"), self.shown.extend)
        self.runs = TrackedRuns(tracking, self.tracker)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.tracker.start()
        try:
            yield
        finally:
            self.tracker.stop()
            assert self.tracker.join(Deadline(30))

    def run(self, jid: str, job: Callable[[Message], Outcome], track: bool = True) -> Outcome:
        """As a worker does."""
        raw = b'{"class":"J","args":[],"jid":"%s"%s}' % (jid.encode(), b',"track":true' if track else b"")
        delivery = Delivery(raw, "q", "me")
        delivery.stage, delivery.begun_at, self.running[jid] = BEGUN, time.time(), delivery
        message = Message(raw, "q")
        try:
            message.delivery = delivery
            self.runs.begin(message, delivery)
            return self.runs.ended(message, job(message))
        finally:
            delivery.stage = ENDED
            del self.running[jid]


def marked(at: AtWork) -> Callable[[Message], Outcome]:
    """A job that runs until it is marked."""

    def job(message: Message) -> Outcome:
        assert eventually(lambda: bool(at.marks.of(message.jid)))
        return DONE

    return job


@pytest.fixture
def at() -> AtWork:
    return AtWork()


def test_a_job_that_runs_is_marked_once(at: AtWork) -> None:
    go_on = threading.Event()

    def job(message: Message) -> Outcome:
        assert eventually(lambda: at.marks.of("a") == [(True, None)])
        time.sleep(0.1)  # several looks
        go_on.set()
        return DONE

    with at.at_work():
        outcome = at.run("a", job)
    assert go_on.is_set()
    assert at.marks.of("a") == [(True, None)]
    assert isinstance(outcome, Done)
    assert [effect.kind for effect in outcome.effects] == ["state"]


def test_a_job_that_has_ended_by_then_is_not_marked(at: AtWork) -> None:
    with at.at_work():
        for number in range(200):
            at.run(f"short{number}", lambda message: DONE)
        at.run("long", marked(at))
    assert len(at.marks.told) < 20


def test_a_job_that_is_not_tracked_is_not_marked(at: AtWork) -> None:
    with at.at_work():
        assert at.run("a", lambda message: DONE, track=False) is DONE
    assert at.marks.told == []


def test_the_latest_progress_is_written(at: AtWork) -> None:
    def job(message: Message) -> Outcome:
        for step in range(1, 4):
            message.progress(step, 3)
        stack.enter_context(at.at_work())  # now, so that it looks for the first time at the third step
        assert eventually(lambda: bool(at.marks.of("a")))
        message.progress(3, 3, "ready")
        assert eventually(lambda: '"ready"' in (at.marks.of("a")[-1][1] or ""))
        return DONE

    with ExitStack() as stack:
        at.run("a", job)
    assert len(at.marks.of("a")) == 2
    assert at.marks.of("a")[1][0] is False


def test_a_mark_that_is_not_written_is_tried_again_and_given_up(at: AtWork) -> None:
    at.marks.answer = lambda mark: mark.job.jid != "never"

    def job(message: Message) -> Outcome:
        assert eventually(lambda: len(at.marks.of("never")) == MOST_TRIES)
        time.sleep(0.15)
        return DONE

    with at.at_work():
        at.run("never", job)
    assert at.marks.of("never") == [(True, None)] * MOST_TRIES


def test_progress_that_is_not_written_is_given_up_until_the_job_tells_more(at: AtWork) -> None:
    at.marks.answer = lambda mark: mark.first or "2.0" in (mark.progress or "")

    def job(message: Message) -> Outcome:
        assert eventually(lambda: len(at.marks.of("a")) == 1)
        message.progress(1)
        # The tracker may count the first mark, which the job saw before it was counted, as one of the tries.
        assert eventually(lambda: len(at.marks.of("a")) >= MOST_TRIES)
        time.sleep(0.15)
        tried = len(at.marks.of("a"))
        assert tried <= 1 + MOST_TRIES
        message.progress(2)
        assert eventually(lambda: len(at.marks.of("a")) == tried + 1)
        return DONE

    with at.at_work():
        at.run("a", job)


def test_those_who_look_for_cancels_are_told_of_each_job_once(at: AtWork) -> None:
    def job(message: Message) -> Outcome:
        assert eventually(lambda: len(at.shown) == 1)
        message.progress(1)
        assert eventually(lambda: len(at.marks.of("a")) == 2)
        return DONE

    with at.at_work():
        at.run("a", job)
    assert len(at.shown) == 1


def test_a_job_that_begins_while_the_thread_falls_asleep_is_marked(at: AtWork) -> None:
    with at.at_work():
        for number in range(30):
            at.run(f"j{number}", marked(at))
    assert len({mark.job.jid for mark in at.marks.told}) == 30
