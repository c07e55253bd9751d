"""The properties of a message of RabbitMQ in the job that its body has become, so that a retry has them too.

JSON has no bytes, times, decimals and NaN: such a value is written as an object with one tagged name, see `_TAGS`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from goworkers_py.wire.needs import is_version
from goworkers_py.wire.properties import Properties

FIELD = "plain"  # in the job: {"v": 1, "as": "text" or "base64", "properties": {...}}
V = 1
PROPERTIES = "properties"

# By the only name of the object: how it is read.
_TAGS: dict[str, Callable[[Any], Any]] = {
    "$base64": lambda text: base64.b64decode(text, validate=True),
    "$time": lambda seconds: datetime.fromtimestamp(seconds, timezone.utc),
    "$decimal": Decimal,
    "$float": float,
    "$object": lambda fields: {name: _read(value) for name, value in dict(fields).items()},
}
_NAMES = dict.fromkeys(field.name for field in dataclasses.fields(Properties))


def record_of(properties: Properties) -> dict[str, Any]:
    """As JSON, without those that are not set."""
    return {name: _written(value) for name in _NAMES if _is_set(value := getattr(properties, name))}


def properties_in(fields: Mapping[str, Any]) -> Properties | None:
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
    return Properties(**properties)


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
