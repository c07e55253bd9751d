"""Elections in Redis: a lease that expires, and a record with the last epoch, which never does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import simplejson

from goworkers_py.brokers.contracts.recoverable import GONE_FOR_S
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.fleet.leases import GONE_LIVES_S
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused, Fenced
from goworkers_py.core.fence import Fence
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Leader, News, Standing
from goworkers_py.features.standby.redis_part import LUA, election_key

# The version of the lease, the record and the messages.
V = 1

_WIN = Script(LUA / "win.lua", one_of(int))
_RENEW = Script(LUA / "renew.lua", one_of(bytes, type(None)))
_RESIGN = Script(LUA / "resign.lua", one_of(int))
_ASK = Script(LUA / "ask_leader.lua", one_of(int))
_SHORTEN = Script(LUA / "shorten_lease.lua", one_of(int))


def patience_s(config: Config) -> float:
    """A leader must know that a renewal fails while there is still time for another one."""
    return config.leader_lease / 4


class RedisLeadership(Leadership):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        """`connections` are not fenced, and give up sooner than a lease ends."""
        self._connections = connections
        self._keys = keys
        self._listener = listener

    def look(self, election: str) -> Standing:
        lease = self._keys.fence(election)
        lease_record, left_ms, record = self._connections.exchange(
            [("HGETALL", lease), ("PTTL", lease), ("HGETALL", election_key(self._keys, election))]
        )
        won = _fields(record)
        leader = _leader(_fields(lease_record), max(0, left_ms) / 1000) if lease_record else None
        return Standing(leader, _number(won.get("epoch", "")), won.get("identity", ""))

    def win(self, election: str, bid: Bid, lease_s: float) -> int:
        keys, last = self._keys, bid.seen.last
        names = (
            keys.fence(election),
            election_key(keys, election),
            keys.gone,
            keys.lease(last) if last else keys.nothing,
        )
        known = max(bid.epoch, bid.seen.epoch)
        epoch: int = self._connections.script(
            _WIN,
            names,
            (bid.token, bid.identity, _ms(lease_s), known, last, int(bid.prefers), GONE_FOR_S, GONE_LIVES_S, V),
        )
        if epoch < 0:
            raise BrokerRefused(
                f"a later release has written {names[1]}: upgrade this process, or stop it until the others go back"
            )
        return epoch

    def renew(self, election: str, fence: Fence, identity: str, lease_s: float) -> str:
        message = _message("beat", fence.epoch, identity)
        asked = self._connections.script(_RENEW, (self._keys.fence(election),), (fence.token, _ms(lease_s), message))
        if asked is None:
            raise Fenced("another process leads by now, or the lease of this leader has ended")
        return text(asked)

    def resign(self, election: str, fence: Fence, identity: str, successor: str = "") -> bool:
        names = self._keys.fence(election), election_key(self._keys, election)
        message = _message("farewell", fence.epoch, identity, successor)
        return bool(self._connections.script(_RESIGN, names, (fence.token, identity, message)))

    def ask_to_step_down(self, election: str, epoch: int, by: str) -> bool:
        message = _message("step-down", epoch, "", by)
        return bool(self._connections.script(_ASK, (self._keys.fence(election),), (epoch, by, message)))

    def shorten(self, election: str, epoch: int) -> bool:
        return bool(self._connections.script(_SHORTEN, (self._keys.fence(election),), (epoch,)))

    def listen(self, election: str, heard: Callable[[News], None]) -> Callable[[], None]:
        return self._listener.listen(self._keys.fence(election), lambda message: heard(_news(message)))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _fields(flat: list[bytes]) -> dict[str, str]:
    return {text(name): text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _leader(fields: Mapping[str, str], left_s: float) -> Leader:
    epoch, since = _number(fields.get("epoch", "")), fields.get("since", "")
    at = float(since) if since.replace(".", "", 1).isdecimal() else 0.0
    life_s = _number(fields.get("life", "")) / 1000 or math.inf  # a leader of 0.4.0 does not tell it
    return Leader(
        fields.get("identity", ""), epoch, fields.get("prefers") == "1", at, left_s, fields.get("asked", ""), life_s
    )


def _number(digits: str) -> int:
    return int(digits) if digits.isdecimal() else 0


def _message(what: str, epoch: int, identity: str, successor: str = "") -> str:
    return simplejson.dumps({"v": V, "what": what, "epoch": epoch, "identity": identity, "successor": successor})


def _news(message: bytes) -> News:
    """A message that cannot be read counts as one that was missed: the listener looks at the lease then."""
    try:
        fields = simplejson.loads(message or b"{}")
        return News(fields["what"], int(fields["epoch"]), fields["identity"], fields["successor"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return News()
