"""Reads an address amqp://user:password@host:port/vhost?heartbeat=10 into what pika needs for a connection."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pika  # type: ignore[import-untyped]

from goworkers_py.brokers.address import address_of
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError

PORTS = {"amqp": 5672, "amqps": 5671}
# A connection that was lost without a sign is noticed within about twice this time.
HEARTBEAT_S = 5
CONNECT_S = 5.0
_OF_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("heartbeat", *_OF_TLS)


def parameters_of(config: Config) -> Any:
    """The pika.ConnectionParameters of `config.broker`. Raises ConfigError for an address that cannot be right."""
    try:
        return _parameters(address_of(config))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{config.spelling('broker')}: the server's address is not valid: {error}") from None


def _parameters(address: str) -> Any:
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise ValueError(f"{unknown[0]} is no option; there are {', '.join(_OPTIONS)}")
    host = parts.hostname or "localhost"
    return pika.ConnectionParameters(
        host=host,
        port=parts.port or PORTS[parts.scheme],
        virtual_host=unquote(parts.path[1:]) or "/",
        credentials=pika.PlainCredentials(unquote(parts.username or "guest"), unquote(parts.password or "guest")),
        heartbeat=_seconds(options.get("heartbeat", str(HEARTBEAT_S))),
        socket_timeout=CONNECT_S,
        stack_timeout=2 * CONNECT_S,
        connection_attempts=1,
        ssl_options=_tls(options, host) if parts.scheme == "amqps" else None,
        client_properties={"product": "goworkers-py", "connection_name": "pyworkers"},
    )


def _seconds(text: str) -> int:
    if not text.isdigit() or int(text) > 3600:
        raise ValueError(f"heartbeat is a number of seconds up to 3600, not {text!r}")
    return int(text)


def _tls(options: dict[str, str], host: str) -> Any:
    """The same options as in an address rediss://."""
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if options.get("ssl_check_hostname", "true").lower() in ("false", "no", "0"):
        context.check_hostname = False
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return pika.SSLOptions(context, host)
