"""Where deliveries stand in an in-progress list.

A process pushes the jobs that it fetches to the head of its list, so the oldest job is the last entry. A delivery is
the n-th entry from the end if n - 1 older deliveries are still in progress. This is a guess: a reply that was lost put
an entry into the list that the process does not know. So settle.lua compares the bytes of each entry before it removes
entries by their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

from goworkers_py.core.delivery import Delivery

# Deliveries that leave are looked for among so many more of the oldest than leave.
NEAR = 16
# Lua copies every byte of a payload several times. Larger payloads are compared by commands of the server.
LARGE = 4_000

Deliveries = Mapping[Delivery, object]

_queue_of = attrgetter("queue")
_identity_of = attrgetter("identity")
_payload_of = attrgetter("payload")


class Row(NamedTuple):
    """Deliveries that leave one in-progress list for good."""

    queue: str
    owner: str
    deliveries: list[Delivery]
    # One byte for each of the last entries of the list, the newest first: 1 for an entry that is to leave, which are
    # `deliveries` in their order, and 0 for one that stays. Empty when the places are not known.
    places: bytes = b""
    newest_first: bool = False  # from which end to look for a delivery whose place is not known

    @property
    def large(self) -> bool:
        return _size(self.deliveries) > LARGE * len(self.deliveries)

    @property
    def payloads(self) -> list[bytes]:
        return list(map(_payload_of, self.deliveries))


def rows(leaving: Deliveries, held: Sequence[Delivery]) -> Iterator[Row]:
    """`held`: the oldest deliveries that are in progress, the oldest first."""
    oldest = dict.fromkeys(held[: 2 * len(leaving) + NEAR])
    for queue in dict.fromkeys(map(_queue_of, leaving)):
        of_queue, oldest_of_queue = _only(queue, _queue_of, leaving), _only(queue, _queue_of, oldest)
        for owner in dict.fromkeys(map(_identity_of, of_queue)):
            last = list(_only(owner, _identity_of, oldest_of_queue))
            yield from _of_one_list(queue, owner, _only(owner, _identity_of, of_queue), last)


def _of_one_list(queue: str, owner: str, leaving: Deliveries, last: Sequence[Delivery]) -> Iterator[Row]:
    leaves = bytes(map(leaving.__contains__, last)).rstrip(b"\0")
    by_place = list(compress(last, leaves))
    if by_place and _are_worth_it(by_place, list(compress(last, leaves.translate(_INVERTED)))):
        yield Row(queue, owner, by_place[::-1], leaves[::-1])
    else:
        by_place = []
    if len(by_place) < len(leaving):
        found = set(by_place)
        rest = [one for one in leaving if one not in found]
        yield Row(queue, owner, rest, newest_first=leaves.find(1) > len(last) / 2 or (bool(last) and not leaves))


def _only(value: str, field: Callable[[Delivery], str], deliveries: Deliveries) -> Deliveries:
    if all(map(value.__eq__, map(field, deliveries))):
        return deliveries
    return {delivery: deliveries[delivery] for delivery in deliveries if field(delivery) == value}


def _are_worth_it(leaving: Sequence[Delivery], staying: Sequence[Delivery]) -> bool:
    """settle.lua reads the entries that stay too, and writes them once more. A delivery that is removed by its bytes
    writes its payload once more."""
    return len(staying) <= len(leaving) and _size(staying) <= _size(leaving)


def _size(deliveries: Sequence[Delivery]) -> int:
    return sum(map(len, map(_payload_of, deliveries)))


_INVERTED = bytes([1, 0]).ljust(256, b"\0")
