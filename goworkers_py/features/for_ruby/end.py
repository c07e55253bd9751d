"""What Ruby must know when one of its jobs has ended here, or goes on: the effects in the step of the end or the move.

A job that Ruby pushed in a batch or under a lock is acknowledged by the middleware of Ruby's Sidekiq. So its payload
goes to a Ruby queue once more when the job has ended here, and the Ruby process there runs the middleware without the
job's code: that is its echo. A job that goes on (retry, requeue, reschedule) has no echo. Cancelled and expired jobs
have the echo of a failure: their work is not done, so a batch with them must not succeed.

A job with an echo has its lock freed by Ruby. The lock of any other job is freed here, if the configuration says
`locks = native`. So each lock is freed by one of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Effect, Push, PushJobs
from goworkers_py.core.job_state import ENDED, StateWord
from goworkers_py.core.outcome import NOT_SETTLED, Cancelled, Dead, Discard, Done, Expired, Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.lock import RubyLock, ruby_lock_of
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.features.for_ruby.payload import (
    BID,
    LOCK_DIGEST,
    MARKS,
    UNIQUE_FOR,
    End,
    echo_of,
    error_in,
)
from goworkers_py.features.parts import FollowMove, Moves
from goworkers_py.policy.consequences import state_of
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

_MOVED: dict[str, End] = {"dead": "dead", "cancelled": "cancelled", "expired": "expired"}
_MARK = f'"{LOCK_DIGEST}"'.encode()


@dataclass(frozen=True, slots=True)
class Echoes:
    """Shared by all workers of a process."""

    queue: str
    batches: bool = True
    locks: bool = True

    @classmethod
    def of(cls, config: EchoConfig) -> Echoes | None:
        """None where no job has an echo."""
        echoes = cls(config.queue, config.batches, config.locks == "echo")
        return echoes if echoes.queue and (echoes.batches or echoes.locks) else None

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(((BID,) if self.batches else ()) + ((LOCK_DIGEST, UNIQUE_FOR) if self.locks else ()))

    def marked(self, fields: Mapping[str, Any]) -> bool:
        """Whether the end of this job has an echo."""
        return any(fields.get(name) for name in self.fields)

    def of_run(self, message: Message, outcome: Outcome) -> tuple[PushJobs, ...]:
        match outcome:
            case Done():
                return self._echo(message.raw, message.fields, "success")
            case Dead(buried):
                return self._echo(message.raw, message.fields, "dead", error_in(buried))
            case Discard(why):
                return self._echo(message.raw, message.fields, "discarded", why)
            case Cancelled():
                return self._echo(message.raw, message.fields, "cancelled")
            case Expired():
                return self._echo(message.raw, message.fields, "expired")
            case _:  # it goes on
                return ()

    def of_move(self, raw: bytes, state: StateWord, error: str = "") -> tuple[PushJobs, ...]:
        """Of a job that is moved to a state without a run. A job that was dead before has had its echo."""
        if state not in _MOVED:
            return ()
        return self._echo(raw, payload.read_marked(raw, *MARKS), _MOVED[state], error)

    def _echo(self, raw: bytes, fields: Mapping[str, Any], end: End, error: str = "") -> tuple[PushJobs, ...]:
        jid = payload.jid_of(fields)
        if not self.marked(fields) or not jid:
            return ()
        if flaw := ruby_flaw(raw):
            log.error("no echo for Ruby of job %s: %s", jid, flaw)
            return ()
        return (pushed(jid, self.queue, echo_of(raw, fields, end, error)),)


def pushed(jid: str, queue: str, echo: bytes) -> PushJobs:
    """The effect of a kind of its own: the job may push others too."""
    return PushJobs(jid, (Push(queue, echo),), kind="echo")


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

    @property
    def fields(self) -> frozenset[str]:
        """Fields of payloads without which nothing is to be done for a job."""
        of_echoes = frozenset[str]() if self.echoes is None else self.echoes.fields
        return of_echoes | {LOCK_DIGEST} if self.locks else of_echoes

    def lock_of(self, fields: Mapping[str, Any]) -> RubyLock | None:
        """The lock of this job, if it is freed here."""
        if not self.locks or LOCK_DIGEST not in fields or (self.echoes is not None and self.echoes.marked(fields)):
            return None
        return ruby_lock_of(fields)

    def of_run(self, message: Message, outcome: Outcome) -> tuple[Effect, ...]:
        if isinstance(outcome, NOT_SETTLED):
            return ()
        effects: tuple[Effect, ...] = () if self.echoes is None else self.echoes.of_run(message, outcome)
        if (lock := self.lock_of(message.fields)) is not None:
            effects += tuple(_of_lock(lock, state_of(outcome)))
        return effects

    def of_move(self, raw: bytes, state: StateWord, error: str = "") -> tuple[Effect, ...]:
        """Of a job that is moved to a state without a run, and that was not dead before."""
        effects: tuple[Effect, ...] = () if self.echoes is None else self.echoes.of_move(raw, state, error)
        lock = self.lock_of(payload.read_marked(raw, _MARK)) if self.locks else None
        return effects if lock is None else (*effects, *_of_lock(lock, state))


@dataclass(frozen=True, slots=True)
class RecoveringForRuby:
    policy: ForRuby

    def recovered(self, found: FoundJob, error: BaseException | None) -> tuple[Effect, ...]:
        if error is None:
            return self.policy.of_move(found.payload, "waiting")
        return self.policy.of_move(found.payload, "dead", f"{type(error).__name__}: {error}")


def _of_lock(lock: RubyLock, state: StateWord) -> Iterator[Effect]:
    """A lock that was freed as the job began is taken again when the job goes on, if no other job has it."""
    ends = state in ENDED and (state != "completed" or not lock.lasts)
    freed = (lock.run_digest, lock.while_it_runs), (lock.digest, ends)
    for digest in dict.fromkeys(digest for digest, is_freed in freed if is_freed):  # the two may be the same
        yield FreeRubyLock(lock.jid, digest)
    if state not in ENDED and lock.freed_at_start:
        yield TakeRubyLock(lock.jid, lock.digest, lock.limit, lock.ttl_s)


def _of_people(config: Config) -> FollowMove | None:
    policy = ForRuby.of(config.section_of(EchoConfig))
    return None if policy is None else policy.of_move


MOVES = Moves(of_people=_of_people)
