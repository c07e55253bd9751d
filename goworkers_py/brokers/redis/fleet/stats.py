"""The counts for `Admin.stats`."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.brokers.redis.admin.queue_list import QueueList
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.fleet.held_lists import lengths
from goworkers_py.brokers.redis.fleet.owner_entry import OwnerEntry, read_entries
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.lines import Lines
from goworkers_py.brokers.redis.server.damage import count_in
from goworkers_py.policy.lines import waiting_by_owner


def read_stats(connections: Connections, keys: Keys, queues: QueueList, lines: Lines, outboxes: Lines) -> Stats:
    """Reads all counts. A damaged key counts as 0 and hides no other count."""
    processed, failed, scheduled, retries, dead, names, paused, owners = connections.answers(
        [
            ("GET", keys.processed),
            ("GET", keys.failed),
            ("ZCARD", keys.schedule),
            ("ZCARD", keys.retry),
            ("ZCARD", keys.dead),
            ("SMEMBERS", keys.queues),
            ("SMEMBERS", keys.paused),
            ("HGETALL", keys.owners),
        ]
    )
    names, paused = names or (), paused or ()
    in_progress, processes = _of_owners(connections, keys, read_entries(owners or ())[0])
    parked = lines.all()
    return Stats(
        processed=count_in(keys.processed, processed),
        failed=count_in(keys.failed, failed),
        scheduled=scheduled or 0,
        retries=retries or 0,
        dead=dead or 0,
        in_progress=in_progress,
        processes=processes,
        parked=sum(line.size for line in parked),
        outbox=sum(outbox.size for outbox in outboxes.all()),
        queues=queues.look_at(map(text, {*names, *paused}), set(map(text, paused))),
        limits=waiting_by_owner((line.name, line.size) for line in parked),
    )


def _of_owners(connections: Connections, keys: Keys, owners: Mapping[str, OwnerEntry]) -> tuple[int, int]:
    """How many jobs are in progress, and how many processes live."""
    lists = [keys.inprogress(queue, owner) for owner, entry in owners.items() for queue in entry.queues]
    leases = connections.exchange([("EXISTS", keys.lease(owner)) for owner in owners])
    return sum(lengths(connections, lists).values()), sum(leases)
