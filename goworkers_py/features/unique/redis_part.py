"""The part of unique jobs in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf, Script
from goworkers_py.brokers.redis.driver.packing import packed_numbers
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, RowsInRedis, TieInRedis
from goworkers_py.brokers.redis.queues.push_arguments import RESULT, RESULTS
from goworkers_py.brokers.redis.server.key_patterns import literally
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.lock import RESCHEDULED_S, LockClaim

LUA = Path(__file__).parent / "lua"
V = "1"
# Of one call of publish_unique.lua, which gives all payloads to one command.
MOST_UNIQUE = 1_000
_WAITS_FOR_NOTHING = ("skip", "raise")
_PUSH = Script(LUA / "push_unique.lua", RESULT, words=())
_PUBLISH = Script(LUA / "publish_unique.lua", RESULTS, words=())


# --- keys


def lock_key(keys: Keys, name: str) -> str:
    """Holds the lock of a unique job."""
    return f"{keys.prefix}pyworkers:lock:{name}"


def any_lock(keys: Keys, prefix: str) -> str:
    """A pattern for SCAN, for every lock whose name begins so."""
    return literally(lock_key(keys, prefix)) + "*"


def lock_in(keys: Keys, key: str) -> str:
    """The name of the lock that has this key."""
    return key.removeprefix(lock_key(keys, ""))


def _every_key(keys: Keys) -> dict[str, str]:
    return {"lock": lock_key(keys, "CLASS:DIGEST")}


# --- ties and effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={LockClaim: TieInRedis("lock", "lock_tie", "lock_check", _tie, alone=_alone)},
        effects={FreeLock: _free, KeepLock: _keep},
        rows={FreeLock: RowsInRedis("frees", "lock_effects", _rows)},
        handlers={"lock_effects": ("free", "keep")},
        every_key=_every_key,
        constants={"LOCK_V": f"'{V}'"},
    )


def _tie(claim: LockClaim, push: Push, keys: Keys, number_of: NumberOf, now: float) -> tuple[int, Sequence[Argument]]:
    lock, schedule = number_of(lock_key(keys, claim.name)), number_of(keys.schedule)
    known = claim.jid, claim.for_s, claim.on_conflict, claim.instead_of
    return lock, (*known, schedule, RESCHEDULED_S, claim.fields, push.queue)


def _alone(pushes: Sequence[Push], keys: Keys) -> tuple[Script, Sequence[str], Sequence[Argument]] | None:
    """For pushes that all go to one place, of jobs that have a lock and no other tie."""
    queue, at = pushes[0].queue, pushes[0].at
    if len(pushes) > MOST_UNIQUE:
        return None
    now, is_one = machine.time(), len(pushes) == 1
    names = [keys.queues, keys.queue(queue) if at is None else keys.schedule]
    arguments: list[Argument] = [queue, "" if at is None else at, now]
    for push in pushes:
        if push.id or len(push.ties) != 1 or type(claim := push.ties[0]) is not LockClaim:
            return None
        replaces = is_one and claim.on_conflict == "replace"
        if not (claim.on_conflict in _WAITS_FOR_NOTHING or replaces) or push.queue != queue or push.at != at:
            return None
        names.append(lock_key(keys, claim.name))
        arguments += (claim.jid, push.payload, claim.for_s, claim.instead_of)
        if replaces:
            names.append(keys.schedule)
            arguments.append(claim.fields)
    return _PUSH if is_one else _PUBLISH, names, arguments


def _free(effect: FreeLock, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    yield from ("free", number_of(lock_key(keys, effect.name)), effect.jid, 0)


def _keep(effect: KeepLock, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    due = "" if effect.due is None else effect.due
    yield from ("keep", number_of(lock_key(keys, effect.name)), effect.jid, 2, effect.for_s, due)


def _rows(
    frees: Sequence[tuple[int, FreeLock]],
    keys: Keys,
    number_of: NumberOf,
    number_of_first: Callable[[Sequence[str]], int],
) -> Iterator[Argument]:
    first = number_of_first([lock_key(keys, lock.name) for _, lock in frees])
    yield from ("frees", packed_numbers([number for number, _ in frees]), first)
    yield from (lock.jid for _, lock in frees)
