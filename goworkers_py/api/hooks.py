"""The methods of an App that declare hooks: functions that a daemon calls beside the jobs."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.api.declarations import Declarations
from goworkers_py.links.retry import EndHandler, FailureHandler


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

    def on_error(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_error`: `handler(message, error)` is called after every failed run."""
        self._declared.handlers.error.append(handler)
        return handler

    def on_death(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_death`: `handler(message, error)` is called when a failed job has no retries left."""
        self._declared.handlers.death.append(handler)
        return handler

    def on_expire(self, handler: EndHandler) -> EndHandler:
        """Decorator `@workers.on_expire`: `handler(message)` is called for a job that is dropped because it was not
        begun by its `expires_at`."""
        self._declared.handlers.expiry.append(handler)
        return handler
