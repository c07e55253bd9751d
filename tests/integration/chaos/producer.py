"""Pushes jobs of all kinds, as fast as it is told to, through a network that is as bad as the others'."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chaos import JOB, KILLER, ODD, PARENT
from goworkers_py.api.client import Client
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError

LONGEST_JOB_S, LONGEST_PARENT_S, LONGEST_CHILD_S = 15.0, 6.0, 3.0
LONGEST_DELAY_S = 15.0
# The first of them come soon, so that a short run has some too.
KILLER_EVERY, FIRST_KILLER = 1500, 60
ODD_EVERY = 50
ODD_PAYLOADS = (
    '["{jid}"]',
    '"{jid}"',
    "no JSON: {jid}",
    r'{"class":"Task","args":[0.01,0],"jid":"{jid}","retry":true,"note":"\ud83d"}',
    '{"class":"Task","args":[0.01,0],"jid":"{jid}","retry":true,"recovered":{"count":1,"since":1e999}}',
)
PARENT_CLASSES = ("Whole", "AsyncWhole", "Block")
PARENT_SHARE, MOST_CHILDREN = 0.12, 5
LATE_S = 5.0
LIMIT_S = 1.0  # for the parents that run into their time limit, beside the time that they take


class Producer(threading.Thread):
    """Never pushes anything twice: where it cannot know whether a push was done, the job is unsure."""

    def __init__(self, url: str, seed: int, jobs_per_s: float, directory: Path, killers_after: float = 0.0) -> None:
        """`killers_after`: monotonic."""
        super().__init__(name="producer", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._random = random.Random(f"{seed}:producer")
        self._jobs_per_s = jobs_per_s
        self._killers_after = killers_after
        self._notes = (directory / "pushes").open("ab", buffering=0)
        self._broker = RedisBroker(url, Config())
        self._client = Client(lambda: self._broker)
        self._redis = redis.Redis.from_url(url, socket_timeout=1.5, retry=Retry(NoBackoff(), 0))

    def run(self) -> None:
        due, number, killer_due = time.monotonic(), 0, False
        try:
            while not self.stopping.wait(max(0.0, due - time.monotonic())):
                # After an outage it makes up for LATE_S, not for all that it could not push.
                due, number = max(due + 1 / self._jobs_per_s, time.monotonic() - LATE_S), number + 1
                killer_due = killer_due or number % KILLER_EVERY == FIRST_KILLER
                if killer_due and time.monotonic() > self._killers_after:
                    killer_due = not self._push_killer(f"{KILLER}{number:07}")
                elif number % ODD_EVERY == 0:
                    self._push_odd(f"{ODD}{number:07}", ODD_PAYLOADS[number // ODD_EVERY % len(ODD_PAYLOADS)])
                elif self._random.random() < PARENT_SHARE:
                    self._push_parent(f"{PARENT}{number:07}")
                else:
                    self._push(f"{JOB}{number:07}")
        except BaseException as error:
            self.error = error
        finally:
            self._broker.close()
            self._redis.close()
            self._notes.close()

    def _push(self, jid: str) -> None:
        queue, seconds, failures, delay_s = self._kind(LONGEST_JOB_S)
        at = time.time() + delay_s if delay_s else None
        options = EnqueueOptions(jid=jid, at=at)
        self._account(jid, failures, lambda: self._client.push(queue, "Task", [seconds, failures], options))

    def _push_killer(self, jid: str) -> bool:
        """False where nobody knows whether it was pushed."""
        job_class, args = self._random.choice([("Killer", []), ("KillerParent", [self._children(1)])])
        return self._account(jid, 0, lambda: self._client.push("mixed", job_class, args, EnqueueOptions(jid=jid)))

    def _push_parent(self, jid: str) -> None:
        dice = self._random
        children = self._children(0)
        # Of each failing attempt: how many children it pushes before it raises; None if it runs into its time limit.
        mishaps = [
            dice.choice([None, *range(len(children) + 1)])
            for _ in range(dice.randint(1, 2) if dice.random() < 0.3 else 0)
        ]
        # Some still run when their process is stopped, or loses its lease: then another process ends them.
        seconds = dice.uniform(0.5, LONGEST_PARENT_S) if dice.random() < 0.2 else dice.uniform(0, 0.03)
        options = EnqueueOptions(jid=jid, timeout=seconds + LIMIT_S if None in mishaps else None)
        args = [children, mishaps, seconds]
        queue, job_class = dice.choice(["short", "mixed", "long"]), dice.choice(PARENT_CLASSES)
        self._account(jid, len(mishaps), lambda: self._client.push(queue, job_class, args, options))

    def _children(self, fewest: int) -> list[list[str | float]]:
        """Of each child: its queue, seconds, failures and delay."""
        return [list(self._kind(LONGEST_CHILD_S)) for _ in range(self._random.randint(fewest, MOST_CHILDREN))]

    def _push_odd(self, jid: str, payload: str) -> None:
        self._account(jid, 0, lambda: self._redis.lpush("queue:mixed", payload.replace("{jid}", jid)))

    def _account(self, jid: str, failures: int, push: Callable[[], object]) -> bool:
        self._note("pushes", jid, failures)
        try:
            push()
        except (BrokerError, redis.RedisError):
            self._note("unsure", jid, failures)
            return False
        self._note("pushed", jid, failures)
        return True

    def _kind(self, longest_s: float) -> tuple[str, float, int, float]:
        """Queue, seconds, failures before it succeeds, delay."""
        dice = self._random
        failures = dice.randint(1, 3) if dice.random() < 0.08 else 0
        delay_s = dice.uniform(0.1, LONGEST_DELAY_S) if dice.random() < 0.15 else 0.0
        length = dice.random()
        if length < 0.85:
            return dice.choice(["short", "mixed"]), dice.uniform(0, 0.03), failures, delay_s
        if length < 0.985:
            return "mixed", dice.uniform(0.05, 1.0), failures, delay_s
        return dice.choice(["long", "mixed"]), dice.uniform(1.0, longest_s), failures, delay_s

    def _note(self, word: str, jid: str, failures: int) -> None:
        os.write(self._notes.fileno(), f"{word} {time.monotonic():.6f} {jid} {failures}\n".encode())
