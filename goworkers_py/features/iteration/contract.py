"""The cursors of iterable jobs, in a broker."""

from __future__ import annotations

from typing import Protocol

from goworkers_py.features.iteration.cursor import Cursor, Iteration


class Iterations(Protocol):
    """Threads share it."""

    def begin(self, jid: str, of: str) -> Iteration:
        """Counts one more run of an iterable job, and returns the cursor of the runs before. `of` tells the job from an
        earlier one with the same jid, whose cursor is forgotten. Changes nothing where Sidekiq has begun the job.
        Raises BrokerUnavailable and BrokerRefused; to ask again only counts one more."""

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        """Stores the cursor of a run that goes on. False when a later run has begun, or the job has ended: then nothing
        is stored. Nothing is stored either while a later job with the same jid has its cursor there; the answer is True
        then, because two such jobs would end each other's runs for ever. The effect `StoreCursor` stores
        the cursor of a run that ends."""
