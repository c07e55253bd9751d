"""The commands that a program declares with `@workers.command`: each call runs in a thread of its own."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.calls.call import Call
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.service import Service

log = logging.getLogger(__name__)

MOST_AT_ONCE = 4

# Called in the command's thread with its value, or with its error.
Ended = Callable[[Any, BaseException | None], None]


def declared_commands(registry: Registry) -> dict[str, Callable[..., Any]]:
    """By their names. They are declared while modules are imported."""
    commands: dict[str, Callable[..., Any]] = registry.of_features.setdefault("calls", {})
    return commands


class OwnCommands:
    """Used by the thread `commands` only, and by the thread that stops the process after that."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions
        self._running: list[CommandThread] = []

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def begin(self, call: Call, ended: Ended) -> None:
        self._running = [command for command in self._running if command.alive]
        if len(self._running) >= MOST_AT_ONCE:
            raise ArgumentError(f"{MOST_AT_ONCE} commands of this program run already; try again when one has ended")
        function = self._functions[call.name]
        check_arguments(call, function)
        thread = CommandThread(call, function, ended)
        thread.start()
        self._running.append(thread)

    def join(self, deadline: Deadline) -> bool:
        ended = [command.join(deadline) for command in self._running]
        return all(ended)


class CommandThread(Service):
    def __init__(self, call: Call, function: Callable[..., Any], ended: Ended) -> None:
        super().__init__(f"command:{call.name}")
        self._call = call
        self._function = function
        self._ended_with = ended

    def run(self) -> None:
        try:
            value, error = self._function(*self._call.arguments), None
        except BaseException as raised:  # also SystemExit: the process goes on
            log.exception("command %s failed", self._call.name)
            value, error = None, raised
        self._ended_with(value, error)


def check_arguments(call: Call, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(*call.arguments)
    except TypeError as error:
        raise ArgumentError(f"the arguments of {call.name} do not fit: {error}") from None
