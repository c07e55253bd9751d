"""The methods of an App that declare hooks: functions that a daemon calls beside the jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from goworkers_py.api.declarations import Declarations
from goworkers_py.core.call import BUILT_IN
from goworkers_py.core.election import LeaderChange
from goworkers_py.core.errors import ConfigError
from goworkers_py.links.around import ContextFactory
from goworkers_py.links.retry import EndHandler, FailureHandler
from goworkers_py.runtime.alive.health_handlers import HealthHandler

LeaderHandler = Callable[[LeaderChange], object]
Factory = TypeVar("Factory", bound=ContextFactory)
Command = TypeVar("Command", bound=Callable[..., Any])

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class Hooks:
    _declared: Declarations

    def before_start(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Decorator `@workers.before_start`: `hook()` is called when the broker is reached, before the first fetch."""
        self._declared.before_start.append(hook)
        return hook

    def during_drain(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Decorator `@workers.during_drain`: `hook()` is called when the process stops, while the last jobs run."""
        self._declared.during_drain.append(hook)
        return hook

    def on_health(self, handler: HealthHandler) -> HealthHandler:
        """Decorator `@workers.on_health`: `handler(event)` is called when the server is lost (`event.lost` is true, and
        `event.error` says why) and when it is found again (after `event.lasted_s`)."""
        self._declared.on_health.append(handler)
        return handler

    def on_lead(self, handler: LeaderHandler) -> LeaderHandler:
        """Decorator `@workers.on_lead`: `handler(change)` is called when this process has become the leader of
        `change.partition` (empty: of the daemon), in epoch `change.epoch`, before it fetches. For `standby`."""
        self._declared.on_lead.append(handler)
        return handler

    def on_follow(self, handler: LeaderHandler) -> LeaderHandler:
        """Decorator `@workers.on_follow`: `handler(change)` is called when this process leads no more: it has ended the
        work of epoch `change.epoch`, and is a standby again or stops."""
        self._declared.on_follow.append(handler)
        return handler

    def command(self, name: str) -> Callable[[Command], Command]:
        """Decorator `@workers.command("flush-cache")`: `pyworkers processes call flush-cache` calls the function in the
        processes that it names, each in a thread of its own, with the JSON values of the call. What it returns, a JSON
        value, is the answer."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"command({name!r}): a name is lower-case letters, digits and hyphens: flush-cache")
        if name in BUILT_IN:
            raise ConfigError(f"command({name!r}): every process has a command of this name; take another one")

        def add(function: Command) -> Command:
            self._declared.commands[name] = function
            return function

        return add

    def around(self, factory: Factory) -> Factory:
        """Decorator `@workers.around`: the context that `factory(message)` makes is entered around each run of a job.

        Give it a generator function with one `yield`, or a function that returns a context manager. An async generator
        function is entered around async jobs, in their event loop. The first that was declared is the outermost.
        """
        self._declared.arounds.add(factory)
        return factory

    def on_error(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_error`: `handler(message, error)` is called after every failed run."""
        self._declared.handlers.error.append(handler)
        return handler

    def on_death(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_death`: `handler(message, error)` is called when a failed job has no retries left."""
        self._declared.handlers.death.append(handler)
        return handler

    def on_cancel(self, handler: EndHandler) -> EndHandler:
        """Decorator `@workers.on_cancel`: `handler(message)` is called when a job was cancelled: in the process that
        ran or met it, or in the one that cancelled it where it waited."""
        self._declared.handlers.cancel.append(handler)
        return handler

    def on_expire(self, handler: EndHandler) -> EndHandler:
        """Decorator `@workers.on_expire`: `handler(message)` is called for a job that is dropped because it was not
        begun by its `expires_at`."""
        self._declared.handlers.expiry.append(handler)
        return handler
