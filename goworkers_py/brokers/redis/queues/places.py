"""Where deliveries stand in an in-progress list.

A process pushes the jobs that it fetches to the head of its list, so the oldest job is the last entry. A delivery is
the n-th entry from the end if n - 1 older deliveries are still in progress. This is a guess: a reply that was lost put
an entry into the list that the process does not know. So settle.lua compares the bytes of each entry before it removes
entries by their place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import NamedTuple

# Deliveries that leave are looked for among so many more of the oldest than leave.
NEAR = 16
# Lua copies every byte of a payload several times. Larger payloads are compared by commands of the server.
LARGE = 4_000

Deliveries = Mapping[Delivery, object]


class SettledRow(NamedTuple):
    """Deliveries that leave one in-progress list for good."""

    queue: str
    owner: str
    deliveries: Sequence[Delivery]
    payloads: list[bytes]
    # One byte for each of the last entries of the list, the newest first: 1 for an entry that is to leave, which are
    # `deliveries` in their order, and 0 for one that stays. Empty when the places are not known.
    places: bytes = b""
    newest_first: bool = False  # from which end to look for a delivery whose place is not known

    @property
    def large(self) -> bool:
        return _size(self.payloads) > LARGE * len(self.payloads)


def rows(leaving: Deliveries, held: Sequence[Delivery]) -> Iterator[SettledRow]:
    """`held`: the oldest deliveries that are in progress, the oldest first. Equal calls give equal rows: a batch may be
    sent again, and its results are told by numbers."""
    oldest = held[: 2 * len(leaving) + NEAR]
    lists = {(delivery.queue, delivery.identity) for delivery in leaving}
    if len(lists) == 1:
        yield from _of_one_list(*lists.pop(), leaving, oldest)
        return
    oldest_of = _by_list(oldest)
    for one_list, deliveries in _by_list(leaving).items():
        yield from _of_one_list(*one_list, dict.fromkeys(deliveries), oldest_of.get(one_list, []))


def _by_list(deliveries: Iterable[Delivery]) -> dict[tuple[str, str], list[Delivery]]:
    found: defaultdict[tuple[str, str], list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.queue, delivery.identity].append(delivery)
    return found


def _of_one_list(queue: str, owner: str, leaving: Deliveries, oldest: Sequence[Delivery]) -> Iterator[SettledRow]:
    leaves = bytes([delivery in leaving for delivery in oldest]).rstrip(b"\0")
    staying = list(compress(oldest, leaves.translate(_INVERTED)))
    if len(_only(queue, owner, staying)) < len(staying):  # some are in another list, and have no place in this one
        yield from _of_one_list(queue, owner, leaving, _only(queue, owner, oldest))
        return
    by_place = list(compress(oldest, leaves))[::-1]
    payloads = _payloads(by_place)
    if by_place and _are_worth_it(payloads, _payloads(staying)):
        yield SettledRow(queue, owner, by_place, payloads, leaves[::-1])
    else:
        by_place = []
    if len(by_place) < len(leaving):
        found = set(by_place)
        rest = [delivery for delivery in leaving if delivery not in found]
        newest_first = leaves.find(1) > len(oldest) / 2 or (bool(oldest) and not leaves)
        yield SettledRow(queue, owner, rest, _payloads(rest), newest_first=newest_first)


def _only(queue: str, owner: str, deliveries: Iterable[Delivery]) -> list[Delivery]:
    return [delivery for delivery in deliveries if delivery.queue == queue and delivery.identity == owner]


def _are_worth_it(leaving: Sequence[bytes], staying: Sequence[bytes]) -> bool:
    """settle.lua reads the entries that stay too, and writes them once more. A delivery that is removed by its bytes
    writes its payload once more."""
    return len(staying) <= len(leaving) and (not staying or _size(staying) <= _size(leaving))


def _payloads(deliveries: Iterable[Delivery]) -> list[bytes]:
    return [delivery.payload for delivery in deliveries]


def _size(payloads: Sequence[bytes]) -> int:
    return sum(map(len, payloads))


_INVERTED = bytes([1, 0]).ljust(256, b"\0")
