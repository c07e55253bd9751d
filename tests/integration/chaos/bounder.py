"""Pushes the jobs of `bounded_jobs` and the bodies of a plain list, and notes what must come of each push."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chaos import BODY, BOUNDED
from chaos.bounded_jobs import (
    BRIEF,
    BRIEF_S,
    CROWD,
    DOOR,
    GUEST,
    LISTED,
    PACED,
    PLAIN_LIST,
    RANKED,
    RATE_PER_S,
    ROOM,
    SOLE,
    STARTED,
    UNIQUE_FOR_S,
    declare,
)
from chaos.shaper import PRIORITIES, REFUSALS
from goworkers_py import App

KEYS = 4
MOST_PACED = 40  # at once: more than may begin
LOCK_S = {SOLE: UNIQUE_FOR_S, BRIEF: BRIEF_S, STARTED: UNIQUE_FOR_S}
# After an outage, jobs that must wait for the long ones come so often, and for so long.
AGAIN_S, LONGER_S = 0.4, 8.0


class Locked(NamedTuple):
    """A push of a unique job, which got its lock. Times are monotonic."""

    jid: str
    kind: str
    key: str
    began: float
    ended: float
    call: int


@dataclass
class Pushed:
    """Written by the bounder, and read at the end."""

    sure: dict[str, str] = field(default_factory=dict)  # jid, or the name of a body: kind
    began: dict[str, float] = field(default_factory=dict)  # when the push of a jid has begun
    locked: list[Locked] = field(default_factory=list)
    refused: int = 0  # because of a lock
    unsure: int = 0


class Bounder(threading.Thread):
    """Never pushes anything twice: where it cannot know whether a push was done, the job is unsure."""

    def __init__(self, url: str, seed: int, pushes_per_s: float) -> None:
        super().__init__(name="bounder", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.pushed = Pushed()
        self._dice = random.Random(f"{seed}:bounder")
        self._pause_s = 1 / pushes_per_s
        self._paced_share = min(1.0, RATE_PER_S * 2 * self._pause_s / MOST_PACED)
        self._app = App()
        self._app.configure(broker=url)
        self._jobs = declare(self._app, _not_here, _not_here)
        self._redis = redis.Redis.from_url(url, socket_timeout=1.5, retry=Retry(NoBackoff(), 0))
        self._number = 0
        self._outage: tuple[float, float] | None = None  # told by another thread, once
        self._long_are_pushed = False
        self._again_at = 0.0

    def expect_outage(self, began: float, ended: float) -> None:
        self._outage = began, ended

    def run(self) -> None:
        kinds = [
            self._push_crowd, self._push_room, self._push_door, self._push_sole, self._push_several, self._push_started,
            self._push_ranked, self._push_body, self._push_guest,
        ]  # fmt: skip
        try:
            while not self.stopping.wait(self._pause_s):
                if self._outage is not None:
                    self._push_around(*self._outage)
                self._dice.choice(kinds)()
                if self._dice.random() < self._paced_share:
                    self._push_paced()
        except BaseException as error:
            self.error = error
        finally:
            self._app.broker.close()
            self._redis.close()

    def _push_around(self, began: float, ended: float) -> None:
        """Before the outage, jobs that last into it or beyond it, and others that wait for them. After it, jobs whose
        locks the former must still have."""
        dice, now = self._dice, time.monotonic()
        if not self._long_are_pushed and now < began:
            self._long_are_pushed = True
            for number in range(2):
                while_it, after = ended - dice.uniform(5, 20), ended + dice.uniform(3, 10)
                self._push_crowd(f"long{number}", 0.0, after)
                self._push_crowd(f"long{number}", 0.0, 0.0)
                self._push_brief(f"long{number}", dice.choice([while_it, after]) if number else after)
                self._push_room(until=after)
                self._push_guest(ROOM, until=dice.choice([while_it, after]))
            self._push_crowd("long2", 0.0, ended + dice.uniform(3, 10))
            self._push_door(until=ended + dice.uniform(-10, 10))
            self._push_guest(DOOR, until=ended + 3)
        if now > ended - 1 and now > self._again_at:
            self._again_at = now + AGAIN_S
            self._push_brief(f"long{dice.randrange(2)}", 0.0)
            if now < ended + LONGER_S:
                self._push_crowd(seconds=1.0)
                self._push_room(seconds=1.0)

    def _push_crowd(self, key: str = "", seconds: float | None = None, until: float = 0.0) -> None:
        key, seconds = key or self._key(), self._seconds() if seconds is None else seconds
        self._push(CROWD, lambda jid: self._jobs.crowd.set(jid=jid).enqueue(key, seconds, until))

    def _push_room(self, seconds: float | None = None, until: float = 0.0) -> None:
        seconds = self._seconds() if seconds is None else seconds
        self._push(ROOM, lambda jid: self._jobs.room.set(jid=jid).enqueue(seconds, until))

    def _push_door(self, until: float = 0.0) -> None:
        self._push(DOOR, lambda jid: self._jobs.door.set(jid=jid).enqueue(self._seconds(), until))

    def _push_guest(self, kind: str = "", until: float = 0.0) -> None:
        kind = kind or self._dice.choice([ROOM, DOOR])
        self._push(GUEST, lambda jid: self._jobs.guest.set(jid=jid).enqueue(kind, self._seconds(), until))

    def _push_ranked(self) -> None:
        priority = self._dice.choice(PRIORITIES)
        self._push(RANKED, lambda jid: self._jobs.ranked.set(jid=jid, priority=priority).enqueue(self._seconds()))

    def _push_paced(self) -> None:
        began = time.monotonic()
        with suppress(*REFUSALS):
            for jid in self._jobs.paced.enqueue_bulk([[] for _ in range(self._dice.randint(1, MOST_PACED))]):
                self._note_sure(str(jid), PACED, began)

    def _push_sole(self) -> None:
        key, fails = self._key(), self._dice.random() < 0.2
        self._push(SOLE, lambda jid: self._jobs.sole.set(jid=jid).enqueue(key, self._seconds(), fails), key)

    def _push_started(self) -> None:
        key = self._key()
        self._push(STARTED, lambda jid: self._jobs.started.set(jid=jid).enqueue(key, self._seconds()), key)

    def _push_brief(self, key: str, until: float) -> None:
        self._push(BRIEF, lambda jid: self._jobs.brief.set(jid=jid).enqueue(key, until), key)

    def _push_several(self) -> None:
        """Unique jobs in one call, some with the same key."""
        keys = [self._key() for _ in range(self._dice.randint(2, 4))]
        began, call = time.monotonic(), self._next()
        try:
            jids = self._jobs.sole.enqueue_bulk([[key, self._seconds(), False] for key in keys])
        except REFUSALS:
            self.pushed.unsure += len(keys)
            return
        ended = time.monotonic()
        for key, jid in zip(keys, jids, strict=True):
            if jid is None:
                self.pushed.refused += 1
            else:
                self._note_sure(jid, SOLE, began)
                self.pushed.locked.append(Locked(jid, SOLE, key, began, ended, call))

    def _push_body(self) -> None:
        name = f"{BODY}{self._next():07}"
        body = json.dumps({"name": name, "fails": self._dice.random() < 0.1})
        began = time.monotonic()
        try:
            self._redis.lpush(PLAIN_LIST, body)
        except redis.RedisError:
            self.pushed.unsure += 1
            return
        self._note_sure(name, LISTED, began)

    def _push(self, kind: str, push: Callable[[str], str | None], key: str = "") -> None:
        call = self._next()
        jid, began = f"{BOUNDED}{call:07}", time.monotonic()
        self.pushed.began[jid] = began
        try:
            if push(jid) is None:
                self.pushed.refused += 1
                return
        except REFUSALS:
            self.pushed.unsure += 1
            return
        self._note_sure(jid, kind, began)
        if kind in LOCK_S:
            self.pushed.locked.append(Locked(jid, kind, key, began, time.monotonic(), call))

    def _note_sure(self, jid: str, kind: str, began: float) -> None:
        self.pushed.sure[jid], self.pushed.began[jid] = kind, began

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _key(self) -> str:
        return f"key{self._dice.randrange(KEYS)}"

    def _seconds(self) -> float:
        return self._dice.uniform(0, 1.0) if self._dice.random() < 0.2 else self._dice.uniform(0, 0.03)


def _not_here(*words: Any) -> Any:
    return nullcontext(0)
