"""The address `shards:redis://a,redis://b`: one address for each shard, and a name that tells it from the others.

A shard is named by its server and database, `host:port/db`, whatever the scheme, user and options of its address are:
these may change. Where the server moves, the shard keeps its name if the address says it: `shards:one=redis://a,...`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from goworkers_py.config.parsers import shard_addresses
from goworkers_py.core.errors import ConfigError

LONGEST_NAME = 64


def named_addresses(address: str) -> Mapping[str, str]:
    """The address of each shard, by its name. Raises ConfigError."""
    found: dict[str, str] = {}
    try:
        told = shard_addresses(address)
    except ValueError as error:
        raise ConfigError(f"broker: {error}") from None
    for given, one in told:
        name = given or name_of(one)
        if name in found:
            raise ConfigError(f"broker: two shards have the name {name}: name each server and database once")
        if len(name) > LONGEST_NAME:
            raise ConfigError(
                f"broker: the name of shard {name} is too long: give it a name, as in shards:one=redis://..."
            )
        found[name] = one
    return found


def name_of(address: str) -> str:
    scheme, _, rest = address.partition("://")
    if scheme == "unix":
        return rest.partition("?")[0].rpartition("@")[2]
    parts = urlsplit(address)
    place, path = parts.netloc.rpartition("@")[2].lower(), parts.path.strip("/")
    if scheme == "sentinel":
        return path
    host, _, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "6379")
    return f"{host or 'localhost'}:{port}/{path or ''.join(parse_qs(parts.query).get('db', [])) or 0}"
