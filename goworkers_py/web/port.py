"""Serves the pages on a port of their own: alone, or beside the jobs of a process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from goworkers_py.admin.inspector import Inspector
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.config.web_options import WebConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.web import application
from goworkers_py.web.server import WebServer
from goworkers_py.web.site.by_file import ByFile
from goworkers_py.web.site.host import Host, PagePart
from goworkers_py.web.site.start_token import PARAMETER, VARIABLE, StartToken, checked
from goworkers_py.web.site.trusted_proxies import TrustedProxies, Wsgi

M_MMAP_THRESHOLD, LARGEST_KEPT = -3, 200_000  # bytes; the first one is a constant of glibc


@dataclass(frozen=True, slots=True)
class OpenPort:
    server: WebServer
    address: str  # without an access file, with the token that lets in
    close: Callable[[], None]

    def shown_address(self, to_everybody: bool) -> str:
        """For people. A file that every user of this machine may read does not get the token."""
        without, login, _ = self.address.partition("?")
        if not to_everybody or not login or os.environ.get(VARIABLE):
            return self.address
        return (
            f"{without} (without its token, as every user of this machine may read this file: chmod o-r, or set "
            f"{VARIABLE}, or name an access_file in [web])"
        )

    def stop(self) -> None:
        self.server.stop()
        self.close()


def open_port(host: Host, web: WebConfig) -> OpenPort:
    """Raises ConfigError for an address in use, or for one on which everybody could change the fleet."""
    web.check()
    given = os.environ.get(VARIABLE)
    token = checked(given) if given else secrets.token_urlsafe(32)
    by_file = ByFile(web.access_file) if web.access_file else None
    pages: Wsgi
    try:
        pages = application(host, access=by_file or StartToken(token, web.hosts))
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise ConfigError("the pages need jinja2: pip install 'goworkers-py[web]'") from None
    if web.trusted_proxies:
        pages = TrustedProxies(pages, web.trusted_proxies)
    _give_memory_back()
    server = WebServer(web.host, web.port, pages, "web", "`port` in [web], or --port of `pyworkers web`")
    server.start()
    address = f"http://{f'[{web.host}]' if ':' in web.host else web.host}:{server.port}/"
    if by_file is not None:
        return OpenPort(server, address, by_file.close)
    # A token that somebody chose is written nowhere.
    return OpenPort(server, f"{address}?{PARAMETER}={f'${VARIABLE}' if given else token}", lambda: None)


def _give_memory_back() -> None:
    """Each large block that is freed raises the size up to which glibc keeps blocks for each thread, to 32 MB at most.
    Then the threads of requests would keep what they have read: 100 MB beside the jobs. A size that is set stays."""
    with suppress(ImportError, OSError, AttributeError):  # another C library than glibc, or none to be called
        import ctypes

        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)


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

    def partition(self, name: str = "") -> PagePart:
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
