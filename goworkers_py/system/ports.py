"""The HTTP ports of a process: probes for programs, pages for people. A port that is not configured imports nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goworkers_py.system.logs import is_for_everybody

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.fleet import Stats
    from goworkers_py.config.options import Config
    from goworkers_py.observe.health_report import HealthReport
    from goworkers_py.web.port import OpenPort

log = logging.getLogger(__name__)

OpenPages = Callable[[bool], "OpenPort"]  # is told whether the code of the jobs is known in this process


class Ports:
    """Each of them serves during its `with`."""

    def __init__(self, config: Config, stats: Callable[[], Stats], open_pages: OpenPages) -> None:
        self._config = config
        self._stats = stats
        self._open_pages = open_pages

    @contextmanager
    def probes(self, report: Callable[[], HealthReport], stats: Callable[[], Stats] | None = None) -> Iterator[None]:
        if not self._config.stats_port:
            yield
            return
        from goworkers_py.web.probes import serve

        config = self._config
        server = serve(config.stats_host, config.stats_port, config, report, stats or self._stats)
        try:
            yield
        finally:
            server.stop()

    @contextmanager
    def pages(self, knows_code: bool) -> Iterator[None]:
        if not self._config.web.port:
            yield
            return
        port = self._open_pages(knows_code)
        log.info("pages: %s", port.shown_address(is_for_everybody()))
        try:
            yield
        finally:
            port.stop()
