"""The effects of deliveries that only leave their list, as arguments of settle.lua. Each has a single effect, and those
of many deliveries share one word. Only this module writes them, and only settle.lua reads them."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from goworkers_py.brokers.redis.batch_place import batch_place
from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.effects import number_of_index
from goworkers_py.core.batch import Membership
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import Done, Outcome
from goworkers_py.core.tie_effect import EndInBatch
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.unique.effects import FreeLock

RowEffect = NoteState | EndInBatch | FreeLock
NumberOfFirst = Callable[[Sequence[str]], int]


def row_effect(outcome: Outcome) -> RowEffect | None:
    """The effect of a job that is done, and is tracked, in a batch or unique, and not two of these; None for any other
    job."""
    effects = outcome.effects
    if type(outcome) is not Done or len(effects) != 1:
        return None
    effect = effects[0]
    if type(effect) is NoteState:
        return None if effect.only_known else effect
    if type(effect) is EndInBatch:
        return effect if effect.way == "succeeded" else None
    return effect if type(effect) is FreeLock else None


def encode_rows(
    deliveries: Iterable[Delivery],
    effects: Mapping[Delivery, RowEffect],
    keys: Keys,
    number_of: NumberOf,
    number_of_first: NumberOfFirst,
) -> tuple[list[Argument], list[Argument]]:
    """The arguments before the rows, and those behind them. The deliveries are numbered from 1 on, in the order of the
    rows."""
    told = [(number, effects[one]) for number, one in enumerate(deliveries, 1) if one in effects]
    before = _ends([(number, one) for number, one in told if type(one) is EndInBatch], keys, number_of)
    return [*before], [
        *_notes([(number, one) for number, one in told if type(one) is NoteState], keys, number_of, number_of_first),
        *_frees([(number, one) for number, one in told if type(one) is FreeLock], keys, number_of_first),
    ]


def _notes(
    told: Iterable[tuple[int, NoteState]], keys: Keys, number_of: NumberOf, number_of_first: NumberOfFirst
) -> Iterator[Argument]:
    """Notes that differ only in the job and in the values of their fields share one word."""
    groups: defaultdict[tuple[StateWord, int, str, str, tuple[str, ...]], _Alike] = defaultdict(_Alike)
    for number, ((jid, job_class), state, reason, life_s, fields, _) in told:
        names = tuple([name for name, _ in fields]) if fields else ()
        group = groups[state, life_s, reason, job_class, names]
        group.numbers.append(number)
        group.records.append(keys.record(jid))
        if fields:
            group.values += [value for _, value in fields]
    for (state, life_s, reason, job_class, names), group in groups.items():
        first, index = number_of_first(group.records), number_of_index(state, life_s, keys, number_of)
        yield from ("notes", state, life_s, reason, job_class, index, _packed(group.numbers), first)
        yield from (len(names), *names, *group.values)


def _ends(told: Iterable[tuple[int, EndInBatch]], keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    """Ends in one batch share one word."""
    groups: defaultdict[Membership, list[int]] = defaultdict(list)
    for number, end in told:
        groups[end.member].append(number)
    for member, numbers in groups.items():
        yield from ("ends", _packed(numbers), *batch_place(member, keys, number_of))


def _frees(told: Sequence[tuple[int, FreeLock]], keys: Keys, number_of_first: NumberOfFirst) -> Iterator[Argument]:
    if told:
        first = number_of_first([keys.lock(lock.name) for _, lock in told])
        yield from ("frees", _packed([number for number, _ in told]), first)
        yield from (lock.jid for _, lock in told)


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}H", *numbers)


class _Alike:
    """Notes that share a word: the numbers of their deliveries, the keys of their records, the values of the fields."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.records: list[str] = []
        self.values: list[Argument] = []
