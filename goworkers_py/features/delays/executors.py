"""Which code runs a task, by its type."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from goworkers_py.config.job_options import NOTHING_SAID, CodeOptions
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.features.delays.task import DelayTask
from goworkers_py.links.perform import perform
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, reset_current, set_current


@runtime_checkable
class DelayExecutor(Protocol):
    """An object that runs the tasks of a type."""

    def do_delay_task(self, params: Any) -> object: ...


@runtime_checkable
class _Job(Protocol):
    """A function with `@workers.job`."""

    @property
    def target(self) -> tuple[JobSpec, str, Any]: ...


@runtime_checkable
class _App(Protocol):
    @property
    def registry(self) -> Registry: ...


Executor = Callable[[Any], object] | DelayExecutor | _Job
Executors = Mapping[str, Executor] | Callable[[str], Executor | None] | _App


@dataclass(frozen=True, slots=True)
class Code:
    """`options` are those of a job's code: its retries."""

    run: Callable[[DelayTask], object]
    options: CodeOptions


def finder(executors: Executors) -> Callable[[str], Code | None]:
    """A function that finds the code of a task type; it returns None for a type without code."""
    if isinstance(executors, Mapping):
        known = {kind: code_of(executor, kind) for kind, executor in executors.items()}
        return known.get
    if isinstance(executors, _App):
        registry = executors.registry
        return lambda kind: _of_spec(spec) if (spec := registry.job(kind)) is not None else None
    if callable(executors):
        return lambda kind: None if (executor := executors(kind)) is None else code_of(executor, kind)
    raise ConfigError(
        "DelayQueue: executors must be a dict of task types and functions, a function that makes an executor of a task "
        f"type, or an App with jobs, and not {executors!r}"
    )


def code_of(executor: Any, kind: str) -> Code:
    if isinstance(executor, _Job):
        return _of_spec(executor.target[0])
    function = executor.do_delay_task if isinstance(executor, DelayExecutor) else executor
    if not callable(function):
        raise ConfigError(
            f"DelayQueue: the executor of {kind!r} must be a function of the parameters, an object with the method "
            f"do_delay_task, or a job, and not {executor!r}"
        )

    def run(task: DelayTask) -> None:
        result = function(task.params)
        if inspect.iscoroutine(result):
            asyncio.run(result)

    return Code(run, NOTHING_SAID)


def _of_spec(spec: JobSpec) -> Code:
    """A job runs here, in the pool, as the daemon would run it: with its typed arguments, and `current_message()`."""
    registry = Registry()
    registry.add(spec)
    link = perform(registry)

    def run(task: DelayTask) -> None:
        params = task.params
        message = Message(job_payload(task, spec.name, params if isinstance(params, list) else [params]), spec.queue)
        token = set_current(message)
        try:
            link(message)
        finally:
            reset_current(token)

    return Code(run, spec.options)


def job_payload(task: DelayTask, name: str, args: list[Any]) -> bytes:
    """The task as a job: with the fields of its last failure."""
    return payload.write({**(task.notes or {}), "class": name, "args": args, "jid": task.id})
