"""Who may see the pages, and who may change something. Without an answer to that, nobody may."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from goworkers_py.config.web_options import is_loopback
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Environ

log = logging.getLogger(__name__)

VIEW, ACT = "view", "act"
Authorize = Callable[[Environ, str], bool]


@dataclass(frozen=True, slots=True)
class Grant:
    who: str  # for the audit
    view: bool
    act: bool
    by_token: bool = False  # which no browser sends by itself, so that no other site can use it


class Access(Protocol):
    """Threads share it."""

    def decide(self, environ: Environ) -> Grant:
        """Raises Refused for somebody who may see nothing."""


class Closed:
    """Of an application that was told nothing."""

    def decide(self, environ: Environ) -> Grant:
        raise Refused(
            403,
            "these pages are closed: give application() a function authorize(environ, action) that says who may "
            "`view` and who may `act`",
        )


class ByFunction:
    """The host application's own login says who may."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def decide(self, environ: Environ) -> Grant:
        try:
            view, act = (bool(self._authorize(environ, action)) for action in (VIEW, ACT))
        except Refused:
            raise
        except Exception:
            log.exception("authorize() of the pages has failed, so the pages are closed to this request")
            raise Refused(403, "who you are could not be found out: the log of this application says why") from None
        # The function may have set it.
        return Grant(str(environ.get("REMOTE_USER") or "somebody"), view, act)


_OF_PROXIES = {
    "HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP",
    "HTTP_VIA",
}  # fmt: skip


class OnLoopback:
    """For people at this machine: everybody may, who asks it under a name of its own.

    The name matters: a page of another site, whose name somebody lets point to 127.0.0.1, runs in the browser of this
    machine too, and may read what it gets from its own name.
    """

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = {host.lower() for host in hosts}

    def decide(self, environ: Environ) -> Grant:
        if any(environ.get(name) for name in _OF_PROXIES):
            raise Refused(
                403, "a proxy has sent this request, so it may come from anywhere: name an access_file in [web], which "
                "`pyworkers web grant NAME` writes"
            )  # fmt: skip
        host = _name_in(str(environ.get("HTTP_HOST") or ""))
        if host not in self._hosts and not is_loopback(host):
            raise Refused(
                403,
                f"asked as {host or 'nobody'}, and without an access_file these pages answer only as localhost: name "
                "it in `hosts` of [web], or let `pyworkers web grant NAME` make an access_file",
            )
        return Grant("somebody at this machine", view=True, act=True)


def _name_in(host: str) -> str:
    """Without the port, and the brackets of an address of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
