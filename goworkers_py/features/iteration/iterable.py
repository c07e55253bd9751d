"""Which functions are iterable jobs: generator functions that take a cursor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from goworkers_py.core.errors import ConfigError

CURSOR = "cursor"  # the keyword argument with the cursor from which a run goes on


def is_iterable(function: Callable[..., Any]) -> bool:
    """A decorated generator function is iterable if it takes a cursor. Without one, the decorator may use the generator
    up by itself."""
    if _is_generator_function(function):
        return True
    inner = inspect.unwrap(function)
    return inner is not function and _is_generator_function(inner) and takes_cursor(inner)


def check_cursor(function: Callable[..., Any]) -> None:
    """Raises ConfigError for a generator function that takes no cursor."""
    if is_iterable(function) and not takes_cursor(function):
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(
            f"@job: {name} is a generator function, so its jobs are iterable, and a run gets the cursor from which it "
            f"goes on by keyword: write `def {name}(..., *, cursor=None)`, see docs/iteration.md"
        )


def takes_cursor(function: Callable[..., Any]) -> bool:
    """By keyword only, so that no positional argument of a push can get there."""
    parameter = inspect.signature(function).parameters.get(CURSOR)
    return (
        parameter is not None and parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    )


def is_generator(result: object) -> bool:
    return inspect.isgenerator(result) or inspect.isasyncgen(result)


def _is_generator_function(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
