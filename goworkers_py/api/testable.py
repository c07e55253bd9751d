"""The part of an App that the test modes use: for a while, it opens another broker, or has one more client link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from goworkers_py.api.client_links import ClientLink
from goworkers_py.api.declarations import Declarations
from goworkers_py.api.partition import Partition
from goworkers_py.brokers.broker import Broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.strikes import Lock
from goworkers_py.runtime.daemon import Daemon

Open = Callable[[Config], Broker]


class Testable:
    _declared: Declarations
    _lock: Lock
    _config: Config | None
    _partitions: dict[str, Partition]
    _running: Daemon | None
    _open_broker: Open

    @contextmanager
    def with_broker(self, open_broker: Open) -> Iterator[None]:
        """Inside the block, this App uses the broker that `open_broker` returns, whatever its configuration says. A
        call of `configure` inside the block holds after it."""
        if self._running is not None:
            raise ConfigError("this App runs jobs in the background: call quit() before you test with it")
        with self._lock:
            config, partitions, before = self._config, self._partitions, self._open_broker
            self._open_broker, self._partitions = open_broker, {}
        try:
            yield
        finally:
            with self._lock:
                self._open_broker, self._partitions = before, partitions if self._config is config else {}
            if self._config is not config:
                for partition in partitions.values():
                    partition.close()

    @contextmanager
    def with_client_link(self, link: ClientLink) -> Iterator[None]:
        """Inside the block, each push of this App passes the link, behind the declared ones."""
        self._declared.client_links.append(link)
        try:
            yield
        finally:
            self._declared.client_links.remove(link)
