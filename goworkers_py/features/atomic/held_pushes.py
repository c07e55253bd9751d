"""The pushes that a job holds back until it has ended well."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from goworkers_py.core import machine
from goworkers_py.core.effect import Effect, PostJobs, Push, PushJobs
from goworkers_py.core.errors import TooManyHeld
from goworkers_py.core.home import DESTINATIONS, Destination, Home, RunHome
from goworkers_py.core.outcome import DONE, Done
from goworkers_py.wire import payload

# They are sent to the broker in one step, with the settlement of the job.
MOST_HELD = 10_000
MOST_HELD_BYTES = 10_000_000


class HeldPushes:
    """The pushes of one block of `atomic`, or of all blocks of a job. Used by one thread only."""

    def __init__(self, run: object, here: RunHome | None, outer: HeldPushes | None = None) -> None:
        self.run = run  # the message of the run; None outside of a job
        self.here = here  # of the daemon that runs it
        self.home: Home | None = None if here is None else here.home
        self.thread = machine.get_ident()
        self._outer = outer
        self.whole: HeldPushes = outer.whole if outer is not None else self  # its bounds are those of all blocks
        self._pushes: dict[Destination, list[Push]] = {}
        self._count = self._bytes = 0  # of all blocks

    @property
    def empty(self) -> bool:
        return self.whole._count == 0

    def add(self, destination: Destination, pushes: Sequence[Push]) -> None:
        whole, size = self.whole, _size(pushes)
        if whole._count + len(pushes) > MOST_HELD or whole._bytes + size > MOST_HELD_BYTES:
            raise TooManyHeld(
                f"atomic holds back at most {MOST_HELD:,} pushes of {MOST_HELD_BYTES // 1_000_000} MB together: "
                "push jobs that push the others, or push outside of atomic"
            )
        self._pushes.setdefault(destination, []).extend(pushes)
        whole._count += len(pushes)
        whole._bytes += size

    def take_back(self, destination: Destination, count: int) -> None:
        """So many of the pushes that were added last."""
        if count:
            pushes = self._pushes[destination]
            taken = pushes[-count:]
            del pushes[-count:]
            self.whole._count -= count
            self.whole._bytes -= _size(taken)

    def drop(self) -> None:
        """The block has raised."""
        for pushes in self._pushes.values():
            self.whole._count -= len(pushes)
            self.whole._bytes -= _size(pushes)
        self._pushes.clear()

    def end(self) -> Mapping[Destination, Sequence[Push]]:
        """The block has ended well. Gives its pushes to the outer block, or returns them if there is none."""
        if self._outer is None:
            return self._pushes
        merged = {destination: [*pushes] for destination, pushes in self._outer._pushes.items()}
        for destination, pushes in self._pushes.items():
            merged.setdefault(destination, []).extend(pushes)
        self._outer._pushes = merged  # in one step: an exception may be thrown into this thread
        return {}

    def done(self, run_id: str) -> Done:
        """The outcome of a job whose code has returned. Pushes to another broker go into the outbox of this one."""
        by_home: dict[Home, list[Push]] = {}
        for destination, pushes in self.end().items():
            by_home.setdefault(destination.home, []).extend(pushes)
            if destination.home != self.home:
                DESTINATIONS[destination.home.name] = destination
        effects: list[Effect] = [
            PushJobs(run_id, tuple(self._stamped(pushes)))
            if home == self.home
            else PostJobs(run_id, home.name, tuple(map(_named, pushes)))
            for home, pushes in by_home.items()
        ]
        return Done(effects=tuple(effects)) if effects else DONE

    def _stamped(self, pushes: Sequence[Push]) -> Iterator[Push]:
        """The jobs come into their queues only now. With the time of the call, a queue would look as if it had
        waited."""
        assert self.here is not None  # a job runs
        stamp = payload.splicer({"enqueued_at": self.here.now()})
        return (
            dataclasses.replace(push, payload=push.payload if push.at is not None else stamp(push.payload), id="")
            for push in pushes
        )


def _named(push: Push) -> Push:
    """With an id: it may be relayed more than once."""
    return dataclasses.replace(push, id=push.id or machine.token_hex(12))


def _size(pushes: Sequence[Push]) -> int:
    return sum(len(push.payload) for push in pushes)
