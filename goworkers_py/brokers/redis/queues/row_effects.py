"""The effects of deliveries that only leave their list, as arguments of the scripts. Each delivery has a single effect,
and those of many deliveries share one word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import row_kinds
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.outcome import Done, Outcome

NumberOfFirst = Callable[[Sequence[str]], int]


def row_effect(outcome: Outcome) -> Effect | None:
    """The effect of a job that is done, if it has a single one, of a kind that rows have; None for any other job."""
    effects = outcome.effects
    if type(outcome) is not Done or len(effects) != 1:
        return None
    rows = row_kinds().get(type(effects[0]))
    return effects[0] if rows is not None and rows.fits(effects[0]) else None


def encode_rows(
    deliveries: Iterable[Delivery],
    effects: Mapping[Delivery, Effect],
    keys: Keys,
    number_of: NumberOf,
    number_of_first: NumberOfFirst,
) -> tuple[list[Argument], list[Argument]]:
    """The arguments before the rows, and those behind them. The deliveries are numbered from 1 on, in the order of the
    rows."""
    numbered = [(number, effects[delivery]) for number, delivery in enumerate(deliveries, 1) if delivery in effects]
    before, behind = list[Argument](), list[Argument]()
    for kind, rows in row_kinds().items():
        if of_kind := [pair for pair in numbered if type(pair[1]) is kind]:
            (before if rows.before else behind).extend(rows.encode(of_kind, keys, number_of, number_of_first))
    return before, behind
