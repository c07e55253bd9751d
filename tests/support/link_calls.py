"""Messages and code for tests that call a link alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps import job

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message


def message(*args: Any, **changes: Any) -> Message:
    return Message(job("J", *args, **changes), "q")


def registry(function: Callable[..., Any] = lambda: None, **options: Any) -> Registry:
    made = Registry()
    made.add(JobSpec("J", function, options=CodeOptions(**options)))
    return made


def fails_with(error: BaseException) -> Run:
    def run(message: Message) -> Outcome:
        raise error

    return run
