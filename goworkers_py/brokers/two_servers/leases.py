"""Leases in the store. They guard the jobs of the store; the queue service delivers its own jobs again by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from goworkers_py.brokers.contracts.recoverable import Beat, Judge, LiveProcess, Presence, Recoverable, Recovered
from goworkers_py.brokers.two_servers.transport import is_stored
from goworkers_py.core.delivery import Delivery


class StoreLeases(Recoverable):
    def __init__(self, leases: Recoverable) -> None:
        self._leases = leases

    def beat(self, presence: Presence) -> Beat:
        return self._leases.beat(presence)

    def live_processes(self) -> list[LiveProcess]:
        return self._leases.live_processes()

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        return self._leases.recover(identity, judge, proof)

    @property
    def deaths(self) -> int:  # type: ignore[override]
        return self._leases.deaths

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        self._leases.declare_dead(identity, proof, owners)

    def end_blocks(self, identity: str) -> None:
        self._leases.end_blocks(identity)

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return self._leases.lost([delivery for delivery in deliveries if is_stored(delivery)])

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        return self._leases.leave(identity, silent)
