"""Brokers on the server that tests share, and on servers of their own."""

from __future__ import annotations

from redis_brokers import broker, denied_server, make, own_broker, proxied  # noqa: F401
from redis_connections import connections, impatient, proxy, push_script  # noqa: F401
