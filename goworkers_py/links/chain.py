"""The chain around a job, outermost first, as `runtime.lane` puts it together:

    guard( rungs( the user's prepended links( log( stats( retry( time limit( the user's appended links(
        around( perform )))))))))

The rungs are for jobs that are more than their class and arguments, see `features.RUNGS`: a job that a rung does not
let go on has not run, so no link inside sees it. Links take a message and return an Outcome; `guard` takes a delivery.
In a process behind a fence the link `term` is the outermost of the links.

A user's link has go-workers' shape: `call(queue, message, call_next)` returns whether the job is acknowledged, in most
links the result of `call_next()`. `retry` turns exceptions into outcomes. If there are prepended links, a second
`retry` around them turns theirs. Every other exception outside of `retry` ends in the outcome that
`runtime.running.net` gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Protocol, runtime_checkable

from goworkers_py.core.outcome import DONE, UNACKNOWLEDGED, Lost, Outcome, Unacknowledged
from goworkers_py.core.values import dataclass
from goworkers_py.wire.message import Message

Run = Callable[[Message], Outcome]
Wrap = Callable[[Run], Run]


@runtime_checkable
class Middleware(Protocol):
    """Code around each run of a job: `workers.middleware.append(Timing())` for an object with this method."""

    def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool | None:
        """`call_next()` runs the job and the links inside of this one: return its value.

        False leaves the job unacknowledged: in progress until this process stops, then back in its queue. A link that
        does not call `call_next()` skips the job: with True the job counts as done.
        """


@dataclass
class Links:
    """The user's links, as `workers.middleware` holds them."""

    prepended: list[Middleware] = field(default_factory=list)
    appended: list[Middleware] = field(default_factory=list)

    def append(self, link: Middleware) -> None:
        """Adds `link` inside of all earlier ones: nearest to the job."""
        self.appended.append(link)

    def prepend(self, link: Middleware) -> None:
        """Adds `link` outside of all earlier ones, and of our own links."""
        self.prepended.insert(0, link)


def wrap_all(run: Run, wraps: Iterable[Wrap]) -> Run:
    """The first of `wraps` becomes the outermost."""
    for wrap in reversed(list(wraps)):
        run = wrap(run)
    return run


def adapt(link: Middleware) -> Wrap:
    """Turns a user's link into one of ours."""

    def wrap(inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            outcome: Outcome | None = None

            def call_next() -> bool:
                nonlocal outcome
                outcome = inner(message)
                return type(outcome) is not Unacknowledged and type(outcome) is not Lost

            acknowledged = link.call(message.queue, message, call_next)
            if type(outcome) is Lost:
                return outcome  # another process has the job, whatever the link says
            if acknowledged is None and outcome is not None:
                return outcome  # `call` forgot to return the result of `call_next`
            if not acknowledged:
                return UNACKNOWLEDGED
            # A link may acknowledge a job that an inner link did not, and a job for which it did not call `call_next`.
            return DONE if outcome is None or type(outcome) is Unacknowledged else outcome

        return run

    return wrap
