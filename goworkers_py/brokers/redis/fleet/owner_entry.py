"""The entry of each pyworkers process in `pyworkers:owners`: one JSON object, written with every beat.

Processes of several releases read each other's entries. So an entry has a version `v`, and releases only add fields. A
release ignores fields that it does not know. It leaves an entry of an unknown version or shape alone, and recovers no
job of that owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.values import dataclass
from goworkers_py.core.version import __version__
from goworkers_py.policy import known_needs
from goworkers_py.wire import payload
from goworkers_py.wire.message import epoch, whole_number
from goworkers_py.wire.needs import is_version

V = 1
DECLARED_DEAD = "declared dead"


@dataclass(frozen=True, slots=True)
class OwnerEntry:
    queues: Mapping[str, int]  # each queue, and how many of the oldest jobs in its in-progress list can have been begun
    alone: str = ""  # the name of the suspect that runs alone in this process, see `quarantine`
    trouble: str = ""  # why the process fetches no jobs now
    origin: Mapping[str, Any] = field(default_factory=dict)
    began: float = 0.0  # time of the first beat by the server's clock, epoch seconds; 0 in the first beat
    heard: float = 0.0  # time of the beat before this one, likewise; 0 in the first beat, and before release 0.2.0
    version: str = __version__  # empty for release 0.1.0, which wrote none
    speaks: Collection[str] = field(default_factory=lambda: known_needs.SPEAKS)
    # When this process frees what another owner holds. Builds before 0.9.0, which wrote nothing here, do it when a
    # lease is missing.
    frees: str = DECLARED_DEAD

    def to_json(self) -> str:
        return simplejson.dumps(
            {
                "v": V,
                "version": self.version,
                "speaks": sorted(self.speaks),
                "queues": dict(self.queues),
                "trial": self.alone,  # release 0.1.0 reads this name of the field
                "trouble": self.trouble,
                "origin": dict(self.origin),
                "began": self.began,
                "heard": self.heard,
                "frees": self.frees,
            }
        )

    @classmethod
    def read(cls, raw: bytes) -> OwnerEntry | None:
        """None for an entry of an unknown shape or version."""
        try:
            record = payload.read(raw)
        except UnreadablePayload:
            return None
        queues, version = record.get("queues"), record.get("v")
        ours = is_version(version, V)
        if not isinstance(queues, dict) or not all(map(payload.encodable, queues)) or not (ours or version is None):
            return None
        return cls(
            queues={name: max(0, whole_number(begun) or 0) for name, begun in queues.items()},
            # In release 0.1.0, which wrote no `v`, other jobs ran beside the suspect. Its death proves nothing then.
            alone=_text(record.get("trial")) if ours else "",
            trouble=_text(record.get("trouble")),
            origin=_origin(record.get("origin")),
            began=epoch(record.get("began")) or 0.0,
            heard=epoch(record.get("heard")) or 0.0,
            version=_text(record.get("version")),
            frees=_text(record.get("frees")),
            speaks=frozenset(word for word in _list(record.get("speaks")) if isinstance(word, str)),
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _origin(record: Any) -> dict[str, Any]:
    """An origin whose `pid` and `started` are whole numbers or None: other values cannot be given to system calls."""
    origin = record if isinstance(record, dict) else {}
    numbers = {name: whole_number(origin.get(name)) for name in ("pid", "started")}
    return {**origin, **{name: value for name, value in numbers.items() if name in origin}}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_entries(reply: Sequence[bytes]) -> tuple[dict[str, OwnerEntry], list[str]]:
    """The entries by identity, and the identities whose entries cannot be read, from the reply to HGETALL."""
    entries: dict[str, OwnerEntry] = {}
    unreadable: list[str] = []
    for name, raw in zip(reply[::2], reply[1::2], strict=True):
        identity, entry = name.decode("utf-8", "replace"), OwnerEntry.read(raw)
        if entry is None:
            unreadable.append(identity)
        else:
            entries[identity] = entry
    return entries, unreadable
