"""Effects for Ruby in the step that ends a job: an echo, see `features.echoes.end`, or its lock of sidekiq-unique-jobs.

A job with an echo has its lock freed by Ruby. The lock of any other job is freed here, if the configuration says
`locks = native`. So each lock is freed by one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goworkers_py.config.options import EchoConfig
from goworkers_py.core.effect import Effect, FreeRubyLock, TakeRubyLock
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import ENDED, StateWord
from goworkers_py.core.outcome import Keep, Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.features.echoes.end import Echoes
from goworkers_py.features.echoes.payload import LOCK_DIGEST
from goworkers_py.features.ruby_locks.payload import RubyLock, ruby_lock_of
from goworkers_py.policy.consequences import state_of
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

_MARK = f'"{LOCK_DIGEST}"'.encode()


@dataclass(frozen=True, slots=True)
class ForRuby:
    """Shared by all workers of a process."""

    echoes: Echoes | None = None
    locks: bool = False  # those of sidekiq-unique-jobs are freed here

    @classmethod
    def of(cls, config: EchoConfig) -> ForRuby | None:
        """None where nothing is done for Ruby."""
        found = cls(Echoes.of(config), config.locks == "native")
        return found if found.echoes is not None or found.locks else None

    def marked(self, fields: Mapping[str, Any]) -> bool:
        """Whether something is to be done for this job."""
        return (self.locks and LOCK_DIGEST in fields) or (self.echoes is not None and self.echoes.marked(fields))

    def lock_of(self, fields: Mapping[str, Any]) -> RubyLock | None:
        """The lock of this job, if it is freed here."""
        if not self.locks or LOCK_DIGEST not in fields or (self.echoes is not None and self.echoes.marked(fields)):
            return None
        return ruby_lock_of(fields)

    def of_run(self, message: Message, outcome: Outcome) -> tuple[Effect, ...]:
        if isinstance(outcome, Keep):
            return ()
        effects: tuple[Effect, ...] = () if self.echoes is None else self.echoes.of_run(message, outcome)
        if (lock := self.lock_of(message.fields)) is not None:
            effects += tuple(_of_lock(lock, state_of(outcome)))
        return effects

    def of_move(self, raw: bytes, state: StateWord, error: str = "") -> tuple[Effect, ...]:
        """Of a job that is moved to a state without a run, and that was not dead before."""
        effects: tuple[Effect, ...] = () if self.echoes is None else self.echoes.of_move(raw, state, error)
        if not self.locks or _MARK not in raw:
            return effects
        try:
            lock = self.lock_of(payload.read(raw))
        except UnreadablePayload:
            return effects
        return effects if lock is None else (*effects, *_of_lock(lock, state))


def _of_lock(lock: RubyLock, state: StateWord) -> Iterator[Effect]:
    """A lock that was freed as the job began is taken again when the job goes on, if no other job has it."""
    ends = state in ENDED and (state != "completed" or not lock.lasts)
    freed = (lock.run_digest, lock.while_it_runs), (lock.digest, ends)
    for digest in dict.fromkeys(digest for digest, is_freed in freed if is_freed):  # the two may be the same
        yield FreeRubyLock(lock.jid, digest)
    if state not in ENDED and lock.freed_at_start:
        yield TakeRubyLock(lock.jid, lock.digest, lock.limit, lock.ttl_s)
