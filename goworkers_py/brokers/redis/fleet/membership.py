"""This process's entry among the processes of the fleet, written with every beat, and the commands sent to it.

The entry is the identity in the set `processes`, and a hash whose key is the identity. The heartbeat of go-workers2
ends for good when it finds an identity without a hash, and then processes of Go run jobs twice. So one step writes the
identity and the hash, with the first beat. A removal takes the identity out of the set and leaves the hash, which
expires some minutes later. That happens when this process deregisters, when it continues under another identity, and
when others declare it dead, see `leases`. go-workers2 removes both when the last beat is older than its limit.
"""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, RedisCommand, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.wire.process_record import ProcessMember, ProcessSnapshot, state, work

# The hash of a killed process must exist until another process takes the identity out of the set. Our processes declare
# it dead within 80 seconds, a little later after an outage; go-workers2 removes it after 65, unless configured
# otherwise. Where neither runs, Sidekiq's pages show the dead process for this time.
SHOWN_FOR_S = 300
WORK_SHOWN_FOR_S = 60
# Commands that are read in one step: a person may have clicked twice.
MOST_WORDS = 10
PRUNE_EVERY_S = 60


class FleetMembership:
    """Used by the heartbeat thread; after that has ended, by the thread that stops the process.

    When the server refuses these steps, the lease is renewed all the same.
    """

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._shown = ""  # the identity of the entry that was written last
        self._try = BestEffort("this process cannot be shown to the fleet or asked by it")
        self._prune_at = 0.0

    def meet(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[str]:
        """Writes the entry. Returns the commands that were sent to this process, oldest first: TSTP, TERM, TTIN."""
        words: list[str] = []
        self._try(lambda: self._show(identity, member, now))
        if machine.monotonic() >= self._prune_at:
            self._prune_at = machine.monotonic() + PRUNE_EVERY_S
            self._try(self._prune)
        # A step of its own, because a full server refuses the entry but not RPOP. The last step, because an error after
        # it would lose the commands that it has read.
        self._try(lambda: words.extend(self._asked(identity)))
        return words

    def leave(self) -> None:
        if self._shown:
            self._try(lambda: self._connections.transaction(removal(self._keys, self._shown)))

    def _show(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> None:
        commands: list[RedisCommand] = []
        if self._shown not in ("", identity):
            commands += removal(self._keys, self._shown)  # the old identity was declared dead
        entry, works = self._keys.member(identity), self._keys.works(identity)
        commands += [
            ("SADD", self._keys.processes, identity),
            ("HSET", entry, *_flat(state(identity, member, now))),
            ("EXPIRE", entry, SHOWN_FOR_S),
            ("DEL", *works),
        ]
        if running := work(now.running):
            for key in works:
                commands += [("HSET", key, *_flat(running)), ("EXPIRE", key, WORK_SHOWN_FOR_S)]
        self._shown = identity  # before the exchange: its reply may be lost
        self._connections.transaction(commands)

    def _asked(self, identity: str) -> list[str]:
        words = self._connections.call("RPOP", self._keys.signals(identity), MOST_WORDS)
        return [text(word) for word in words or ()]

    def _prune(self) -> None:
        """Takes identities whose hash has expired out of the set. As in Sidekiq, one process does it each minute."""
        keys = self._keys
        if self._connections.call("SET", keys.process_cleanup, 1, "EX", PRUNE_EVERY_S, "NX") is None:
            return
        names: list[bytes] = self._connections.call("SMEMBERS", keys.processes)  # bytes: a name may be no UTF-8
        shown = self._connections.answers([("HEXISTS", keys.member(text(name)), "info") for name in names])
        stale = [name for name, there in zip(names, shown, strict=True) if not there]
        if stale:
            self._connections.call("SREM", keys.processes, *stale)


def removal(keys: Keys, identity: str) -> list[tuple[str, ...]]:
    """The commands, for one transaction, that take a process from the fleet. Its hash stays until it expires:
    go-workers2 reads the identities first and their hashes later, and its heartbeat must not miss a hash."""
    return [("SREM", keys.processes, identity), ("DEL", *keys.works(identity), keys.signals(identity))]


def members(connections: Connections, keys: Keys) -> list[str]:
    """The identities in `processes`, of whatever language; some of them have ended."""
    return sorted(map(text, connections.call("SMEMBERS", keys.processes)))


def _flat(fields: dict[str, str] | dict[str, str | int]) -> list[Argument]:
    return [word for pair in fields.items() for word in pair]
