"""Which shard holds a job: rendezvous hashing of its placement key.

Each shard has a weight for each key, made from the key and the name of the shard alone. The shard with the highest
weight is the home of the key. So all processes agree without asking anybody, the order of the addresses does not
matter, and another shard takes only the keys for which its weight is the highest: one in N.

The placement key of a job is that of its guarantee: its lock, batch, group or limit. The guarantee lives on the home of
that key, and the job beside it, because both change in one step. A job with two of these is refused. A plain job has
its jid as key, and may lie on any shard: when its home is away it goes to the next in the order of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.group import Group
from goworkers_py.core.limit import Slot

_JID = b'"jid":'


class Placed(NamedTuple):
    """Where a push belongs, and why."""

    key: bytes
    bound_by: str  # the guarantee that lives on the home of the key; empty: the job may lie on any shard


class Placement:
    def __init__(self, names: Sequence[str]) -> None:
        self._states = [blake2b(digest_size=8, key=name.encode()[:64]) for name in names]

    def home(self, key: str | bytes) -> int:
        """The number of the shard on which the key lives."""
        weights = self._weights(key)
        return weights.index(max(weights))

    def order(self, key: str | bytes) -> list[int]:
        """The numbers of all shards, the home first."""
        weights = self._weights(key)
        return sorted(range(len(weights)), key=weights.__getitem__, reverse=True)

    def _weights(self, key: str | bytes) -> list[bytes]:
        told = key.encode() if isinstance(key, str) else key
        weights = []
        for state in self._states:
            weight = state.copy()
            weight.update(told)
            weights.append(weight.digest())
        return weights


def placed(push: Push) -> Placed:
    """Raises BrokerRefused for a push with two guarantees that live on shards of their own."""
    if not push.tied:
        return Placed(jid_in(push.payload), "")
    ties = dict(_ties(push))
    if len(ties) > 1:
        raise BrokerRefused(
            f"a job on shards cannot have {' and '.join(ties.values())}: each of them lives on a shard of its own; "
            "give it one of them only, or put these jobs on one server, in a partition of its own"
        )
    for key, what in ties.items():
        return Placed(key.encode(), what)
    if push.track is not None:
        return Placed(push.track.jid.encode(), "a record")
    return Placed(push.id.encode(), "an id")


def _ties(push: Push) -> Iterator[tuple[str, str]]:
    if push.lock is not None:
        yield key_of_lock(push.lock.name), f"the lock {push.lock.name}"
    if push.batch:
        yield key_of_batch(push.batch), f"the batch {push.batch}"
    if push.group is not None:
        yield key_of_group(push.group.group), f"the group {push.group.group.name}"
    if push.slot is not None:
        yield key_of_slot(push.slot.slot), f"the limit {push.slot.slot.limit}"


def key_of_lock(name: str) -> str:
    """The lock of a periodic job against overlaps lives beside its schedule, which takes it."""
    before, of_schedule, schedule = name.partition(":periodic:")
    return f"periodic:{schedule}" if of_schedule else f"lock:{before}"


def key_of_schedule(source: str, name: str) -> str:
    return f"periodic:{source}:{name}"


def key_of_batch(bid: str) -> str:
    """A batch inside of another one lives beside that one: its name begins with that of the outermost."""
    return f"batch:{bid.partition('.')[0]}"


def key_of_group(group: Group) -> str:
    return f"group:{group.queue}:{group.job_class}:{group.name}"


def key_of_slot(slot: Slot) -> str:
    return f"limit:{slot.id}"


def jid_in(payload: bytes) -> bytes:
    """The jid of a payload, found without parsing it: a plain job is placed by it, and may as well lie elsewhere."""
    at = payload.rfind(_JID)
    if at < 0:
        return payload
    begin = payload.find(b'"', at + len(_JID)) + 1
    end = payload.find(b'"', begin)
    return payload[begin:end] if 0 < begin < end else payload
