"""The methods of an App that push jobs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from goworkers_py.api.client import Client
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.moments import Delay, Moment, after
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.unique.uniqueness import check_lock_options
from goworkers_py.links.atomic import hold_back
from goworkers_py.policy.iterable import is_iterable

P = ParamSpec("P")
R = TypeVar("R")


class Pushing:
    clock: Clock

    @property
    def client(self) -> Client:
        raise NotImplementedError

    def enqueue(self, queue: str, job_class: str, args: Sequence[Any]) -> str | None:
        """`workers.enqueue("mail", "Send", ["ada", 1])` returns the jid, or None if a client link stopped the push."""
        return self.client.push(queue, job_class, args)

    def enqueue_in(self, queue: str, job_class: str, delay: Delay, args: Sequence[Any]) -> str | None:
        """Seconds or a timedelta from now: `workers.enqueue_in("mail", "Send", 60, ["ada"])`."""
        return self.enqueue_at(queue, job_class, after(delay, self.clock.at_latest()), args)

    def enqueue_at(self, queue: str, job_class: str, at: Moment, args: Sequence[Any]) -> str | None:
        """At epoch seconds or a datetime: `workers.enqueue_at("mail", "Send", 4102444800, ["ada"])`. A datetime without
        a time zone is in the local time of this machine."""
        return self.client.push(queue, job_class, args, EnqueueOptions(at=at))

    def enqueue_with_options(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str | None:
        """`workers.enqueue_with_options("mail", "Send", ["ada"], workers.EnqueueOptions(retry=3), {"urgent": True})`:
        the last one holds keyword arguments."""
        check_lock_options(options.said, options.said, job_class)
        return self.client.push(queue, job_class, args, options, kwargs)

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]:
        """Checks a push as `enqueue_with_options` does, and returns the function that makes it."""
        check_lock_options(options.said, options.said, job_class)
        return self.client.checked_push(queue, job_class, args, options, kwargs)

    def enqueue_bulk(
        self, queue: str, job_class: str, rows: Iterable[Sequence[Any]], options: EnqueueOptions = NO_OPTIONS
    ) -> list[str | None]:
        """One job for each row of arguments: `workers.enqueue_bulk("mail", "Send", [["ada"], ["grace"]])`."""
        check_lock_options(options.said, options.said, job_class)
        return self.client.push_bulk(queue, job_class, rows, options)

    def atomic(self) -> AbstractContextManager[None]:
        """`with workers.atomic(): ...` in a job holds back the pushes inside the block until the job has ended well.

        They happen in the same step in which the job is acknowledged: a crash leaves either the job, which runs again,
        or its end with all these pushes. If the block raises, its pushes are dropped. `@workers.job(atomic=True)` does
        this for the whole job. Outside of a job, the pushes of the block are published together at its end.

        Pushes of a job to another broker wait in the outbox of the job's broker, from which a daemon relays them.
        """
        return hold_back()

    def atomically(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function with its whole run inside `atomic`, also when it is async."""
        if is_iterable(function):
            raise ConfigError(
                f"@job: {function.__qualname__} is iterable, and atomic=True holds back its pushes for all its runs; "
                "leave it out, and push inside of `with workers.atomic():` between two yields"
            )

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            with self.atomic():
                result = function(*args, **kwargs)
            return self._await_atomically(result) if inspect.iscoroutine(result) else result

        return run

    async def _await_atomically(self, coroutine: Coroutine[Any, Any, R]) -> R:
        with self.atomic():
            return await coroutine
