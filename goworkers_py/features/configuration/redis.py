"""Central configurations in Redis: a hash of the newest numbers, and a hash of versions for each configuration.

A version is JSON: {"v": 1, "text": ..., "by": ..., "at": ..., "of": ...}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import simplejson

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.features.configuration.contract import Configurations
from goworkers_py.features.configuration.redis_part import LUA, config_key, configs_key
from goworkers_py.features.configuration.stored_config import StoredConfig
from goworkers_py.wire.needs import is_version

KEPT = 50  # versions
V = 1
LATEST = 253_000_000_000.0  # in the year 9987
LARGEST = 4_000_000  # bytes of a record: the longest text, each of its characters as two escapes of JSON, and more

_NUMBER = re.compile(r"[1-9][0-9]{0,14}")
_PUSH = Script(LUA / "push_config.lua", one_of(int))
_DELETE = Script(LUA / "delete_config.lua", one_of(int))
_READ = Script(LUA / "read_config.lua", list_of(bytes))


class RedisConfigurations(Configurations):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        self._connections = connections
        self._keys = keys
        self._listener = listener

    def push(self, name: str, text: str, by: str, of: int = 0) -> int:
        seconds, micros = self._connections.call("TIME")
        record = written_config(text, by, int(seconds) + int(micros) / 1e6, of)
        version = self._changed(_PUSH, name, (name, record, KEPT, V))
        with suppress(BrokerError):  # it is stored; the processes find it with their next look
            self._connections.call("PUBLISH", configs_key(self._keys), name)
        return version

    def delete(self, name: str) -> bool:
        return self._changed(_DELETE, name, (name, V)) == 1

    def _changed(self, script: Script, name: str, arguments: Sequence[Argument]) -> int:
        version: int = self._connections.script(
            script, (configs_key(self._keys), config_key(self._keys, name)), arguments
        )
        if version < 0:
            raise BrokerRefused(f"a later release has written the configuration {name}: upgrade this program")
        return version

    def newest(self) -> Mapping[str, int]:
        reply = self._connections.call("HGETALL", configs_key(self._keys))
        numbers = {text(name): text(number) for name, number in zip(reply[::2], reply[1::2], strict=True)}
        return {name: int(number) for name, number in numbers.items() if _NUMBER.fullmatch(number)}

    def read(self, name: str, version: int = 0) -> StoredConfig | None:
        keys = configs_key(self._keys), config_key(self._keys, name)
        found: list[bytes] = self._connections.script(_READ, keys, (name, version, LARGEST))
        if not found:
            return None
        number, record = int(found[0]), found[1:]
        if not record:
            raise BrokerRefused(
                f"version {number} of the configuration {name} has more than {LARGEST:,} bytes, so pyworkers has not "
                f"written it: `pyworkers config rollback --name {name} VERSION` goes back to one of its versions"
            )
        return _read(record[0], name, number)

    def versions(self, name: str) -> Sequence[StoredConfig]:
        reply = self._connections.call("HGETALL", config_key(self._keys, name))
        fields = {text(field): raw for field, raw in zip(reply[::2], reply[1::2], strict=True)}
        # Another program may have written others.
        numbers = sorted(int(field) for field in fields if _NUMBER.fullmatch(field))
        found = [
            read_config(fields[str(number)], name, number) for number in numbers if len(fields[str(number)]) <= LARGEST
        ]
        return [config for config in found if config is not None]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(configs_key(self._keys), lambda message: changed())


def _read(raw: bytes, name: str, version: int) -> StoredConfig:
    found = read_config(raw, name, version)
    if found is None:
        raise BrokerRefused(f"this release cannot read version {version} of the configuration {name}: upgrade it")
    return found


def written_config(text: str, by: str, at: float, of: int) -> str:
    return simplejson.dumps({"v": V, "text": text, "by": by, "at": at, "of": of})


def read_config(raw: bytes, name: str, version: int) -> StoredConfig | None:
    """None for what this release cannot read."""
    with suppress(Exception):
        record = simplejson.loads(raw)
        if is_version(record["v"], V):
            text, by = str(record["text"]), str(record["by"])
            at = float(record["at"])
            if 0 <= at < LATEST:  # another program may have written a time that no calendar has
                return StoredConfig(name, version, text, by, at, int(record["of"]))
    return None
