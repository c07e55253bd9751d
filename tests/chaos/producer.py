"""Pushes jobs of all kinds, as fast as it is told to, through a network that is as bad as the others'."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

from goworkers_py.brokers.redis import RedisBroker
from goworkers_py.client import Client
from goworkers_py.connection import Connections
from goworkers_py.errors import BrokerError
from goworkers_py.keys import Keys
from goworkers_py.options import EnqueueOptions

LONGEST_JOB_S = 15.0
LONGEST_DELAY_S = 15.0


class Producer(threading.Thread):
    """Never pushes anything twice: where it cannot know whether a push was done, the job is unsure."""

    def __init__(self, url: str, seed: int, jobs_per_s: float, directory: Path) -> None:
        super().__init__(name="producer", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._random = random.Random(f"{seed}:producer")
        self._jobs_per_s = jobs_per_s
        self._notes = (directory / "pushes").open("ab", buffering=0)
        self._broker = RedisBroker(Connections(url, "producer"), Keys())
        self._client = Client(lambda: self._broker)

    def run(self) -> None:
        began, number = time.monotonic(), 0
        try:
            while not self.stopping.wait(max(0.0, began + number / self._jobs_per_s - time.monotonic())):
                number += 1
                self._push(f"job{number:07}")
        except BaseException as error:
            self.error = error
        finally:
            self._broker.close()
            self._notes.close()

    def _push(self, jid: str) -> None:
        queue, seconds, failures, delay_s = self._kind()
        at = time.time() + delay_s if delay_s else None
        self._note("pushes", jid, failures)
        try:
            self._client.push(queue, "Task", [seconds, failures], EnqueueOptions(jid=jid, at=at))
        except BrokerError:
            self._note("unsure", jid, failures)
        else:
            self._note("pushed", jid, failures)

    def _kind(self) -> tuple[str, float, int, float]:
        """Queue, seconds, failures before it succeeds, delay."""
        dice = self._random
        failures = dice.randint(1, 3) if dice.random() < 0.08 else 0
        delay_s = dice.uniform(0.1, LONGEST_DELAY_S) if dice.random() < 0.15 else 0.0
        length = dice.random()
        if length < 0.85:
            return dice.choice(["short", "mixed"]), dice.uniform(0, 0.03), failures, delay_s
        if length < 0.985:
            return "mixed", dice.uniform(0.05, 1.0), failures, delay_s
        return dice.choice(["long", "mixed"]), dice.uniform(1.0, LONGEST_JOB_S), failures, delay_s

    def _note(self, word: str, jid: str, failures: int) -> None:
        os.write(self._notes.fileno(), f"{word} {time.monotonic():.6f} {jid} {failures}\n".encode())
