"""The name of a broker, by which held pushes find their way to it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from goworkers_py.config.cluster_address import is_cluster
from goworkers_py.config.parsers import scheme_of
from goworkers_py.core.home import Home

PORTS = {"redis": "6379", "rediss": "6379", "amqp": "5672", "amqps": "5671"}
_LOOPBACK = re.compile(r"^(localhost|127\..*|\[?::1\]?)?(:|$)")


def home_of(address: str, namespace: str, data_dir: str) -> Home:
    """The same for all spellings of an address, without users, passwords and options of the client. Where an address
    means another server on each machine, the name says on which machine."""
    scheme = scheme_of(address)
    parts = urlsplit(address)
    place, database = parts.netloc.rpartition("@")[2].lower(), "".join(parse_qs(parts.query).get("db", []))
    machine = ""
    if address == "embedded":
        name, machine = f"embedded {Path(data_dir).resolve()}", socket.gethostname()
    elif scheme == "unix":
        socket_path = address.partition("://")[2].partition("?")[0].rpartition("@")[2]
        name, machine = f"unix://{Path(socket_path).resolve()} database {database or 0}", socket.gethostname()
    elif scheme in PORTS:
        host, _, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", PORTS[scheme])
        within = parts.path.strip("/") if scheme.startswith("amqp") else parts.path.strip("/") or database or 0
        name = f"{scheme}://{host or 'localhost'}:{port}/{within}"
        machine = socket.gethostname() if _LOOPBACK.match(host) else ""
    elif is_cluster(address):
        name, namespace = f"{scheme}://{','.join(sorted(place.split(',')))}{parts.path}", ""  # the path is a namespace
    else:
        name = f"{scheme}://{place}{parts.path}"
    on = f" on {machine}" if machine else ""
    return Home(f"{name}{on}{f' namespace {namespace}' if namespace else ''}", shared=scheme != "memory")
