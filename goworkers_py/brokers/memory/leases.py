"""Leases: which identities live, and how the jobs of dead identities are recovered.

All processes of a memory broker run in one process of the system. So an identity is known to be dead only when its
lease has expired or it has left. And no `consume` can bring a dead identity a job late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from goworkers_py.brokers.contracts.recoverable import (
    GONE_FOR_S,
    Beat,
    DeclaredDead,
    FoundJob,
    Judge,
    LiveProcess,
    Presence,
    Recoverable,
    Recovered,
    left_behind,
)
from goworkers_py.brokers.memory.lease_record import LeaseRecord
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.version import __version__
from goworkers_py.policy import known_needs
from goworkers_py.policy.deaths import Life, died_together
from goworkers_py.policy.poison import RecoveryDecision


class MemoryLeases(Recoverable):
    def __init__(self, state: State, dead_limits: DeadLimits, lease_s: float) -> None:
        self._state = state
        self._dead_limits = dead_limits
        self._lease_s = lease_s
        # An older proof is not valid: the clock was set, or the process that recovers stood still.
        self._proof_s = lease_s / 2
        self.deaths = 0

    # --- beats

    def beat(self, presence: Presence) -> Beat:
        state, identity = self._state, presence.identity
        with state.lock:
            now, registry = state.clock(), state.block_owners if presence.blocks else state.leases
            record = registry.get(identity) or LeaseRecord(presence, began=now)
            if record.died_at is not None:
                raise DeclaredDead(identity)
            self._claim(presence.process, identity, now)
            kept = record.beats == 0 or record.is_alive(now)
            record.presence, record.heard, record.expires_at = presence, now, now + self._lease_s
            record.beats += 1
            registry[identity] = record
            return Beat(now, kept, record.proof)

    def _claim(self, process: str, identity: str, now: float) -> None:
        """Under the lock. Gives the fixed name `process` to `identity`, unless a live identity has it."""
        if not process:
            return
        holder = self._state.holders.get(process, identity)
        record = self._state.leases.get(holder)
        if holder != identity and record is not None and record.is_alive(now):
            raise BrokerRefused(
                f"the process name {process!r} is in use by {holder}, which lives: stop that process, or give "
                "this process another name"
            )
        self._state.holders[process] = identity

    def live_processes(self) -> list[LiveProcess]:
        with self._state.lock:
            now = self._state.clock()
            return [
                LiveProcess(identity, record.presence.queues, __version__, known_needs.SPEAKS)
                for identity, record in self._state.leases.items()
                if record.is_alive(now)
            ]

    # --- deaths

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        with self._state.lock:
            now = self._state.clock()
            others = {other: record for other, record in self._state.leases.items() if other != identity}
            blocks = dict(self._state.block_owners)
            self._declare_dead(identity, proof, [*others.values(), *blocks.values()])
            dead = {
                other: _ran_alone(other, others, now) for other, record in others.items() if record.died_at is not None
            }
        for other, alone in dead.items():
            yield from self._move_all(other, judge, alone)
        self._forget({**blocks, **others}, now - GONE_FOR_S)

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        with self._state.lock:
            known = {**self._state.block_owners, **self._state.leases}
            self._declare_dead(identity, proof, [known[owner] for owner in owners if owner in known])

    def _declare_dead(self, identity: str, proof: str | None, others: Iterable[LeaseRecord]) -> None:
        """Under the lock: those whose lease has run out."""
        now = self._state.clock()
        if proof is None or not self._proves(identity, proof, now):
            return
        for record in others:
            if record.died_at is None and not record.is_alive(now):
                record.died_at = now
                self.deaths += 1

    def end_blocks(self, identity: str) -> None:
        with self._state.lock:
            self._state.block_owners.pop(identity, None)

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        with self._state.lock:
            return [
                delivery
                for delivery in deliveries
                if not self._state.is_in_progress(delivery.identity, delivery.queue, delivery.receipt)
            ]

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        with self._state.lock:
            record = self._state.leases.get(identity)
            if record is None:
                return
            record.died_at = now = self._state.clock()
        yield from self._move_all(identity, left_behind, alone="")
        if silent:
            self._forget({identity: record}, now)

    def _proves(self, identity: str, proof: str, now: float) -> bool:
        """Under the lock. An empty proof is always valid."""
        record = self._state.leases.get(identity) or self._state.block_owners.get(identity)
        proven = (
            record is not None and record.is_alive(now) and record.proof == proof and now < record.heard + self._proof_s
        )
        return proven or not proof

    def _move_all(self, dead: str, judge: Judge, alone: str) -> Iterator[Recovered]:
        """Oldest first, each job only if it is still in progress: another process may recover the same jobs."""
        for receipt, found in self._found(dead, alone):
            decision = judge(found)
            with self._state.lock:
                moved = self._state.take_from_progress(dead, found.queue, receipt)
                if moved:
                    self._move(found.queue, decision)
            if moved:
                yield Recovered(found.queue, dead, found.payload, decision)

    def _found(self, dead: str, alone: str) -> list[tuple[int, FoundJob]]:
        with self._state.lock:
            record = self._state.leases.get(dead)
            if record is None:
                return []  # the identity left meanwhile, or another process recovered its jobs, and it was forgotten
            begun = record.presence.queues  # jobs are begun in the order in which they were consumed
            return [
                (receipt, FoundJob(queue, dead, payload, position < begun.get(queue, 0), alone))
                for queue, jobs in record.in_progress.items()
                for position, (receipt, payload) in enumerate(jobs.items())
            ]

    def _move(self, queue: str, decision: RecoveryDecision) -> None:
        """Under the lock."""
        if decision.error is None:
            self._state.put(decision.queue or queue, decision.payload)
        else:
            self._state.bury(decision.payload, self._dead_limits)
            self._state.count(failed=True)
        self._state.follow(decision.effects)

    def _forget(self, dead: Mapping[str, LeaseRecord], until: float) -> None:
        """Forgets the identities that died by `until`. None of their jobs is in progress any more."""
        with self._state.lock:
            for identity, record in dead.items():
                if record.died_at is not None and record.died_at <= until:
                    self._state.leases.pop(identity, None)
                    self._state.block_owners.pop(identity, None)


def _ran_alone(dead: str, others: Mapping[str, LeaseRecord], now: float) -> str:
    """The name of the suspect that the dead process ran alone; empty when its death proves nothing of the suspect."""
    lives = {identity: Life("", record.began, record.heard, record.died_at) for identity, record in others.items()}
    life = lives.pop(dead)
    proves_nothing = any(died_together(life, other, now) for other in lives.values())
    return "" if proves_nothing else others[dead].presence.alone
