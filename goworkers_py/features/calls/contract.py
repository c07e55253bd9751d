"""Calls: commands that people give to processes, which answer them. Also the reports that processes give to people.

Calls stand in one stream, in the order in which they were given. A process reads the stream's end once, at its start,
and from then on what came after it. So it obeys no call that was given before it began, and misses none that was given
while it was away for a moment. A call is told to those who listen at once. A message may get lost, so a process also
reads now and then.

Every verb raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no. Every
verb but `give` may be called again after that: a second `answer` is the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from goworkers_py.features.calls.call import Answer, Call, Report


class Calls(Protocol):
    """Threads share it."""

    def give(self, call: Call) -> None:
        """Adds the call to the stream, and tells it. The stream keeps the last 1,000 calls or more."""

    def end(self) -> str:
        """Returns the position of the last call; that of the beginning if there is none."""

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        """Returns the calls after this position, the oldest first, and the position of the last of them. Leaves out
        those that are older than their `life_s`, by the broker's clock, and those that this release cannot read. The
        `life_s` of a call that it returns is what is left of it."""

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls `changed` soon after this call, and at each call that is given. It is called in another thread, and
        must not block. Returns the function that ends it."""

    def answer(self, call_id: str, answer: Answer) -> None:
        """Keeps the answer for two minutes or more, and tells it to those who watch."""

    def answers(self, call_id: str) -> Sequence[Answer]:
        """Returns the answers until now, the first of each process."""

    def report(self, name: str, identity: str, body: str) -> None:
        """Adds a report to the stream of reports, which keeps the last 5,000 or more. `body` is JSON."""

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        """Returns the first reports after this position, the oldest first, `limit` at most; the last ones when it is
        empty. Leaves out what this release cannot read. Raises ArgumentError for a position that no report had."""

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls `changed` as `listen` does, at each answer to this call."""
