"""The entry of each pyworkers process in `pyworkers:owners`: one JSON object, written with every beat.

Processes of several releases read each other's entries. So an entry has a version `v` and only grows: an unknown field
is passed over, and an entry of an unknown version or shape is left alone, together with the jobs of its owner.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.version import __version__
from goworkers_py.wire import needs, payload
from goworkers_py.wire.message import epoch, whole_number

V = 1


@dataclass(frozen=True, slots=True)
class OwnerEntry:
    queues: Mapping[str, int]  # with how many of the oldest jobs in each in-progress list can have been begun
    alone: str = ""  # the suspect that runs alone in this process, see `quarantine`
    trouble: str = ""  # why the process fetches no jobs now
    origin: Mapping[str, Any] = field(default_factory=dict)
    began: float = 0.0  # epoch seconds by the server's clock: when the process was first heard of; 0 in its first beat
    heard: float = 0.0  # likewise, the answer to the beat before; 0 in the first beat, and in entries before 0.2.0
    version: str = __version__  # empty for 0.1.0, which told none
    speaks: Collection[str] = field(default_factory=lambda: needs.SPEAKS)

    def to_json(self) -> str:
        return json.dumps(
            {
                "v": V,
                "version": self.version,
                "speaks": sorted(self.speaks),
                "queues": dict(self.queues),
                "trial": self.alone,  # the name that release 0.1.0 reads
                "trouble": self.trouble,
                "origin": dict(self.origin),
                "began": self.began,
                "heard": self.heard,
            }
        )

    @classmethod
    def read(cls, raw: bytes) -> OwnerEntry | None:
        """None for an entry of another shape or of a later version."""
        try:
            told = payload.read(raw)
        except UnreadablePayload:
            return None
        queues, version = told.get("queues"), told.get("v")
        if not isinstance(queues, dict) or not all(map(payload.encodable, queues)) or version not in (None, V):
            return None
        return cls(
            queues={name: max(0, whole_number(begun) or 0) for name, begun in queues.items()},
            # Release 0.1.0, which wrote no `v`, told of a suspect that other jobs ran beside: that proves nothing.
            alone=_text(told.get("trial")) if version == V else "",
            trouble=_text(told.get("trouble")),
            origin=_origin(told.get("origin")),
            began=epoch(told.get("began")) or 0.0,
            heard=epoch(told.get("heard")) or 0.0,
            version=_text(told.get("version")),
            speaks=frozenset(word for word in _list(told.get("speaks")) if isinstance(word, str)),
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _origin(told: Any) -> dict[str, Any]:
    """Of the numbers only those that processes have: with others the system may not be asked."""
    origin = told if isinstance(told, dict) else {}
    numbers = {name: whole_number(origin.get(name)) for name in ("pid", "started")}
    return {**origin, **{name: value for name, value in numbers.items() if name in origin}}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_entries(told: Sequence[bytes]) -> tuple[dict[str, OwnerEntry], list[str]]:
    """The entries by identity, and the identities whose entries cannot be read, from the reply to HGETALL."""
    entries: dict[str, OwnerEntry] = {}
    unreadable: list[str] = []
    for name, raw in zip(told[::2], told[1::2], strict=True):
        identity, entry = name.decode("utf-8", "replace"), OwnerEntry.read(raw)
        if entry is None:
            unreadable.append(identity)
        else:
            entries[identity] = entry
    return entries, unreadable
