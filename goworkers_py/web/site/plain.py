"""Writes the data of a view as JSON."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any

import simplejson

from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.trees import scalar
from goworkers_py.wire.stored_job import StoredJob

MOST_BITS = 14_000  # of a whole number. Python writes those of 4,300 digits
_AS_THEY_ARE = {str, bool}


def as_json(data: Mapping[str, Any], hiding: Hiding) -> str:
    return simplejson.dumps(_plain(data, hiding), ignore_nan=True)


def _plain(value: Any, hiding: Hiding) -> Any:
    if value is None or type(value) in _AS_THEY_ARE:  # most are, and to find out what all else is takes long
        return value
    if isinstance(value, StoredJob):
        return simplejson.RawJSON(hiding.job_as_json(value))
    if isinstance(value, PageSnapshot):
        age_s = None if value.value is None else round(value.age_s, 1)
        return {"age_s": age_s, "value": _plain(value.value, hiding)}
    if (fields := _fields(value)) is not None:
        return {str(name): _plain(member, hiding) for name, member in fields.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(member, hiding) for member in value]
    return _scalar(value)


def _fields(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


def _scalar(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return scalar(value)
    return value if isinstance(value, str | int | float) or value is None else str(value)
