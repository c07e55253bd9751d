"""The link that enters the user's contexts around each run: a database session, a tenant, fields for the log.

The contexts are entered nearest to the job's code: inside of the time limit, which they share with the job, and inside
of the user's links, which may skip the job. A link gets what the contexts raise, as what the job raises.

An asynchronous context is entered around coroutines only, inside of all others: in the job's own loop, in the task that
runs the coroutine. It could not be entered around a function without a loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import field
from typing import Any

from goworkers_py.core.errors import ConfigError
from goworkers_py.core.outcome import Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.wire.message import Message

# Returns a context manager, or is a generator function with one `yield`.
ContextFactory = Callable[[Message], Any]


@dataclass
class Arounds:
    """The user's context factories; the first that was declared is the outermost."""

    of_runs: list[ContextFactory] = field(default_factory=list)
    of_coroutines: list[ContextFactory] = field(default_factory=list)

    def add(self, factory: ContextFactory) -> None:
        if inspect.iscoroutinefunction(factory):
            raise ConfigError(
                f"around: {factory.__qualname__} is an async function without a yield; write an async generator "
                "function with one yield: `async def f(message): async with ...: yield`"
            )
        if not callable(factory):
            raise ConfigError(f"around: {factory!r} is no function; write `def f(message): with ...: yield`")
        if inspect.isasyncgenfunction(factory):
            self.of_coroutines.append(asynccontextmanager(factory))
        elif _is_asynchronous(factory):
            self.of_coroutines.append(factory)
        else:
            self.of_runs.append(contextmanager(factory) if inspect.isgeneratorfunction(factory) else factory)

    def links(self) -> list[Wrap]:
        """None, if there is nothing to enter: then a job pays nothing."""
        return [self._enter] if self.of_runs else []

    def _enter(self, inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            error: BaseException
            with ExitStack() as entered:
                try:
                    for factory in self.of_runs:
                        entered.enter_context(factory(message))
                    return inner(message)
                except BaseException as raised:
                    error = raised
                    raise
            raise error  # a context has caught it: that must not make a failed run a good one

        return run

    async def enter_around(self, coroutine: Coroutine[Any, Any, Any], message: Message) -> Any:
        error: BaseException
        try:
            async with AsyncExitStack() as entered:
                try:
                    for factory in self.of_coroutines:
                        await entered.enter_async_context(factory(message))
                    return await coroutine
                except BaseException as raised:
                    error = raised
                    raise
            raise error
        finally:
            coroutine.close()  # if a context could not be entered, the coroutine has not begun


def _is_asynchronous(factory: ContextFactory) -> bool:
    """Whether it was decorated by `asynccontextmanager`, or is a class of asynchronous contexts."""
    if isinstance(factory, type):
        return issubclass(factory, AbstractAsyncContextManager) and not hasattr(factory, "__enter__")
    return inspect.isasyncgenfunction(inspect.unwrap(factory))
