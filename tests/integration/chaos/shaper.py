"""Pushes the jobs of `shaped_jobs`, and knows what must come of each push."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from chaos import SHAPED
from chaos.shaped_jobs import ONE, declare
from goworkers_py import App
from goworkers_py.core.errors import BrokerError

KEYS = 5
LONGEST_S = 1.0


@dataclass
class Pushed:
    """Written by the shaper, and read at the end."""

    sure: dict[str, str] = field(default_factory=dict)  # jid: kind
    unsure: dict[str, str] = field(default_factory=dict)
    refused: int = 0  # because of a lock


class Shaper(threading.Thread):
    """Never pushes anything twice: where it cannot know whether a push was done, the job is unsure."""

    def __init__(self, url: str, seed: int, pushes_per_s: float) -> None:
        super().__init__(name="shaper", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.pushed = Pushed()
        self._dice = random.Random(f"{seed}:shaper")
        self._pause_s = 1 / pushes_per_s
        self._app = App()
        self._app.configure(broker=url)
        self._jobs = declare(self._app, lambda *words: nullcontext())
        self._number = 0

    def run(self) -> None:
        kinds = [self._push_one]
        try:
            while not self.stopping.wait(self._pause_s):
                self._dice.choice(kinds)()
        except BaseException as error:
            self.error = error
        finally:
            self._app.broker.close()

    def _push_one(self) -> None:
        self._push(ONE, lambda jid: self._jobs.one.set(jid=jid).enqueue(self._key(), self._seconds()))

    def _push(self, kind: str, push: Callable[[str], str | None]) -> None:
        self._number += 1
        jid = f"{SHAPED}{self._number:07}"
        self.pushed.unsure[jid] = kind
        try:
            if push(jid) is None:
                self.pushed.refused += 1
                return
        except BrokerError:
            return
        self.pushed.sure[jid] = self.pushed.unsure.pop(jid)

    def _key(self) -> str:
        return f"key{self._dice.randrange(KEYS)}"

    def _seconds(self) -> float:
        return self._dice.uniform(0, LONGEST_S) if self._dice.random() < 0.2 else self._dice.uniform(0, 0.03)
