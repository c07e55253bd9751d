"""Properties of a message of RabbitMQ, beside its body: its headers, its content type, and where it was published.

A body of plain format keeps them in its job, inside of the field `plain`, so that a retry has them too. JSON has no
bytes, times, decimals and NaN: such a value is written as an object with one tagged name, see `_TAGS`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from goworkers_py.core.values import dataclass
from goworkers_py.wire.needs import is_version

FIELD = "plain"  # in the job: {"v": 1, "as": "text" or "base64", "properties": {...}}
V = 1
PROPERTIES = "properties"
# The only name in `headers` that cannot be read. Its value is the bytes of all of them.
UNREADABLE = "pyworkers-unreadable"

# By the only name of the object: how it is read.
_TAGS: dict[str, Callable[[Any], Any]] = {
    "$base64": lambda text: base64.b64decode(text, validate=True),
    "$time": lambda seconds: datetime.fromtimestamp(seconds, timezone.utc),
    "$decimal": Decimal,
    "$float": float,
    "$object": lambda fields: {name: _read(value) for name, value in dict(fields).items()},
}


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

    def record(self) -> dict[str, Any]:
        """As JSON, without those that are not set."""
        return {name: _written(value) for name in _NAMES if _is_set(value := getattr(self, name))}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Properties | None:
        """The properties in the fields of a job; None for a job that has none. Strangers write payloads: what cannot be
        read is left out."""
        plain = fields.get(FIELD)
        record = plain.get(PROPERTIES) if isinstance(plain, dict) and is_version(plain.get("v"), V) else None
        if not isinstance(record, dict):
            return None
        try:
            properties = {name: _read(value) for name, value in record.items() if name in _NAMES}
        except (ValueError, TypeError, ArithmeticError, OSError):
            return None
        if not isinstance(properties.get("headers", {}), dict):
            del properties["headers"]
        return cls(**properties)


_NAMES = dict.fromkeys(field.name for field in dataclasses.fields(Properties))


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != {}


def _written(value: Any) -> Any:
    if type(value) is str or type(value) is int:  # nearly all
        return value
    match value:
        case bytes() | bytearray():
            return {"$base64": base64.b64encode(value).decode()}
        case datetime():
            return {"$time": value.timestamp()}
        case Decimal():
            return {"$decimal": str(value)}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case Mapping():
            # A name may be bytes, where another program has not written UTF-8.
            inner = {_name(name): _written(element) for name, element in value.items()}
            return {"$object": inner} if len(inner) == 1 and not inner.keys().isdisjoint(_TAGS) else inner
        case list() | tuple():
            return [_written(element) for element in value]
    return value


def _name(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(element) for element in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(tag, written)] = value.items()
        if tag in _TAGS:
            return _TAGS[tag](written)
    return {name: _read(element) for name, element in value.items()}
