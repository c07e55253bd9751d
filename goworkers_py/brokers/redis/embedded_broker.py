"""The broker on an embedded Redis server, which starts when the broker is opened and stops with its last user."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.address import address_of
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.server.embedded_server import EmbeddedServer, find_server
from goworkers_py.config.options import Config
from goworkers_py.core.fence import Fence


class EmbeddedBroker(RedisBroker):
    reliability = RedisBroker.reliability._replace(
        server_killed="nothing",
        power_failure="the last second",
        network_cut="nothing: the socket is a file of this machine",
    )

    def __init__(self, server: EmbeddedServer, config: Config, fence: Fence | None = None) -> None:
        super().__init__(server.start(), config, fence)
        self._server = server

    @classmethod
    def open(cls, config: Config) -> EmbeddedBroker:
        address_of(config)  # raises ConfigError for a password
        return cls(EmbeddedServer(Path(config.data_dir)), config)

    @classmethod
    def open_fenced(cls, config: Config, fence: Fence) -> EmbeddedBroker:
        return cls(EmbeddedServer(Path(config.data_dir)), config, fence)

    @classmethod
    def check(cls, config: Config) -> None:
        address_of(config)
        find_server()

    def close(self) -> None:
        super().close()
        self._server.close()
