"""A body from a plain list, as a job: other programs push bodies to lists of Redis, or to queues of RabbitMQ, without
class, jid or options.

A body becomes such a job in memory, to be run. Only where it must wait, among the retries or the dead jobs, is the job
stored. Then Ruby's pages can show it, it comes back into the queue of that name, and the same code runs it. Every byte
of the body is kept: as text, or as base64 where it is not UTF-8.

The jid is a new one for each fetch: equal bodies are different messages, and with equal jids one of two retries would
replace the other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from goworkers_py.features.plain_lists.properties import FIELD, PROPERTIES, V, record_of
from goworkers_py.wire import payload
from goworkers_py.wire.message import new_jid
from goworkers_py.wire.needs import is_version
from goworkers_py.wire.properties import Properties

CLASS = "pyworkers.PlainMessage"


def wrapped(body: bytes, queue: str, at: float, properties: Properties | None = None) -> bytes:
    """The payload of the job. `at` is the time of the fetch, as payloads have it."""
    try:
        form, argument = "text", body.decode("utf-8")
    except UnicodeDecodeError:
        form, argument = "base64", base64.b64encode(body).decode()
    extra = {} if properties is None else {PROPERTIES: record_of(properties)}
    return payload.write(
        {
            "class": CLASS,
            "args": [argument],
            "jid": new_jid(),
            "queue": queue,
            "created_at": at,
            "enqueued_at": at,
            FIELD: {"v": V, "as": form, **extra},
        }
    )


def body_of(fields: Mapping[str, Any]) -> bytes | None:
    """The body inside such a job; None for any other job."""
    record, args = fields.get(FIELD), fields.get("args")
    if not isinstance(record, dict) or not is_version(record.get("v"), V):
        return None
    match record.get("as"), args:
        case "text", [str(text)] if payload.encodable(text):
            return text.encode("utf-8")
        case "base64", [str(text)]:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
    return None
