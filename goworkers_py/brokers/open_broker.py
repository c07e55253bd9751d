"""The server that a configuration names, and what talks to it."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.brokers.contracts import Broker
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.embedded import EmbeddedServer
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import with_password
from goworkers_py.core.errors import ConfigError


class OpenBroker:
    """An embedded server is started at once; to another one nothing is said before the first question."""

    def __init__(self, config: Config) -> None:
        address = _address(config)
        self._server = EmbeddedServer(Path(config.data_dir)) if address == "embedded" else None
        self.connections = Connections(self._server.start() if self._server else address)
        self.keys = Keys(config.namespace)
        self.broker: Broker = RedisBroker(
            self.connections, self.keys, dead_max_jobs=config.dead_max_jobs, dead_timeout=config.dead_timeout
        )

    def close(self) -> None:
        self.broker.close()
        if self._server is not None:
            self._server.close()


def _address(config: Config) -> str:
    if not config.redis_password_file:
        return config.redis
    path = Path(config.directory, config.redis_password_file)
    try:
        password = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"redis_password_file {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"redis_password_file {path}: is no text in UTF-8") from None
    if not password:
        raise ConfigError(f"redis_password_file {path}: is empty")
    try:
        return with_password(config.redis, password)
    except ValueError as error:
        raise ConfigError(f"redis_password_file: the address in redis {error}") from None
