"""Chains: each link is pushed in the step in which the job of the link before ends well, see the effect `EndLink`.

The links that are still to come are in the record of the chain. A link of several parts ends when all of them have
ended well; the next one gets the list of their results. A doubled end of a link changes nothing, because the record
says which link it is at. A job that ends in another way stops the chain. When that job is retried by
hand and ends well, the chain goes on.

Each link joins the batch of the chain in the step of its push. Where that batch was cancelled, the chain stops. Where
the batch has ended, because a link was dead, and that link is retried, the links after it are in no batch.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from goworkers_py.features.chains.chain import ChainStatus, NewChain


class Chains(Protocol):
    """Threads share it."""

    def push(self, new: NewChain) -> bool:
        """Makes the record of a chain and pushes the first link. False when its batch takes no jobs; nothing is done
        then. Called again, it changes nothing."""

    def cancel(self, cid: str) -> bool:
        """From now on no link of it is begun, and one that runs is interrupted: it leaves a tombstone under the name of
        the chain, see `Cancels`. False when it has ended or is not there."""

    def status(self, cid: str) -> ChainStatus | None:
        """Returns a chain; None when there is none, or not any more."""

    def entries(self) -> Iterator[ChainStatus]:
        """Yields the chains in the order in which they will be forgotten, the last one first: those that go on, have
        stopped or were cancelled, the last changed first, and then those that have ended."""

    def idle(self, count: int) -> list[ChainStatus]:
        """For figures: returns so many chains, first those that run and those that have stopped. If there are more of
        these, a broker that can tell returns those to which nothing has happened for the longest time."""
        return [*islice(self.entries(), count)]
