"""Servers that Sentinel watches: each new connection asks the sentinels where the primary is now."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, parse_url, to_bool
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

# Short: when one sentinel is gone, the next one is asked.
SENTINEL_TIMEOUT_S = 1.0
SENTINEL_PORT = 26379


def options_in(url: str) -> dict[str, Any]:
    """The options of connections in an address, without those for the form of replies: this program chooses them."""
    said: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    return {name: value for name, value in said.items() if name not in ("decode_responses", "protocol")}


def sentinel_pool(url: str, **options: Any) -> ConnectionPool:
    """The pool for an address sentinel://user:password@host:port,host:port/service/db?...

    The login and the options after the question mark are for the servers. The options sentinel_username and
    sentinel_password are the login for the sentinels; TLS (`ssl=true`, ssl_...) is for both.
    """
    address, _, query = url.removeprefix("sentinel://").partition("?")
    login_and_hosts, _, path = address.partition("/")
    login, _, hosts = login_and_hosts.rpartition("@")
    service, _, db = path.strip("/").partition("/")
    server = options_in(f"redis://{login}@server/{db or 0}?{query}")
    for name in ("host", "port"):
        server.pop(name, None)
    server["ssl"] = to_bool(server.get("ssl"))  # type: ignore[no-untyped-call]
    own = {name: server.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    asking = {name: value for name, value in own.items() if value}
    if server["ssl"]:
        asking |= {name: value for name, value in server.items() if name.startswith("ssl")}
    sentinels = _Sentinels(  # type: ignore[no-untyped-call]
        [_host_and_port(host) for host in hosts.split(",")],
        sentinel_kwargs={
            "socket_timeout": SENTINEL_TIMEOUT_S,
            "socket_connect_timeout": SENTINEL_TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **asking,
        },
    )
    pool: ConnectionPool = SentinelConnectionPool(service or "mymaster", sentinels, **{**options, **server})  # type: ignore[no-untyped-call]
    return pool


class _Sentinels(Sentinel):
    """Replaces `discover_master` of redis-py for two reasons. Many threads call it at once, and redis-py sorts its list
    of sentinels in place, which garbles the list. And when redis-py finds no primary, its error shows all options of
    every sentinel, in older versions the passwords too."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        failures = list[Exception]()
        for sentinel in (asked := self.sentinels):
            try:
                masters: Any = sentinel.sentinel_masters()
            except redis.AuthenticationError as error:
                options = "?sentinel_username=...&sentinel_password=..."
                raise redis.AuthenticationError(f"that is a sentinel's own login ({options}): {error}") from error
            except redis.ResponseError:
                raise
            except (redis.ConnectionError, redis.TimeoutError) as error:
                failures.append(error)
                continue
            state = masters.get(service_name)
            if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                if sentinel is not asked[0]:
                    self.sentinels = [sentinel, *(other for other in asked if other is not sentinel)]
                return state["ip"], state["port"]
        known = f"{len(asked) - len(failures)} of {len(asked)} sentinels answer, none knows a primary {service_name!r}"
        # The cause tells `translation` of a certificate that is not accepted: to wait for that one would be in vain.
        cause = failures[-1] if failures else None
        raise MasterNotFoundError("; ".join([known, *map(str, failures)])) from cause


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if text.rpartition(":")[2].isdigit() else (text, "", "")
    return host.strip("[]"), int(port or SENTINEL_PORT)


def close_sentinels(pool: ConnectionPool) -> None:
    """Closes the connections of this pool to its sentinels, if it has any."""
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            sentinel.close()
