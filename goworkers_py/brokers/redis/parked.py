"""The entries of a line: each is a header, a JSON object in a line of its own, and then the payload of a parked job.

`v` is the version of the header. A later version may add fields; an entry with another `v` is left where it is.
"""

from __future__ import annotations

from typing import NamedTuple

import simplejson

VERSION = 1


class Parked(NamedTuple):
    entry: bytes
    queue: str  # empty when nobody can read the header
    payload: bytes
    at: float | None  # when the job was parked, epoch seconds


def entry(payload: bytes, queue: str, at: float) -> bytes:
    return simplejson.dumps({"v": VERSION, "queue": queue, "at": at}).encode() + b"\n" + payload


def read(entry: bytes) -> Parked:
    header, _, payload = entry.partition(b"\n")
    try:
        told = simplejson.loads(header)
        if told["v"] == VERSION and isinstance(told["queue"], str):
            return Parked(entry, told["queue"], payload, float(told["at"]))
    except (ValueError, TypeError, KeyError):
        pass
    return Parked(entry, "", entry, None)
