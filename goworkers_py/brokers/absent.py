"""Stand-ins for the parts that a broker lacks, so that the daemon runs its jobs all the same.

A queue service that delivers a job again by itself, when the connection of its consumer is gone, needs no leases: the
stand-in says that the lease of this process was kept. It finds no jobs to recover. Nobody can send a command or cancel
a job. The time is that of this machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.contracts.recoverable import Beat, Judge, LiveProcess, Presence, Recoverable, Recovered
from goworkers_py.brokers.contracts.store import Forward, Posted, Store
from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch, Transport
from goworkers_py.brokers.forwarded import forwarded
from goworkers_py.core import machine
from goworkers_py.core.command import Command
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.observe.executions import ByQueue
from goworkers_py.wire.process_record import ProcessMember, ProcessSnapshot


class NoLeases(Recoverable):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def beat(self, presence: Presence) -> Beat:
        """Asks the server something: a daemon does not begin before it answers, nor when it refuses."""
        self._transport.paused()
        return Beat(machine.time(), kept=True, proof="")

    def live_processes(self) -> list[LiveProcess]:
        return []

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        return iter(())

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        """Nobody has a lease."""

    def end_blocks(self, identity: str) -> None:
        """The identity was never known."""

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return []

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        return iter(())


class NoControl(Control):
    def report(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[Command]:
        return []

    def record(self, total: ByQueue, at: float) -> None:
        """There is no history."""

    def leave(self) -> None:
        """The process was never shown."""


class NoStore(Store):
    """The service itself holds what waits for a time. Nothing is in a line or an outbox."""

    def __init__(self, name: str) -> None:
        self._name = name

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        return iter((None,))

    def release(self, line: str, count: int) -> int:
        return 0

    def apply(self, batch: SettlementBatch) -> Sequence[Settled]:
        raise BrokerRefused(f"{self._name} has no store")

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        return []

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        """There is no outbox."""

    def value(self, kind: str, jid: str) -> bytes | None:
        return None


class Completed(Broker):
    """A broker with stand-ins in the places of the parts that it lacks. Its capabilities stay as they are."""

    name = forwarded("_broker")
    capabilities = forwarded("_broker")
    redelivers = forwarded("_broker")
    one_consumer = forwarded("_broker")
    remedy = forwarded("_broker")
    fence = forwarded("_broker")
    transport = forwarded("_broker")
    admin = forwarded("_broker")
    metrics = forwarded("_broker")
    neighbours = forwarded("_broker")
    death_clues = forwarded("_broker")
    part = forwarded("_broker")
    warn_at_start = forwarded("_broker")
    close = forwarded("_broker")

    def __init__(self, broker: Broker) -> None:
        self._broker, has = broker, broker.capabilities
        self.store = broker.store if Capability.STORE in has else NoStore(broker.name)
        self.recoverable = broker.recoverable if Capability.LEASES in has else NoLeases(broker.transport)
        self.control = broker.control if Capability.CONTROL in has else NoControl()


def completed(broker: Broker) -> Broker:
    """The broker itself where it lacks none of these parts."""
    own = {Capability.STORE, Capability.LEASES, Capability.CONTROL}
    return broker if own.issubset(broker.capabilities) else Completed(broker)
