"""Checks that a reply is of the kind that Redis gives to its command. A reply of another kind was damaged on its way,
or belongs to another command. Then the later replies on that connection are not valid either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import redis

Fits = Callable[[Any], bool]


def one_of(*kinds: type[Any]) -> Fits:
    return lambda reply: type(reply) in kinds


def list_of(*kinds: type[Any]) -> Fits:
    allowed = frozenset(kinds)
    return lambda reply: type(reply) is list and allowed.issuperset(map(type, reply))


def _pairs(reply: Any) -> bool:
    return _texts(reply) and len(reply) % 2 == 0


_number, _text, _texts, _nothing = one_of(int), one_of(bytes), list_of(bytes), type(None)

# By the name of the command; for a script by its digest and by its source. Replies to other commands are not checked.
_FITS: dict[Any, Fits] = {
    **dict.fromkeys(
        ["DEL", "EXISTS", "EXPIRE", "HDEL", "HSET", "LLEN", "LPUSH", "LREM", "SADD", "SREM", "UNLINK", "ZADD", "ZCARD",
         "ZREM"], _number,
    ),
    **dict.fromkeys(["BRPOPLPUSH", "GET", "HGET", "LINDEX", "RPOPLPUSH"], one_of(bytes, _nothing)),
    **dict.fromkeys(["LRANGE", "SMEMBERS", "HKEYS", "HVALS", "TIME"], _texts),
    "CLIENT ID": _number,
    "HGETALL": _pairs,
    "HMGET": list_of(bytes, _nothing),
    "MULTI": _text,
}  # fmt: skip


def expect(script: str, fits: Fits) -> None:
    """`script`: its digest or its source."""
    _FITS[script] = fits


def check(commands: Sequence[Sequence[Any]], replies: Sequence[Any]) -> None:
    """Raises for a reply of a kind that its command never has."""
    in_transaction = bool(commands) and commands[0][0] == "MULTI"
    for command, reply in _answered(commands, replies) if in_transaction else zip(commands, replies, strict=True):
        name = command[0]
        fits = _FITS.get(command[1] if name in _SCRIPTS else name)
        if fits is not None and not fits(reply) and not isinstance(reply, redis.ResponseError):
            raise redis.InvalidResponse(f"the reply to {name} was damaged on its way")


def _answered(commands: Sequence[Sequence[Any]], replies: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Any]]:
    """Each command of a transaction with its reply: they are the parts of the reply to EXEC."""
    yield commands[0], replies[0]
    done, inner = replies[-1], commands[1:-1]
    if isinstance(done, list) and len(done) == len(inner):
        yield from zip(inner, done, strict=True)
    elif not isinstance(done, redis.ResponseError):
        raise redis.InvalidResponse("the reply to EXEC was damaged on its way")


_SCRIPTS = ("EVALSHA", "EVAL")
