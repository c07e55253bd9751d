"""Locks of the gem sidekiq-unique-jobs in Redis."""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.lock import RubyLock
from goworkers_py.features.for_ruby.redis_part import LUA, ruby_lock_keys

_BEGIN = Script(LUA / "begin_ruby_lock.lua")


class RedisRubyLocks(RubyLocks):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def begin(self, lock: RubyLock) -> bool:
        needed = lock.needed or lock.digest
        keys = *ruby_lock_keys(self._keys, lock.digest), *ruby_lock_keys(self._keys, needed)
        flags = int(lock.freed_at_start and lock.digest != lock.needed), int(lock.needed != "")
        arguments = lock.jid, lock.digest, needed, *flags, lock.limit, lock.ttl_s
        return bool(self._connections.script(_BEGIN, keys, arguments) == 1)
