"""The sets of words for which scripts are composed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from goworkers_py.brokers.redis.parts import parts, tie_kinds, words_for, words_of_moves
from goworkers_py.core.effect import EnclosingEffect
from goworkers_py.features.ruby_status.effects import ShowStatus

# Scripts that have neither ties nor effects, and are called often.
_WITHOUT = (
    *("publish_unique", "push_unique", "push_tracked", "look", "free_place"),
    *("begin_lock", "keep_locks"),
)


def word_sets(script: Path) -> list[Collection[str] | None]:
    """None is the set of all words."""
    if script.stem == "publish_one":
        words = [tie.word for tie in tie_kinds().values() if tie.takes_back]
        return [*({word} for word in words), set(words)]
    if script.stem in ("settle", "settle_rows", "begin_limits"):
        effects = [[kind for kind in part.effects if not issubclass(kind, EnclosingEffect)] for part in parts()[1:]]
        features = [frozenset(kinds) for kinds in effects if kinds]
        return [None, frozenset(), *map(words_for, features), words_for(frozenset().union(*features))]
    if script.stem == "mark_running":
        return [frozenset(), words_for(frozenset({ShowStatus}))]
    if script.stem == "promote":
        return [(), words_of_moves()]
    return [()] if script.stem in _WITHOUT else [None]
