"""The server that a configuration names, and what talks to it."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.base import Broker
from goworkers_py.brokers.redis import RedisBroker
from goworkers_py.config import Config
from goworkers_py.connection import Connections
from goworkers_py.embedded import EmbeddedServer
from goworkers_py.keys import Keys


class Backend:
    """An embedded server is started at once; to another one nothing is said before the first question."""

    def __init__(self, config: Config) -> None:
        self._server = EmbeddedServer(Path(config.data_dir)) if config.redis == "embedded" else None
        self.connections = Connections(self._server.start() if self._server else config.redis)
        self.keys = Keys(config.namespace)
        self.broker: Broker = RedisBroker(
            self.connections, self.keys, dead_max_jobs=config.dead_max_jobs, dead_timeout=config.dead_timeout
        )

    def close(self) -> None:
        self.broker.close()
        if self._server is not None:
            self._server.close()
