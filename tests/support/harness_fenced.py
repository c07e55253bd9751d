"""The Redis broker behind a fence, for the contract suite: each broker leads an election of its own.

PYWORKERS_TEST_HARNESS=harness_fenced:FencedRedisHarness pytest tests/contract
"""

from __future__ import annotations

import atexit
import math
import secrets
from pathlib import Path

from harnesses import RedisHarness
from servers import RedisServer

from goworkers_py.brokers import open_broker
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.config.options import Config
from goworkers_py.core.fence import Fence
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Standing

_PREFIX = "fenced+"
# Started here, before the fixtures that check what a test leaves behind.
_server = RedisServer()
atexit.register(_server.close)


class FencedBroker(RedisBroker):
    @classmethod
    def open(cls, config: Config) -> RedisBroker:
        election, token = secrets.token_hex(4), secrets.token_hex(4)
        broker = cls(config.broker.removeprefix(_PREFIX), config, Fence(election, token))
        assert broker.fence is not None
        broker.fence.epoch = broker.require_part(Leadership).win(
            election, Bid("", token, False, Standing(None, 0, "")), 3600
        )
        broker.fence.hold(math.inf)
        return broker


open_broker._BUILTIN["fenced+redis"] = f"{__name__}:FencedBroker"


class FencedRedisHarness(RedisHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__(_server.url)
        self.address = _PREFIX + _server.url

    def expire_lease(self, identity: str) -> None:
        RedisHarness.expire_lease(_At(self.address.removeprefix(_PREFIX)), identity)

    def _empty(self) -> None:
        RedisHarness._empty(_At(self.address.removeprefix(_PREFIX)))


class _At(RedisHarness):
    def __init__(self, address: str) -> None:
        self.address = address
