"""The lock of the gem sidekiq-unique-jobs in the payload of a job that Ruby pushed: `lock`, `lock_digest` and others.

The gem makes the digest from class, queue and arguments. It is never made anew here. A lock that is held while a job
runs has the digest with `:RUN` behind it. For `while_executing` and its other names, the gem's client has already
written that into `lock_digest`. So has its server for a job that it rejected, which people may push again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.values import dataclass
from goworkers_py.features.for_ruby.payload import LOCK_DIGEST
from goworkers_py.wire import payload

LOCK = "lock"
_RUN = ":RUN"

# The gem's kinds of locks, under all their names.
_FREED_AT_START = {"until_executing", "while_enqueued", "until_and_while_executing"}
_WHILE_IT_RUNS = {
    "while_executing", "while_executing_reject", "around_perform", "while_busy", "while_working",
    "until_and_while_executing",
}  # fmt: skip
_UNTIL_IT_HAS_RUN = {
    "until_executed", "until_completed", "until_performed", "until_processed", "until_successfully_completed",
}  # fmt: skip
_LASTING = "until_expired"
_REJECT = "while_executing_reject"


@dataclass(frozen=True, slots=True)
class RubyLock:
    digest: str
    jid: str
    kind: str
    limit: int = 1  # how many jobs may hold it at once
    ttl_s: int = 0  # 0: it has no end
    on_conflict: str = ""  # of the lock while it runs

    @property
    def run_digest(self) -> str:
        """Of the lock that is held while the job runs. It may be the only one that the job has."""
        return self.digest if self.digest.endswith(_RUN) else self.digest + _RUN

    @property
    def needed(self) -> str:
        """The digest of the lock without which the job must not run; empty where there is none.

        Ruby frees `until_executed` at each failure, so the next job may have it when the failed one is tried again.
        """
        if self.while_it_runs:
            return self.run_digest
        return self.digest if self.kind in _UNTIL_IT_HAS_RUN else ""

    @property
    def freed_at_start(self) -> bool:
        return self.kind in _FREED_AT_START

    @property
    def while_it_runs(self) -> bool:
        return self.kind in _WHILE_IT_RUNS

    @property
    def lasts(self) -> bool:
        """Whether it is held on after the end of the job."""
        return self.kind == _LASTING

    @property
    def rejects(self) -> bool:
        """Whether a job whose lock is held by a running one is buried."""
        return self.kind == _REJECT or (self.while_it_runs and self.on_conflict == "reject")


def ruby_lock_of(fields: Mapping[str, Any]) -> RubyLock | None:
    """None for a job without such a lock, and for one that nobody can read."""
    digest, jid, kind = fields.get(LOCK_DIGEST), fields.get("jid"), fields.get(LOCK)
    if not all(map(payload.is_name, (digest, jid, kind))):
        return None
    limit, ttl = _whole(fields.get("lock_limit"), 1), _whole(fields.get("lock_ttl"), 0)
    return RubyLock(str(digest), str(jid), str(kind), max(1, limit), max(0, ttl), _on_conflict(fields))


def _on_conflict(fields: Mapping[str, Any]) -> str:
    strategy = fields.get("on_server_conflict") or fields.get("on_conflict")
    if isinstance(strategy, dict):
        strategy = strategy.get("server")
    return strategy if isinstance(strategy, str) else ""


def _whole(value: Any, otherwise: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
    return int(value) if is_number else otherwise
