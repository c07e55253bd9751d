"""A job that is cancelled while it runs: the exception strikes its code, and nothing after it."""

from __future__ import annotations

import threading
import time

import pytest

from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.errors import JobCancelled
from goworkers_py.core.outcome import DONE
from goworkers_py.core.strikes import target_of
from goworkers_py.links import interruption
from goworkers_py.links.perform import perform
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message


def message() -> Message:
    return Message(b'{"class":"J","args":[],"jid":"1"}', "q")


def running(function: object) -> object:
    registry = Registry()
    registry.add(JobSpec("J", function))  # type: ignore[arg-type]
    return perform(registry)


def test_an_exception_that_is_on_its_way_is_met_before_the_run_ends() -> None:
    began, go_on = threading.Event(), threading.Event()
    job, told = message(), []

    def function() -> None:
        began.set()
        go_on.wait(30)

    def worker() -> None:
        try:
            running(function)(job)  # type: ignore[operator]
            told.append("ended")
        except JobCancelled:
            told.append("struck in the run")
        try:
            for _ in range(200):
                time.sleep(0.001)
        except JobCancelled:
            told.append("struck after it")

    thread = threading.Thread(target=worker)
    thread.start()
    assert began.wait(30)
    job.cancel = CancelRequest(retry=False)
    with (target := target_of(thread.ident or 0)).held_up():  # as `cancel`, in the middle of its step
        go_on.set()
        time.sleep(0.05)
        target.throw(JobCancelled)
    thread.join(30)
    assert told == ["struck in the run"]


def test_a_job_that_is_cancelled_before_its_code_begins_does_not_begin() -> None:
    job, ran = message(), []
    interruption.cancel(job, CancelRequest(retry=False), interruptible=True)
    with pytest.raises(JobCancelled):
        running(lambda: ran.append(1))(job)  # type: ignore[operator]
    assert ran == []


def test_a_job_that_has_ended_is_not_struck() -> None:
    job = message()
    assert running(lambda: None)(job) is DONE  # type: ignore[operator]
    interruption.cancel(job, CancelRequest(retry=False), interruptible=True)
    for _ in range(100):
        time.sleep(0.0001)
