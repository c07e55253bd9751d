"""The entries of a line of parked jobs, and of an outbox: a header (a JSON object and a line feed), then the payload.

`v` is the version of the header. A later version may add fields; an entry with another `v` is left where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import simplejson

from goworkers_py.core.effect import Push, ties_of
from goworkers_py.core.values import NamedTuple
from goworkers_py.features import FEATURES
from goworkers_py.features.parts import Pushes
from goworkers_py.wire.needs import is_version
from goworkers_py.wire.payload import encodable

VERSION = 1


class LineEntry(NamedTuple):
    raw: bytes
    queue: str  # empty when nobody can read the header
    payload: bytes
    at: float | None  # since when it is there, epoch seconds
    id: str = ""  # in an outbox: of the push
    due: float | None = None  # in an outbox: `at` of the push
    place: int | None = None  # how many older entries there were when it was read, if that is known

    @property
    def push(self) -> Push:
        payload = self.payload
        goals = () if self.due else ties_of(*[pushes.goal_of_stored(payload, self.queue) for pushes in _pushes()])
        ties = ties_of(*[pushes.tie_of_stored(payload, bool(goals)) for pushes in _pushes()], *goals)
        return Push(self.queue, payload, self.due, self.id, ties)


@cache
def _pushes() -> Sequence[Pushes]:
    return [feature.pushes() for feature in FEATURES]


def written(payload: bytes, queue: str, at: float, **more: object) -> bytes:
    return simplejson.dumps({"v": VERSION, "queue": queue, "at": at, **more}).encode() + b"\n" + payload


def read(raw: bytes, place: int | None = None) -> LineEntry:
    header, _, payload = raw.partition(b"\n")
    with suppress(Exception):  # other programs write here too: anything may be in a header
        fields = simplejson.loads(header)
        if is_version(fields["v"], VERSION) and isinstance(fields["queue"], str) and encodable(fields["queue"]):
            due = fields.get("due")
            more = str(fields.get("id") or ""), None if due is None else float(due)
            return LineEntry(raw, fields["queue"], payload, float(fields["at"]), *more, place)
    return LineEntry(raw, "", raw, None, place=place)
