"""The function below `@job`: what can be declared, but never run as a job, is refused with what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from goworkers_py.core.errors import ConfigError
from goworkers_py.features.atomic.run import hold_back
from goworkers_py.features.iteration.iterable import is_iterable, takes_cursor

P = ParamSpec("P")
R = TypeVar("R")


def check_function(decorated: Any) -> None:
    if isinstance(decorated, type):
        raise ConfigError(f"@job: {decorated.__qualname__} is a class; decorate a function, which may call the class")
    if isinstance(decorated, classmethod) or _is_method(decorated):
        raise ConfigError(
            f"@job: {decorated.__qualname__} is a method, and a worker has no object to call it on; decorate a "
            "function of the module, or a @staticmethod"
        )
    if not callable(decorated):
        raise ConfigError(f"@job: {decorated!r} is no function; write @job, @job('Name') or @job(queue='mail')")

    if is_iterable(decorated) and not takes_cursor(decorated):
        name = getattr(decorated, "__qualname__", repr(decorated))
        raise ConfigError(
            f"@job: {name} is a generator function, so its jobs are iterable, and a run gets the cursor from which it "
            f"goes on by keyword: write `def {name}(..., *, cursor=None)`, see docs/iteration.md"
        )


def atomically(function: Callable[P, R]) -> Callable[P, R]:
    """The function with its whole run inside `atomic`, also when it is async."""
    if is_iterable(function):
        raise ConfigError(
            f"@job: {function.__qualname__} is iterable, and atomic=True holds back its pushes for all its runs; "
            "leave it out, and push inside of `with workers.atomic():` between two yields"
        )

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        with hold_back():
            result = function(*args, **kwargs)
        return _awaited(result) if inspect.iscoroutine(result) else result

    return run


async def _awaited(coroutine: Coroutine[Any, Any, R]) -> R:
    with hold_back():
        return await coroutine


def _is_method(decorated: Any) -> bool:
    """Whether it is written in a class and takes the object first. A bound method has its object, and is no function to
    `inspect`."""
    if not inspect.isfunction(decorated):
        return False
    owner = decorated.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(decorated).parameters), "")
    return bool(owner) and not owner.endswith("<locals>") and first in ("self", "cls")
