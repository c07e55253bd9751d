"""Reads an address disque://:password@host:port,host:port?retry=60&ttl=2592000&replicate=2&ack=fast."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from goworkers_py.core.values import dataclass

PORT = 7711
# A job whose process is gone comes again after so long. Processes that live ask for more time before.
RETRY_S = 60
# Disque drops a job that is older, whether it has run or not.
TTL_S = 30 * 86_400
_ACKS = {"all": "ACKJOB", "fast": "FASTACK"}
_HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^\[\]:]*)(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    nodes: tuple[str, ...]  # of each node the address redis://..., by which redis-py connects
    retry_s: int = RETRY_S
    ttl_s: int = TTL_S
    replicate: int | None = None  # None: as the cluster does, three copies or as many as it has nodes
    ack: str = "ACKJOB"


def read_address(text: str) -> Address:
    """Raises ValueError for an address that cannot be right. The message never shows the password."""
    servers, _, query = text.removeprefix("disque://").partition("?")
    login, _, hosts = servers.rstrip("/").rpartition("@")
    if "/" in hosts:
        raise ValueError("no path follows the hosts of a Disque cluster")
    options = dict(parse_qsl(query, strict_parsing=bool(query)))
    if unknown := sorted(options.keys() - {"retry", "ttl", "replicate", "ack"}):
        raise ValueError(f"{unknown[0]} is no option; there are retry, ttl, replicate and ack")
    ack = options.get("ack", "all")
    if ack not in _ACKS:
        raise ValueError(f"ack is all or fast, not {ack!r}")
    retry_s, ttl_s = _whole("retry", options, RETRY_S), _whole("ttl", options, TTL_S)
    if ttl_s < 2 * retry_s:
        raise ValueError("ttl must be at least twice retry: in its second half Disque gives no job more time")
    replicate = _whole("replicate", options, 1) if "replicate" in options else None
    prefix = f"redis://{login}@" if login else "redis://"
    return Address(tuple(prefix + _server(host) for host in hosts.split(",")), retry_s, ttl_s, replicate, _ACKS[ack])


def _server(text: str) -> str:
    fits = _HOST.fullmatch(text)
    if fits is None or int(fits["port"] or 1) not in range(1, 65_536):
        raise ValueError("only a colon and a port number up to 65535 may follow a host")
    return f"{fits['host'] or 'localhost'}:{fits['port'] or PORT}"


def _whole(name: str, options: dict[str, str], default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise ValueError(f"{name} is a whole number from 1 on, not {text!r}")
    return int(text)
