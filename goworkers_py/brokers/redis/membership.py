"""This process's entry among the processes of the fleet: shown with every beat, and what others ask of it there.

The entry is a name in the set `processes` and a hash called by that name. go-workers2 ends its heartbeat for good when
it meets a name without a hash, and Go's own processes then run jobs twice. So name and hash come in one step, with the
first beat, and the name goes first: at the farewell; when this process goes on under another identity; when others
declare it dead, see `brokers.leases`. The hash runs out some minutes later. go-workers2 removes both itself when the
last beat is older than its limit.
"""

from __future__ import annotations

import time

from goworkers_py.brokers.redis.best_effort import BestEffort
from goworkers_py.brokers.redis.connection import Argument, Command, Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.wire.process_record import Member, ProcessSnapshot, state, work

# The hash of a process that was killed must be there until one of those steps removes the name. Other processes of ours
# declare it dead within 80 seconds, after an outage some more; go-workers2 removes it after 65, unless it is told
# otherwise. Where neither runs, Sidekiq's pages show the dead process for as long as this.
SHOWN_FOR_S = 300
WORK_SHOWN_FOR_S = 60
# Words that are taken at once: somebody may have clicked twice.
MOST_WORDS = 10
PRUNE_EVERY_S = 60


class Membership:
    """Used by the heartbeat's thread, and by the farewell when that has ended. Nothing here may cost the lease."""

    def __init__(self, connections: Connections, keys: Keys, member: Member) -> None:
        self._connections = connections
        self._keys = keys
        self._member = member
        self._shown = ""  # the identity of the entry
        self._try = BestEffort("this process cannot be shown to the fleet or asked by it")
        self._prune_at = 0.0

    def meet(self, identity: str, now: ProcessSnapshot) -> list[str]:
        """Returns what the fleet asks of this process, oldest first: TSTP, TERM, TTIN."""
        words: list[str] = []
        self._try(lambda: self._show(identity, now))
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_EVERY_S
            self._try(self._prune)
        # By itself, because a server that is full takes no entry; and last, because what is taken must be obeyed.
        self._try(lambda: words.extend(self._asked(identity)))
        return words

    def leave(self) -> None:
        if self._shown:
            self._try(lambda: self._connections.transaction(removal(self._keys, self._shown)))

    def _show(self, identity: str, now: ProcessSnapshot) -> None:
        commands: list[Command] = []
        if self._shown not in ("", identity):
            commands += removal(self._keys, self._shown)  # it was declared dead and goes on under a fresh identity
        entry, works = self._keys.member(identity), self._keys.works(identity)
        commands += [
            ("SADD", self._keys.processes, identity),
            ("HSET", entry, *_flat(state(identity, self._member, now))),
            ("EXPIRE", entry, SHOWN_FOR_S),
            ("DEL", *works),
        ]
        if running := work(now.running):
            for key in works:
                commands += [("HSET", key, *_flat(running)), ("EXPIRE", key, WORK_SHOWN_FOR_S)]
        self._shown = identity  # also when the reply gets lost
        self._connections.transaction(commands)

    def _asked(self, identity: str) -> list[str]:
        words = self._connections.call("RPOP", self._keys.signals(identity), MOST_WORDS)
        return [text(word) for word in words or ()]

    def _prune(self) -> None:
        """As Sidekiq's processes do it, one of them a minute: names whose hash has run out leave the set."""
        keys = self._keys
        if self._connections.call("SET", keys.process_cleanup, 1, "EX", PRUNE_EVERY_S, "NX") is None:
            return
        names: list[bytes] = self._connections.call("SMEMBERS", keys.processes)  # as they are: some may be no text
        shown = self._connections.answers([("HEXISTS", keys.member(text(name)), "info") for name in names])
        stale = [name for name, there in zip(names, shown, strict=True) if not there]
        if stale:
            self._connections.call("SREM", keys.processes, *stale)


def removal(keys: Keys, identity: str) -> list[tuple[str, ...]]:
    """The commands that take a process from the fleet, for one transaction. Its hash stays and runs out: go-workers2
    reads the names first and their hashes then, and its heartbeat ends for good at a name without a hash."""
    return [("SREM", keys.processes, identity), ("DEL", *keys.works(identity), keys.signals(identity))]


def members(connections: Connections, keys: Keys) -> list[str]:
    """The processes of the fleet, in whatever language; also some that have ended."""
    return sorted(map(text, connections.call("SMEMBERS", keys.processes)))


def _flat(fields: dict[str, str] | dict[str, str | int]) -> list[Argument]:
    return [word for pair in fields.items() for word in pair]
