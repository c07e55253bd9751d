"""Checks the arguments of a push, before anything is pushed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire import payload


def check_args(args: Any, name: str) -> None:
    require(isinstance(args, list | tuple), f"{name} must be a list of arguments, is {type(args).__name__}")
    payload.check_plain(list(args), name)


def check_kwargs(kwargs: Any) -> None:
    require(isinstance(kwargs, Mapping), f"kwargs must be a dict of arguments by name, is {type(kwargs).__name__}")
    payload.check_plain(dict(kwargs), "kwargs")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)
