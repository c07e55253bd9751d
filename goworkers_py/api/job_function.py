"""The function below `@job`: what can be declared, but never run as a job, is refused with what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES


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
    for feature in FEATURES:
        feature.check_function(decorated)


def code_of(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that runs the jobs, which is another one where a feature puts one around it."""
    for feature in FEATURES:
        function = feature.code(function, options)
    return function


def _is_method(decorated: Any) -> bool:
    """Whether it is written in a class and takes the object first. A bound method has its object, and is no function to
    `inspect`."""
    if not inspect.isfunction(decorated):
        return False
    owner = decorated.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(decorated).parameters), "")
    return bool(owner) and not owner.endswith("<locals>") and first in ("self", "cls")
