"""The effects of the end or a move of a job on its lock of the gem sidekiq-unique-jobs, see `core.effect`."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class FreeRubyLock:
    """Ends such a lock, if this job holds it. It may happen again, and may fail. A broker that no Ruby program can
    reach does nothing."""

    jid: str
    digest: str
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return f"free {self.digest}"


@dataclass(frozen=True, slots=True)
class TakeRubyLock:
    """Takes such a lock, unless `limit` other jobs hold it. All else as FreeRubyLock."""

    jid: str
    digest: str
    limit: int
    ttl_s: int  # 0: it has no end
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return f"take {self.digest}"
