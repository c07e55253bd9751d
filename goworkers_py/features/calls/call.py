"""Calls: commands that people give to processes of the fleet, and the answers of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from goworkers_py.core.values import dataclass

# The commands that each process knows. `features.calls.service` obeys them.
QUIET, RESUME, STOP, DUMP, RELOAD = "quiet", "resume", "stop", "dump", "reload"
LOG_LEVEL, CONCURRENCY = "log-level", "concurrency"
PAUSE_QUEUE, RESUME_QUEUE = "pause-queue", "resume-queue"
BUILT_IN: Final = (
    QUIET, RESUME, STOP, DUMP, RELOAD, LOG_LEVEL, CONCURRENCY, PAUSE_QUEUE, RESUME_QUEUE,
)  # fmt: skip

# A call lives no longer than this: a process that was away for longer does not obey it.
LONGEST_LIFE_S = 60.0
# A broker keeps the answers to a call for so long, and the last calls and reports: so many at least.
ANSWERS_KEPT_S, CALLS_KEPT, REPORTS_KEPT = 120, 1_000, 5_000


@dataclass(frozen=True, slots=True)
class Target:
    """`workers.inspector.call("flush-cache", target=workers.Target(partition="billing"))`: the processes that a command
    is for are those that fit in every field. A field that is empty fits all."""

    identities: Collection[str] = ()
    tag: str = ""
    queue: str = ""
    partition: str = ""  # `main`: the one of [pyworkers]

    def fits(self, identity: str, tag: str, queues: Collection[str], partition: str) -> bool:
        return (
            (not self.identities or identity in self.identities)
            and self.tag in ("", tag)
            and (not self.queue or self.queue in queues)
            and self.partition in ("", partition)
        )


@dataclass(frozen=True, slots=True)
class Call:
    id: str  # of this call alone
    name: str  # of the command
    arguments: Sequence[Any]  # JSON values
    target: Target
    asker: str  # who gave it, for the log
    life_s: float  # how long a process may still begin to obey it


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one process to one call."""

    identity: str
    value: Any = None  # a JSON value
    error: str = ""  # why the process did not obey; empty if it did
    here: bool = True  # False with an error: the process lacks the pool or the queue that the call names

    @property
    def ok(self) -> bool:
        return not self.error

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"identity": self.identity, "ok": self.ok}
        if self.ok:
            return fields | {"value": self.value}
        return fields | {"error": self.error} | ({} if self.here else {"here": False})


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a process, made with `workers.report`."""

    position: str  # in the stream: the next read goes on after it
    name: str
    identity: str  # of the process
    at: float  # by the broker's clock, epoch seconds
    body: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"position": self.position, "name": self.name, "identity": self.identity, "at": self.at,
                "body": self.body}  # fmt: skip
