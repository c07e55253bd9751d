"""Behind proxies of yours: the address of the client, and the scheme and the name by which its browser asks, as the
proxies tell them. Anybody can send such headers, so they count only from addresses that the configuration names."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from goworkers_py.web.http.request import Environ

FOR = "HTTP_X_FORWARDED_FOR"
HOST = "HTTP_X_FORWARDED_HOST"
PROTO = "HTTP_X_FORWARDED_PROTO"
_NOT_READ = {"HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA"}
OF_PROXIES = {FOR, HOST, PROTO, *_NOT_READ}

Wsgi = Callable[[Environ, Any], Iterable[bytes]]


class TrustedProxies:
    """The WSGI application for requests of proxies. Threads share it."""

    def __init__(self, application: Wsgi, networks: Sequence[str]) -> None:
        self._application = application
        self._networks = [ipaddress.ip_network(network) for network in networks]

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if self._trusts(str(environ.get("REMOTE_ADDR") or "")):
            self._believe(environ)
        else:
            for name in (HOST, PROTO):  # FOR stays, as a sign that another proxy has sent this
                environ.pop(name, None)
        return self._application(environ, start_response)

    def _believe(self, environ: Environ) -> None:
        hops = 0  # of trusted proxies
        addresses = _list(environ.pop(FOR, ""))
        while addresses and self._trusts(str(environ["REMOTE_ADDR"])) and _address(addresses[-1]):
            environ["REMOTE_ADDR"] = str(_address(addresses.pop()))
            hops += 1
        hosts, schemes = _list(environ.pop(HOST, "")), _list(environ.pop(PROTO, ""))
        # Each proxy adds its value at the end, or puts it in the place of the former ones.
        if hosts:
            environ["HTTP_HOST"] = hosts[-min(max(hops, 1), len(hosts))]
        if schemes:
            scheme = schemes[-min(max(hops, 1), len(schemes))].lower()
            environ["wsgi.url_scheme"] = "https" if scheme == "https" else "http"
        for name in _NOT_READ:
            environ.pop(name, None)

    def _trusts(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def _list(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Some proxies add the port of the client."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
