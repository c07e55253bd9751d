"""The owners of in-progress lists: which of them live, and the jobs in their lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.brokers.contracts.fleet import InProgressJob, LeaseOwner, Running
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import as_number, text
from goworkers_py.brokers.redis.fleet.held_lists import lengths
from goworkers_py.brokers.redis.fleet.owner_entry import DECLARED_DEAD, read_entries
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.proc import certainly_dead, origin, stopped
from goworkers_py.wire.stored_job import StoredJob

# An owner is in trouble after this long without a beat: four beats.
SILENT_AFTER_S = 20.0
AT_ONCE = 1_000  # lists of which those that hold jobs are found in one step


class OwnerList:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def all(self) -> list[LeaseOwner]:
        """Every identity in `pyworkers:owners`, also dead ones, which stay there for up to a day."""
        keys = self._keys
        raw_entries, gone, (now, _) = self._connections.exchange(
            [("HGETALL", keys.owners), ("HGETALL", keys.gone), ("TIME",)]
        )
        declared_dead, machine = {text(identity) for identity in gone[::2]}, origin()["machine"]
        entries = sorted(read_entries(raw_entries)[0].items())
        leases = self._connections.exchange([("EXISTS", keys.lease(identity)) for identity, _ in entries])
        beats = self._connections.answers([("HGET", keys.member(identity), "beat") for identity, _ in entries])
        owners = []
        for (identity, entry), lease, beat in zip(entries, leases, beats, strict=True):
            sure = identity in declared_dead or certainly_dead(entry.origin)
            alive = bool(lease) and not sure
            silent_s = int(now) - as_number(beat) if beat else 0.0
            owners.append(
                LeaseOwner(
                    identity,
                    queues=sorted(entry.queues),
                    here=entry.origin.get("machine") == machine,
                    trouble=_trouble(alive, silent_s, stopped(entry.origin), entry.trouble),
                    alive=alive,
                    dead_for_sure=sure,
                    speaks=entry.speaks,
                    frees_by_lease=entry.frees != DECLARED_DEAD,
                )
            )
        return owners

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        """By the rule of lua/fragments/holder.lua."""
        keys, asked = self._keys, sorted(owners)
        questions = [
            question
            for owner in asked
            for question in (
                ("HEXISTS", keys.gone, owner),
                ("HEXISTS", keys.owners, owner),
                ("HEXISTS", keys.blocks, owner),
                ("EXISTS", keys.lease(owner)),
            )
        ]
        replies = self._connections.exchange(questions) if questions else []
        return {owner for at, owner in enumerate(asked) if replies[4 * at] or not any(replies[4 * at + 1 : 4 * at + 4])}

    def in_progress(self, running: Collection[Running], only: str, identity: str) -> Iterator[InProgressJob]:
        """`running`: the jobs that processes report as running. `only`: one queue; `identity`: one owner."""
        since = {(run.identity, run.job.payload): run.since for run in running}
        owners = self.all() if not identity else [owner for owner in self.all() if owner.identity == identity]
        held = {
            self._keys.inprogress(queue, owner.identity): (owner, queue)
            for owner in owners
            for queue in (owner.queues if not only else {only}.intersection(owner.queues))
        }
        lists = [*held]
        for start in range(0, len(lists), AT_ONCE):
            for key in lengths(self._connections, lists[start : start + AT_ONCE]):
                owner, queue = held[key]
                for payload in self._listed(key):
                    job = StoredJob(payload, queue)
                    yield InProgressJob(owner, queue, job, since.get((owner.identity, payload)))

    def _listed(self, key: str) -> Iterator[bytes]:
        """Oldest first. Jobs that come or go meanwhile may be missed: these lists are short and change fast."""
        start = 1
        while listed := self._connections.answers([("LRANGE", key, -start - PAGE + 1, -start)])[0]:
            yield from reversed(listed)
            start += PAGE

    def held(self, owners: Collection[LeaseOwner], queue: str | None) -> int:
        """How many jobs are in the in-progress lists of these owners."""
        lists = [
            self._keys.inprogress(name, owner.identity)
            for owner in owners
            for name in (owner.queues if queue is None else [queue])
        ]
        return sum(lengths(self._connections, lists).values())


def _trouble(alive: bool, silent_s: float, suspended: bool, trouble: str) -> str:
    if suspended and not alive:
        return "is suspended (SIGSTOP), and its lease has expired"
    if alive and silent_s > SILENT_AFTER_S:
        why = "it is suspended (SIGSTOP)" if suspended else "it hangs, or cannot reach Redis"
        return f"sent no beat for {silent_s:.0f} s: {why}"
    return trouble if alive else ""
