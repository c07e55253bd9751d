"""The echo of a job: its payload, which Ruby's Sidekiq runs without the job's code.

The echo of a success is the payload itself. That of any other end says `retry: false`, so that Ruby runs the death
handlers, and has the field `pyworkers_echo`, for which the Ruby side raises an error:

v         1
end       "dead", "discarded", "cancelled" or "expired"
error     class and text of the error, where the end has one
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from goworkers_py.wire import payload

FIELD, V = "pyworkers_echo", 1
End = Literal["success", "dead", "discarded", "cancelled", "expired"]

# Marks of Ruby: a batch of Sidekiq Pro or sidekiq-batch, and locks of Sidekiq Enterprise and sidekiq-unique-jobs.
BID, UNIQUE_FOR, LOCK_DIGEST = "bid", "unique_for", "lock_digest"
MARKS = (b'"bid"', b'"unique_for"', b'"lock_digest"')  # without one of them, a payload has none of these fields
# An echo that fails in Ruby must not go to another queue, where a worker in Python would run the job again.
_ELSEWHERE = "retry_queue"


def echo_of(raw: bytes, fields: Mapping[str, Any], end: End, error: str = "") -> bytes:
    changes: dict[str, Any] = {}
    if end != "success":
        record = {"v": V, "end": end, **({"error": error} if error else {})}
        changes = {"retry": False, FIELD: record}
    drop = (_ELSEWHERE,) if _ELSEWHERE in fields else ()
    return payload.splice(raw, changes, drop) if changes or drop else raw


def error_in(raw: bytes) -> str:
    """Class and text of the error in the payload of a dead job."""
    fields = payload.read(raw)
    parts = [fields.get(name) for name in ("error_class", "error_message")]
    return ": ".join(text for text in parts if isinstance(text, str) and text)
