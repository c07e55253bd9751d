"""Reads chains and cancels them, for programs and for the command line: `workers.chains`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from goworkers_py.brokers.broker import Broker
from goworkers_py.features.chains.chain import ChainStatus
from goworkers_py.features.chains.contract import Chains


class ChainList:
    """`workers.chains` shows chains and cancels them. Every method asks the broker again."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    @property
    def _chains(self) -> Chains:
        return self._broker().require_part(Chains)

    def status(self, cid: str) -> ChainStatus | None:
        """`workers.chains.status(cid).link`; None if there is no such chain, or not any more."""
        return self._chains.status(cid)

    def all(self) -> Iterator[ChainStatus]:
        """The chains, the last changed first. Chains that have ended come last:
        `[one.cid for one in workers.chains.all()]`."""
        return self._chains.entries()

    def idle(self, count: int) -> list[ChainStatus]:
        """For the figures of the fleet: see `Chains.idle`."""
        return self._chains.idle(count)

    def cancel(self, cid: str) -> bool:
        """`workers.chains.cancel(cid)`: the link that waits does not run, one that runs is interrupted, and no other
        link is pushed. Returns False if the chain has ended or is not there."""
        return self._chains.cancel(cid)
