"""Wraps the function below `@job.aggregate`: it gets the members' arguments, and pushes the job that runs instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.features import resumer_of
from goworkers_py.features.atomic.api import hold_back
from goworkers_py.features.groups.aggregates import NAME
from goworkers_py.policy.registry import JobSpec

if TYPE_CHECKING:
    from goworkers_py.policy.arguments import Arguments

Members = list[list[Any]]
PushArgs = Callable[[Sequence[Any]], object]


class GatheredJob(Protocol):
    """A Job, as far as it is needed here."""

    @property
    def target(self) -> tuple[JobSpec, str, object]: ...

    @property
    def set(self) -> Callable[..., Any]: ...


def aggregate_by(job: GatheredJob, function: Callable[..., Any]) -> None:
    """From now on this function aggregates the groups of the job's class."""
    spec, queue, _ = job.target
    single = job.set(group=None, unique_for=False)
    run = aggregating(function, spec.name, spec.arguments, lambda args: single.enqueue_bulk([args]))
    spec.of_features[NAME] = JobSpec(spec.name, run, queue, spec.options)


def aggregating(function: Callable[..., Any], name: str, arguments: Arguments, push: PushArgs) -> Callable[..., Any]:
    """`push` pushes the job with the arguments that the function returns. Pushes are held back until its end."""
    if resumer_of(function) is not None:
        raise ConfigError(f"@{name}.aggregate: {function!r} must be a function that returns a list of arguments")

    @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def run(members: list[Any]) -> Any:
        with hold_back():
            result = function(_loaded(arguments, members))
            if not inspect.iscoroutine(result):
                push(_checked(result, name))
                return None
        return finish(result)

    async def finish(coroutine: Coroutine[Any, Any, Any]) -> None:
        with hold_back():
            push(_checked(await coroutine, name))

    del run.__wrapped__  # its hints are those of the values, not of the JSON
    return run


def _loaded(arguments: Arguments, members: list[Any]) -> Members:
    loaded = (arguments.load(args, {}) for args in members)
    return [list(args) for args, _ in loaded]


def _checked(result: Any, name: str) -> Sequence[Any]:
    if not isinstance(result, list | tuple):
        raise ArgumentError(
            f"@{name}.aggregate must return the list of arguments of the job that runs instead of the members, "
            f"returned {type(result).__name__}"
        )
    return result
