"""Serves the pages on a port of their own: alone, or beside the jobs of a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from goworkers_py.admin.inspector import Inspector
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.config.web_options import WebConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.web import application
from goworkers_py.web.server import WebServer
from goworkers_py.web.site.access import Access, OnLoopback
from goworkers_py.web.site.by_file import ByFile
from goworkers_py.web.site.host import Host, Part


def open_port(host: Host, web: WebConfig) -> WebServer:
    """Raises ConfigError for an address in use, or for one on which everybody could change the fleet."""
    web.check()
    access: Access = ByFile(web.access_file) if web.access_file else OnLoopback(web.hosts)
    try:
        pages = application(host, access=access)
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise ConfigError("the pages need jinja2: pip install 'goworkers-py[web]'") from None
    server = WebServer(web.host, web.port, pages, "web")
    server.start()
    return server


class WithoutCode:
    """The program as a parent of processes sees it, which imports none of their code."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def config(self) -> Config:
        return self._host.config

    @property
    def inspector(self) -> Inspector:
        return self._host.inspector

    def partition(self, name: str = "") -> Part:
        return self._host.partition(name)

    def result(self, jid: str, timeout: float | None = None) -> Any:
        return self._host.result(jid, timeout)

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]:
        return self._host.checked_push(queue, job_class, args, options, kwargs)

    def our_work(self) -> None:
        return None
