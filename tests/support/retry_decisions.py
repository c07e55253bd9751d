"""Jobs that fail, and what the policy decides of them."""

from __future__ import annotations

from typing import Any

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.outcome import Dead, Outcome, Retry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps

NOW = 1739522590.25
ABSENT: Any = ...
BOOM = RuntimeError("boom")


def no_jitter(below: int) -> int:
    return 0


def job(queue_: str = "default", **fields: Any) -> Message:
    present = {"class": "A", "jid": "j1", "args": [1], **fields}
    return Message(payload.write({name: value for name, value in present.items() if value is not ABSENT}), queue_)


def decide(
    message: Message, error: BaseException = BOOM, *, now: float = NOW, style: str = "seconds", **options: Any
) -> Outcome:
    policy = RetryPolicy(timestamps=Timestamps(style), random_below=no_jitter)
    return policy.decide(message, error, CodeOptions(**options), now)


def fields_of(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Retry | Dead)
    return payload.read(outcome.payload)


def fields_raw(outcome: Outcome) -> bytes:
    assert isinstance(outcome, Retry | Dead)
    return outcome.payload
