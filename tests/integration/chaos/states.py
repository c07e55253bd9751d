"""Pushes jobs whose states are judged, cancels some of them, and asks at the end for the state of each."""

from __future__ import annotations

import queue
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos import STATED
from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.api.client import Client
from goworkers_py.api.request import PushRequest
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ArgumentError, BrokerError, DuplicateJob
from goworkers_py.features.cancelling.admin import PeopleCancel
from goworkers_py.features.tracking.contract import Records

RETAIN_S = 3_600
STEP_S, CHECKPOINT_S = 0.03, 0.2
CANCEL_TIMEOUT_S = 0.3
NEVER_SUCCEEDS = 99
KINDS = ("plain", "plain", "cancelled", "cancelled", "doubled", "expiring", "iterable")


class Push(NamedTuple):
    """A job, and what it was told to do."""

    jid: str
    retained: bool = True  # else it is tracked only
    dies_of: str = ""  # the class of the error of its last run; empty: it succeeds in the end
    last_attempt: int = 0
    expires_at: float = 0.0  # epoch seconds
    steps: int = 0  # of an iterable job
    doubled: bool = False  # pushed twice, as by a client of Ruby whose first reply was lost; without a record
    sure: bool = True  # False: nobody knows whether it was pushed
    at: float = 0.0  # monotonic


class Asked(NamedTuple):
    """A request to cancel a job, and its answer. Times are monotonic."""

    at: float
    retry: bool
    answer: str
    answered_at: float


@dataclass
class Pushed:
    """Written by the pusher and by the canceller, each its own field, and read at the end."""

    jobs: dict[str, Push] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)


class Seen(NamedTuple):
    """What the broker tells of a job at the end."""

    state: str
    verified: bool = True
    error_class: str = ""
    error_message: str = ""
    result: str = ""


class Pusher(threading.Thread):
    """A push that fails is tried once more, under the same jid: the job must come to be there once."""

    def __init__(
        self, url: str, seed: int, jobs_per_s: float, queue_name: str = "mixed", retained_share: float = 0.7
    ) -> None:
        super().__init__(name="pusher of stated jobs", daemon=True)
        self._queue, self._retained_share = queue_name, retained_share
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.pushed = Pushed()
        self.to_cancel: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._random = random.Random(f"{seed}:stated")
        self._pause_s = 1 / jobs_per_s
        self._broker = RedisBroker(url, Config())
        self._client = Client(lambda: self._broker)

    def run(self) -> None:
        number = 0
        try:
            while not self.stopping.wait(self._pause_s):
                number += 1
                self._push(f"{STATED}{number:07}")
        except BaseException as error:
            self.error = error
        finally:
            self._broker.close()

    def _push(self, jid: str) -> None:
        dice, kind = self._random, self._random.choice(KINDS)
        retained = dice.random() < self._retained_share
        push = Push(jid, retained, doubled=kind == "doubled", at=time.monotonic())
        options = _options(push)
        if dice.random() < 0.2:
            options = options.replaced(at=time.time() + dice.uniform(0.1, 5.0))
        if kind == "iterable":
            push = push._replace(steps=dice.randint(1, 60))
            job_class, args = "Steps", [push.steps, STEP_S]
            options = options.replaced(checkpoint=CHECKPOINT_S)
            if dice.random() < 0.5:
                options = options.replaced(time_slice=dice.uniform(0.1, 1.0))
        else:
            failures = dice.randint(1, 2) if dice.random() < 0.15 else 0
            dies = dice.random() < 0.1
            push = push._replace(dies_of="KillJob" if dies else "", last_attempt=failures)
            if dice.random() < 0.05:
                push, failures = push._replace(dies_of="Mishap", last_attempt=1), NEVER_SUCCEEDS
                options = options.replaced(retry=1)
            seconds = dice.uniform(0.0, 3.0) if kind in ("cancelled", "doubled") else dice.uniform(0, 0.1)
            job_class, args = "Stated", [seconds, failures, dies]
        if kind == "expiring":
            push = push._replace(expires_at=time.time() + dice.uniform(0.1, 4.0))
            options = options.replaced(expires_at=push.expires_at)
        needs = frozenset({"iterate"} if push.steps else ())  # as a push through the job's function says it
        pushes = [self._is_pushed(job_class, args, options, needs) for _ in range(1 + push.doubled)]
        self.pushed.jobs[jid] = push._replace(sure=all(pushes))
        if kind in ("cancelled", "doubled") or dice.random() < 0.05:
            self.to_cancel.put(jid)

    def _is_pushed(self, job_class: str, args: list[float], options: EnqueueOptions, needs: frozenset[str]) -> bool:
        for _ in range(2):
            with suppress(BrokerError, ArgumentError):  # only workers of a former release may be there
                with suppress(DuplicateJob):  # the first try had succeeded, and its reply was lost
                    self._client.push_all(PushRequest(self._queue, job_class, [args], options, needs=needs))
                return True
        return False


def _options(push: Push) -> EnqueueOptions:
    options = EnqueueOptions(jid=push.jid)
    if push.doubled:
        return options
    return options.replaced(retain=RETAIN_S) if push.retained else options.replaced(track=True)


class CancelAsker(threading.Thread):
    """Cancels jobs some time after their push, wherever they are then."""

    def __init__(self, url: str, seed: int, to_cancel: queue.SimpleQueue[str], pushed: Pushed) -> None:
        super().__init__(name="canceller of stated jobs", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._random = random.Random(f"{seed}:cancels")
        self._to_cancel, self._pushed = to_cancel, pushed
        self._waiting: list[tuple[float, str]] = []  # this thread only
        self._broker = RedisBroker(url, Config())

    def run(self) -> None:
        try:
            while not self.stopping.wait(0.02):
                self._collect()
                for one in [one for one in self._waiting if one[0] <= time.monotonic()][:1]:
                    self._waiting.remove(one)
                    self._cancel(one[1])
        except BaseException as error:
            self.error = error
        finally:
            self._broker.close()

    def _collect(self) -> None:
        with suppress(queue.Empty):
            while jid := self._to_cancel.get_nowait():
                self._waiting.append((time.monotonic() + self._random.uniform(0, 3.0), jid))

    def _cancel(self, jid: str) -> None:
        retry, at = self._random.random() < 0.2, time.monotonic()
        # Told before it is asked: the request may be done though its reply is lost.
        self._pushed.asked[jid] = asked = Asked(at, retry, "no answer", at)
        with suppress(BrokerError):
            answer = PeopleCancel(self._broker, lambda message: None).cancel(jid, retry, CANCEL_TIMEOUT_S)
            self._pushed.asked[jid] = asked._replace(answer=answer, answered_at=time.monotonic())


def look_at_all(url: str, pushed: Pushed) -> dict[str, Seen]:
    """What `status` tells of each job at the end, and its result."""
    broker = RedisBroker(url, Config())
    try:
        lookup = JobLookup(broker)
        return {jid: _look(broker, lookup, jid) for jid in pushed.jobs}
    finally:
        broker.close()


def _look(broker: RedisBroker, lookup: JobLookup, jid: str) -> Seen:
    status, record = lookup.status(jid), broker.require_part(Records).record(jid)
    result = "" if record is None or record.result is None else record.result.decode().strip('"')
    return Seen(status.state, status.verified, status.error_class, status.error_message, result)
