"""The parts of Redis: of the engine, and of each feature. A push, a settlement and the composition of scripts fold over
them, and know no kind of tie or effect.

A part says where its Lua is, which fragments handle its words, and how its values become arguments of the scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goworkers_py.core.effect import KEPT_S, EnclosingEffect
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features import FEATURES

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.driver.packing import Argument
    from goworkers_py.brokers.redis.keys import Keys
    from goworkers_py.core.effect import Effect, Push
    from goworkers_py.core.job_state import StateWord

NumberOf = Callable[[str], int]  # gives the number of a key among the keys of a script
# The values of a tie behind its word: the number of its key, and the others. None: the push goes without this tie.
EncodeTie = Callable[[Any, "Push", "Keys", NumberOf, float], "tuple[int, Sequence[Argument]] | None"]
# The Script, its keys and its arguments. A script is composed of these parts, so they cannot know its type.
EncodeAlone = Callable[["Sequence[Push]", "Keys"], "tuple[Any, Sequence[str], Sequence[Argument]] | None"]
# The arguments of one effect: a word, the number of its key, an option, how many values follow, and these.
EncodeEffect = Callable[[Any, "Keys", NumberOf, float], "Iterable[Argument]"]
# The arguments of the effects of rows, with the numbers of their deliveries. The last function gives the number of the
# first of some keys, which the others follow.
EncodeRows = Callable[
    [Sequence[tuple[int, Any]], "Keys", "NumberOf", Callable[[Sequence[str]], int]], "Iterable[Argument]"
]
# As many values as Lua's `unpack` takes, in each of several calls.
AT_ONCE = 1_000


class TieInRedis(NamedTuple):
    word: str
    fragment: str  # a table of the steps of the tie, see lua/fragments/push.lua
    check: str  # a fragment with its check, see lua/fragments/check_push.lua
    encode: EncodeTie
    # A single push takes back what this tie has written before a refusal. So nothing is tried before it.
    takes_back: bool = True
    # The call by which pushes are published that have only this tie; None: these pushes are published as any others.
    # Its script answers as publish_one.lua does for one push, and as publish.lua does for several.
    alone: EncodeAlone | None = None


class RedisMoved(NamedTuple):
    """A move or an end of a job without a run, by people or because it was due."""

    payload: bytes
    state: StateWord  # in which it is then
    reason: str
    queue: str  # to which it was moved; empty where it is in none
    due: float | None
    dead_life_s: float  # for how long dead jobs are kept
    now: float
    # Of a job in a queue: Sidekiq's page puts dead jobs there and tells nobody.
    may_be_dead: bool = False


class RowsInRedis(NamedTuple):
    """Effects that deliveries have which only leave their list, and have no other effect."""

    word: str
    fragment: str  # a table with a function of that name
    encode: EncodeRows
    fits: Callable[[Any], bool] = lambda effect: True
    before: bool = False  # their arguments come before the rows


class ForeignCancel(NamedTuple):
    """A way in which another program cancels a job: by a field in a hash of the job."""

    key: Callable[[Keys, str], str]  # of the hash, by the jid
    field: str
    value: bytes | None = None  # of the field; None: any
    of_shown: bool = False  # only of jobs whose state programs of Ruby see
    # Asks the program that runs a job to end it, over the connections. True: the job is known to obey.
    ask: Callable[[Any, Keys, str], bool] | None = None


@dataclass(frozen=True)
class RedisPart:
    lua: Path  # the folder of scripts; its fragments are in a folder in it
    ties: Mapping[type[Any], TieInRedis] = field(default_factory=dict)
    effects: Mapping[type[Any], EncodeEffect] = field(default_factory=dict)
    rows: Mapping[type[Any], RowsInRedis] = field(default_factory=dict)
    handlers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by fragments the words of effects
    finishers: Sequence[str] = ()  # fragments with a function `finish`
    # The arguments of the effect of a move, from the payload alone. It may fail.
    moved: Callable[[RedisMoved, Keys, NumberOf], Iterable[Argument]] | None = None
    # A job goes to the dead set (True) or back to its queue, because Ruby cannot read its payload: the effect then. The
    # last argument is the life of dead jobs.
    elsewhere: Mapping[type[Any], Callable[[Any, bool, int], Effect]] = field(default_factory=dict)
    foreign_cancels: Sequence[ForeignCancel] = ()
    # Its keys, by names, with words in capitals in the places of names: for the page of the keys and its test.
    every_key: Callable[[Keys], Mapping[str, str]] = lambda keys: {}
    # The right types of those that all jobs share, by the names that the server's TYPE returns.
    types: Callable[[Keys], Mapping[str, str]] = lambda keys: {}
    constants: Mapping[str, float | str] = field(default_factory=dict)  # in Lua


class PushId:
    """The kind of the tie that is the id of a push."""


def _no_tie(tie: PushId, push: Push, keys: Keys, number_of: NumberOf, now: float) -> None:
    """`push_arguments` writes the id."""


# The effects of the engine become arguments in `queues.effects`.
_OWN = RedisPart(
    Path(__file__).parent / "lua",
    ties={PushId: TieInRedis("id", "id_tie", "id_check", _no_tie)},
    handlers={
        "once_effects": ("once",),
        "queue_effects": ("push", "post", "later", "value"),
        "born_effects": ("born",),
    },
    # So many words of a push come before its ties, and of a tie before its values: see `queues.push_arguments`.
    constants={"KEPT_S": f"'{KEPT_S}'", "AT_ONCE": AT_ONCE, "PUSH_SIZE": 5, "TIE_SIZE": 3},
)


@cache
def parts() -> tuple[RedisPart, ...]:
    """The part of the engine, then the parts of the features."""
    return _OWN, *[found for entry in FEATURES if (found := entry.redis()) is not None]


@cache
def tie_kinds() -> dict[type[Any], TieInRedis]:
    return {kind: tie for part in parts() for kind, tie in part.ties.items()}


@cache
def effect_kinds() -> dict[type[Any], EncodeEffect]:
    return {kind: encode for part in parts() for kind, encode in part.effects.items()}


@cache
def row_kinds() -> dict[type[Any], RowsInRedis]:
    return {kind: rows for part in parts() for kind, rows in part.rows.items()}


def types_of_shared(keys: Keys) -> dict[str, str]:
    """The right type of each key that all queues or all jobs share."""
    found = dict(keys.types)
    for part in parts():
        found |= part.types(keys)
    return found


def elsewhere(effect: Effect, is_dead: bool, dead_life_s: int) -> Effect:
    """The effect of a job that goes elsewhere than its outcome says."""
    for part in parts():
        if (change := part.elsewhere.get(type(effect))) is not None:
            return change(effect, is_dead, dead_life_s)
    return effect


@cache
def moves() -> tuple[Callable[[RedisMoved, Keys, NumberOf], Iterable[Argument]], ...]:
    return tuple([part.moved for part in parts() if part.moved is not None])


@cache
def foreign_cancels() -> tuple[ForeignCancel, ...]:
    return tuple([way for part in parts() for way in part.foreign_cancels])


@cache
def words_of_moves() -> frozenset[str]:
    return frozenset([word for part in parts() if part.moved for words in part.handlers.values() for word in words])


@cache
def words_for(kinds: frozenset[type[Any]]) -> frozenset[str] | None:
    """The words that a script is to know which gets effects of these kinds: none, those of the one feature that has
    them, those of all features, or all (None). So there are few scripts, and those of frequent calls are small. An
    effect that encloses others may have any inside."""
    if not kinds:
        return frozenset()
    features = [part for part in parts()[1:] if not any(issubclass(kind, EnclosingEffect) for kind in part.effects)]
    for some in (*[(part,) for part in features], features):
        if all(any(kind in part.effects for part in some) for kind in kinds):
            words = [word for part in some for words in part.handlers.values() for word in words]
            return frozenset([*words, *[rows.word for part in some for rows in part.rows.values()]])
    return None
