"""Pushes the jobs of `shaped_jobs`, and knows what must come of each push."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from chaos import SHAPED
from chaos.shaped_jobs import LINED, ONE, TWO, declare
from goworkers_py import PREVIOUS, App
from goworkers_py.core.errors import ArgumentError, BrokerError

KEYS = 5
LONGEST_S = 1.0
MOST_PARTS = 8
EVENTS = ("success", "complete", "death")
PRIORITIES = ("high", "normal", "low")
# Only workers of a former release may be there.
REFUSALS = (BrokerError, ArgumentError)


@dataclass
class Pushed:
    """Written by the shaper, and read at the end."""

    sure: dict[str, str] = field(default_factory=dict)  # jid: kind
    unsure: dict[str, str] = field(default_factory=dict)
    refused: int = 0  # because of a lock
    members: dict[int, bool] = field(default_factory=dict)  # of groups, by number: whether it was surely pushed
    batches: dict[str, int] = field(default_factory=dict)  # by name: how many parts; 0: nobody knows
    chains: dict[str, int] = field(default_factory=dict)  # by name: how many links, with parallel ones; 0: nobody knows


class Shaper(threading.Thread):
    """Never pushes anything twice: where it cannot know whether a push was done, the job is unsure."""

    def __init__(self, url: str, seed: int, pushes_per_s: float, *, priorities: bool = False) -> None:
        """`priorities`: unique jobs have one. A pool with weights cannot work them."""
        super().__init__(name="shaper", daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.pushed = Pushed()
        self._dice = random.Random(f"{seed}:shaper")
        self._pause_s = 1 / pushes_per_s
        self._priorities = priorities
        self._app = App()
        self._app.configure(broker=url)
        self._jobs = declare(self._app, lambda *words: nullcontext(0))
        self._number = 0

    def run(self) -> None:
        kinds = [
            self._push_one, self._push_two, self._push_lined, self._push_member, self._push_batch, self._push_chain,
        ]  # fmt: skip
        try:
            while not self.stopping.wait(self._pause_s):
                self._dice.choice(kinds)()
        except BaseException as error:
            self.error = error
        finally:
            self._app.broker.close()

    def _push_one(self) -> None:
        told = {"priority": self._dice.choice(PRIORITIES)} if self._priorities else {}
        self._push(ONE, lambda jid: self._jobs.one.set(jid=jid, **told).enqueue(self._key(), self._seconds()))

    def _push_two(self) -> None:
        self._push(TWO, lambda jid: self._jobs.two.set(jid=jid).enqueue(self._key(), self._seconds()))

    def _push_lined(self) -> None:
        key, seconds, fails = self._key(), self._seconds(), self._dice.random() < 0.1
        self._push(LINED, lambda jid: self._jobs.lined.set(jid=jid).enqueue(key, seconds, fails))

    def _push_chain(self) -> None:
        """Of four links, of which the second one has several parts."""
        self._number += 1
        name, link = f"chain{self._number}", self._jobs.link
        parts = self._dice.randint(1, 3)
        fails = [self._dice.random() < 0.1 for _ in range(parts + 3)]
        links = [link.s(name, number, fail, PREVIOUS if number else None) for number, fail in enumerate(fails)]
        self.pushed.chains[name] = 0
        with suppress(*REFUSALS):
            self._app.chain(links[0], self._app.parallel(*links[1:-2]), *links[-2:]).enqueue()
            self.pushed.chains[name] = len(links)

    def _push_member(self) -> None:
        self._number += 1
        number, member = self._number, self._jobs.gathered.set(group=self._key())
        self.pushed.members[number] = False
        with suppress(*REFUSALS):
            if self._dice.random() < 0.2:
                member.enqueue_in(self._dice.uniform(0.1, 3.0), [number])
            else:
                member.enqueue([number])
            self.pushed.members[number] = True

    def _push_batch(self) -> None:
        self._number += 1
        name, parts = f"batch{self._number}", self._dice.randint(1, MOST_PARTS)
        success, complete, death = (self._jobs.callback.s(name, event) for event in EVENTS)
        self.pushed.batches[name] = 0
        with suppress(*REFUSALS):
            with self._app.batch(name, on_success=success, on_complete=complete, on_death=death):
                for number in range(parts):
                    self._jobs.part.enqueue(name, number, self._dice.random() < 0.1)
            self.pushed.batches[name] = parts

    def _push(self, kind: str, push: Callable[[str], str | None]) -> None:
        self._number += 1
        jid = f"{SHAPED}{self._number:07}"
        self.pushed.unsure[jid] = kind
        try:
            if push(jid) is None:
                self.pushed.refused += 1
                return
        except REFUSALS:
            return
        self.pushed.sure[jid] = self.pushed.unsure.pop(jid)

    def _key(self) -> str:
        return f"key{self._dice.randrange(KEYS)}"

    def _seconds(self) -> float:
        return self._dice.uniform(0, LONGEST_S) if self._dice.random() < 0.2 else self._dice.uniform(0, 0.03)
