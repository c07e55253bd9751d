"""Properties of a message of RabbitMQ, beside its body: its headers, its content type, and where it was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from goworkers_py.core.values import dataclass

# The only name in `headers` that cannot be read. Its value is the bytes of all of them.
UNREADABLE = "pyworkers-unreadable"


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message that another program has published, by their names in AMQP: None where it has set
    none. `workers.current_message().properties` has them; docs/rabbitmq.md shows how to use them."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    message_id: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    type: str | None = None
    app_id: str | None = None
    user_id: str | None = None
    timestamp: int | None = None  # as the other program has written it: epoch seconds, by AMQP
    expiration: str | None = None
    priority: int | None = None
    exchange: str | None = None  # empty: the default exchange
    routing_key: str | None = None
    redelivered: bool = False  # RabbitMQ has delivered it before: it may have run
