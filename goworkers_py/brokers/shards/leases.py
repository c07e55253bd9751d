"""The lease of a process on each shard, all under one identity.

Each beat goes to every shard that serves. A shard that is away misses the beat, and the leases on the others are
renewed all the same: the beat fails only when no shard has answered.

So the leases of one process may end one by one. On a shard that was away for longer than a lease, or that only this
process could not reach, the lease is gone and the jobs there may have been recovered. `consume` takes nothing there
until the next beat has made the lease anew. A delivery from there is settled only if it is still in progress there.

A shard declares this identity dead when the shard was out of reach for longer than a lease for this process alone. Then
the whole process continues under a new identity. Its jobs on the other shards are in progress under the old one, whose
leases there are not renewed any more: a job that ends within a lease is settled as ever, and one that runs for longer
is recovered, and may run twice.

The proof of a beat is that of each shard. It leaves out a shard whose beat failed or has found a lost lease while the
others kept theirs: all leases there may have expired in the outage, and nobody is declared dead there until the other
processes have had the time to renew them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import simplejson

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import (
    Beat,
    DeclaredDead,
    Judge,
    LiveProcess,
    Presence,
    Recoverable,
    Recovered,
)
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, raise_worst
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError


class ShardedLeases(Recoverable):
    """Of its fields, only the thread that beats uses those with an underscore; `recover` gets what it needs."""

    def __init__(self, shards: ShardList, steady_for_s: float, on_beat: Callable[[], None]) -> None:
        """`steady_for_s`: for how long other processes get to renew their leases after an outage of a shard."""
        self._shards = shards
        self._steady_for_s = steady_for_s
        self._on_beat = on_beat
        self._steady_at: dict[Shard, float] = {}  # monotonic; only of a shard that had an outage of its own
        self._known: set[str] = set()  # identities that have beaten: the first beat tells nothing about lost writes

    def beat(self, presence: Presence) -> Beat:
        beats: dict[Shard, Beat] = {}
        dead = False
        failures: list[BrokerError] = []
        for shard in self._shards.all:  # each is asked, also behind one that refuses: its lease must not run out
            try:
                beats[shard] = shard.ask(lambda broker: broker.recoverable.beat(presence))
            except DeclaredDead:
                dead = True
            except BrokerError as error:
                failures.append(error)
        if dead:
            self._known.discard(presence.identity)
            raise DeclaredDead(presence.identity)
        raise_worst(failures, served=bool(beats))
        self._note(presence.identity, beats)
        self._on_beat()
        now = machine.monotonic()
        proofs = {shard.name: beat.proof for shard, beat in beats.items() if now >= self._steady_at.get(shard, now)}
        first = next(iter(beats.values()))
        return Beat(first.server_time, any(beat.kept for beat in beats.values()), simplejson.dumps(proofs))

    def _note(self, identity: str, beats: dict[Shard, Beat]) -> None:
        again = identity in self._known
        self._known.add(identity)
        some_kept = any(beat.kept for beat in beats.values())
        for shard in self._shards.all:
            beat = beats.get(shard)
            if beat is None or (again and some_kept and not beat.kept):
                self._steady_at[shard] = machine.monotonic() + self._steady_for_s

    def live_processes(self) -> list[LiveProcess]:
        told = self._shards.answers(lambda broker: broker.recoverable.live_processes())
        return [*{process.identity: process for several in told for process in several}.values()]

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        proof_on = self._proofs(proof)
        return self._shards.steps(lambda broker: broker.recoverable.recover(identity, judge, proof_on(broker)))

    def _proofs(self, proof: str | None) -> Callable[[Broker], str | None]:
        """The proof for each shard. An empty one, and None, are the same for all."""
        if not proof:
            return lambda broker: proof
        proofs = simplejson.loads(proof)
        by_broker = {shard.broker: proofs.get(shard.name) for shard in self._shards.all}
        return lambda broker: by_broker[broker]

    @property
    def deaths(self) -> int:  # type: ignore[override]
        return sum(shard.broker.recoverable.deaths for shard in self._shards.all)

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        proof_on = self._proofs(proof)
        for shard in self._shards.all:
            if not shard.away:
                shard.ask(lambda broker: broker.recoverable.declare_dead(identity, proof_on(broker), owners))

    def end_blocks(self, identity: str) -> None:
        self._known.discard(identity)
        self._shards.answers(lambda broker: broker.recoverable.end_blocks(identity))

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Of a shard that is away, nothing is known: its deliveries are not told as lost."""
        lost: set[Delivery] = set()
        for shard in self._shards.all:
            ours = [one for one in deliveries if self._shards.of(one) is shard]
            if ours and not shard.away:
                lost.update(shard.ask(lambda broker, ours=ours: broker.recoverable.lost(ours)))  # type: ignore[misc]
        return [one for one in deliveries if one in lost]

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        """Jobs on a shard that is away stay there until the lease has expired."""
        return self._shards.steps(lambda broker: broker.recoverable.leave(identity, silent))
