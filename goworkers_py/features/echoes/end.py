"""Which ends of jobs Ruby is told of, by an echo in the step of the end.

A job that Ruby pushed in a batch or under a lock is acknowledged by the middleware of Ruby's Sidekiq. So its payload
goes to a Ruby queue once more when the job has ended here, and the Ruby process there runs the middleware without the
job's code. A job that goes on (retry, requeue, reschedule) has no echo.

Cancelled and expired jobs have the echo of a failure: their work is not done, so a batch with them must not succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from goworkers_py.config.options import EchoConfig
from goworkers_py.core.effect import PushEcho
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import Cancelled, Dead, Discard, Done, Expired, Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.features.echoes.payload import BID, LOCK_DIGEST, UNIQUE_FOR, End, echo_of, error_in, may_be_marked
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

_MOVED: dict[str, End] = {"dead": "dead", "cancelled": "cancelled", "expired": "expired"}


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

    def marked(self, fields: Mapping[str, Any]) -> bool:
        """Whether the end of this job has an echo."""
        if self.batches and BID in fields and fields[BID]:
            return True
        return self.locks and bool(fields.get(LOCK_DIGEST) or fields.get(UNIQUE_FOR))

    def of_run(self, message: Message, outcome: Outcome) -> tuple[PushEcho, ...]:
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
            case _:
                return ()

    def of_move(self, raw: bytes, state: StateWord, error: str = "") -> tuple[PushEcho, ...]:
        """Of a job that is moved to a state without a run. A job that was dead before has had its echo."""
        if state not in _MOVED or not may_be_marked(raw):
            return ()
        try:
            fields = payload.read(raw)
        except UnreadablePayload:
            return ()
        return self._echo(raw, fields, _MOVED[state], error)

    def _echo(self, raw: bytes, fields: Mapping[str, Any], end: End, error: str = "") -> tuple[PushEcho, ...]:
        jid = payload.jid_of(fields)
        if not self.marked(fields) or not jid:
            return ()
        if flaw := ruby_flaw(raw):
            log.error("no echo for Ruby of job %s: %s", jid, flaw)
            return ()
        return (PushEcho(jid, self.queue, echo_of(raw, fields, end, error)),)
