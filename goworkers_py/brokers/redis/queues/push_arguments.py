"""A push with ties as arguments of the scripts, see lua/fragments/push.lua."""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import tie_kinds
from goworkers_py.core.effect import ID_LIFE_S, Push
from goworkers_py.features import rank_of

# The answers of the scripts that publish one job, and several: see lua/fragments/push.lua.
RESULT, RESULTS = one_of(int, list), list_of(int, list)


def push_arguments(push: Push, keys: Keys, number_of: NumberOf, now: float) -> list[Argument]:
    """For each tie a word, the number of its key, how many values follow, and these."""
    arguments: list[Argument]
    if push.at is None:
        arguments = ["back", number_of(keys.queue(push.queue)), push.queue, push.payload, 0]
    else:
        arguments = ["schedule", number_of(keys.schedule), push.at, push.payload, 0]
    size = len(arguments)
    if push.id:
        arguments += ("id", number_of(keys.pushed(push.id)), 1, ID_LIFE_S)
    kinds = tie_kinds()
    for tie in sorted(push.ties, key=rank_of):
        kind = kinds[type(tie)]
        if (encoded := kind.encode(tie, push, keys, number_of, now)) is not None:
            key, values = encoded
            arguments += (kind.word, key, len(values), *values)
    arguments[size - 1] = len(arguments) - size
    return arguments
