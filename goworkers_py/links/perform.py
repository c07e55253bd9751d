"""The innermost link: finds the code for a message and runs it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, ArgumentsDoNotFit, UnknownJob
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.home import HeldByRun, Home, RunHome
from goworkers_py.core.outcome import DONE, Done, Outcome
from goworkers_py.core.strikes import target_of
from goworkers_py.links.around import Arounds
from goworkers_py.links.chain import Run
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message, current_message

log = logging.getLogger("goworkers_py.job")

# How many unknown classes are remembered, so that each is warned of once; and how much of a name.
MOST_WARNED_OF, LONGEST_NAME = 1_000, 200

# Each worker's thread has an event loop of its own, created for its first async job.
_own = machine.local()


_NOWHERE = RunHome(Home(""), lambda: machine.time())
NO_MORE: Mapping[str, Any] = MappingProxyType({})
Around = Callable[[Coroutine[Any, Any, Any], Message], Coroutine[Any, Any, Any]]


class CalledJob:
    """A job whose function was called, for a feature that goes on with what the function has returned."""

    def __init__(self, spec: JobSpec, message: Message, returned: Any, around: Around | None) -> None:
        self.spec, self.message, self.returned = spec, message, returned
        self._around = around

    def call_again(self, more: Mapping[str, Any]) -> Any:
        """Calls the function anew, with these keyword arguments too."""
        return _call(self.spec, self.message, more)

    def in_own_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return _run_in_own_loop(coroutine, self.message, self._around)

    def done(self, run_id: str, result: object) -> Done:
        """After the job's code: the outcome, with the pushes that were held back. `run_id` is that of its effects."""
        return _done(_release(self.message), self.message, run_id, result)


Resume = Callable[[CalledJob], Outcome]
NOT_RESUMED: Mapping[str, Resume] = MappingProxyType({})


def perform(
    registry: Registry,
    here: RunHome = _NOWHERE,
    arounds: Arounds | None = None,
    resumes: Mapping[str, Resume] = NOT_RESUMED,
) -> Run:
    """`resumes` go on with what the functions return of jobs that features resume, by the names of these features."""
    around = _of_coroutines(arounds)
    spec_of = registry.spec_of
    forks = FORKS.count  # in the workers' process: it is the one that builds the chain
    warned_of: set[str] = set()  # two threads may warn of a class at the same time: no harm

    def run(message: Message) -> Outcome:
        spec = spec_of(message) or _unknown(registry, message, warned_of)
        message.thread = machine.get_ident()
        message.held = here
        try:
            if message.cancel is not None:
                raise message.cancel.error
            args = message.args
            if type(args) is list and spec.arguments.plain and "kwargs" not in message.fields:
                result = spec.function(*args)
            else:
                result = _call(spec, message)
            # The result is asked, because a partial or a decorated function does not show that it is async.
            if result is not None and inspect.iscoroutine(result):
                result = _run_in_own_loop(result, message, around)
            elif result is not None and spec.resumed_by and (resume := resumes.get(spec.resumed_by)) is not None:
                return resume(CalledJob(spec, message, result, around))
        except TypeError as error:
            _raise_if_unfit(spec, message, error)
            raise
        finally:
            if FORKS.count != forks:
                _end_of_child()
            held = _release(message)
        plain = held is here and not message.keeps_result and message.as_result is None  # nearly every job
        return DONE if plain else _done(held, message, message.jid, result)

    return run


def _of_coroutines(arounds: Arounds | None) -> Around | None:
    return arounds.enter_around if arounds is not None and arounds.of_coroutines else None


def _unknown(registry: Registry, message: Message, warned_of: set[str]) -> JobSpec:
    try:
        return registry.find(message)
    except UnknownJob as error:
        _warn_once(message.job_class[:LONGEST_NAME], error, warned_of)
        raise


def _warn_once(name: str, error: UnknownJob, warned_of: set[str]) -> None:
    if name not in warned_of:
        if len(warned_of) >= MOST_WARNED_OF:
            warned_of.clear()  # a bound is needed: producers choose the names
        warned_of.add(name)
        log.warning("%s", error)


def _release(message: Message) -> RunHome | HeldByRun | None:
    """After the job's code: it holds back no more pushes, and is interrupted no more."""
    held, message.held = message.held, None
    if message.cancel is not None:
        target_of(message.thread).meet()
    return held


def _done(held: RunHome | HeldByRun | None, message: Message, run_id: str, result: object) -> Done:
    as_result = message.as_result
    if as_result is not None:
        result = as_result(result)  # first: a job whose result is no JSON fails
    done = DONE if held is None or isinstance(held, RunHome) else held.done(run_id)
    goes_on = as_result is not None or message.keeps_result
    return Done(effects=done.effects, result=result) if goes_on else done


def _end_of_child() -> None:
    """The job forked, and its child returned from the job's code too. This ends the child: it must not run the rest of
    the chain a second time, and threads that exist only in its parent may hold any lock."""
    error = sys.exc_info()[1]
    code = error.code if isinstance(error, SystemExit) else error
    if error is not None and not isinstance(error, SystemExit):
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _hold_back_no_more() -> None:
    """In a child that a job forked: it ends without an outcome."""
    message = current_message()
    if message is not None:
        message.held = None


os.register_at_fork(after_in_child=_hold_back_no_more)


def _call(spec: JobSpec, message: Message, more: Mapping[str, Any] = NO_MORE) -> Any:
    """The way of the few jobs that are more than a list of plain JSON for a function that takes plain JSON."""
    if spec.takes_message:
        return spec.function(message)
    args, kwargs = message.args, message.kwargs
    if args is None:
        args = []
    if not isinstance(args, list):
        raise ArgumentError(f"args must be an array, is {type(args).__name__}")
    if not isinstance(kwargs, dict):
        raise ArgumentError(f"kwargs must be an object, is {type(kwargs).__name__}")
    args, kwargs = spec.arguments.load(args, {**kwargs, **more} if more else kwargs)
    return spec.function(*args, **kwargs)


def _raise_if_unfit(spec: JobSpec, message: Message, error: TypeError) -> None:
    """Only after a TypeError: to compare the arguments with the signature takes longer than many jobs."""
    if not spec.takes_message and (why := spec.arguments.misfit(message.args or [], message.kwargs, error)):
        raise ArgumentsDoNotFit(f"{spec.name} cannot be called with these arguments: {why}") from None


def _run_in_own_loop(coroutine: Coroutine[Any, Any, Any], message: Message, around: Around | None = None) -> Any:
    loop: asyncio.AbstractEventLoop | None = getattr(_own, "loop", None)
    if loop is None:
        loop = _own.loop = asyncio.new_event_loop()
    try:
        # Inside of the `try`: an exception that is thrown into this thread must not leave the task to the next job.
        task = loop.create_task(coroutine if around is None else around(coroutine, message))
        message.interrupt = lambda: loop.call_soon_threadsafe(task.cancel)
        return loop.run_until_complete(task)
    finally:
        _cancel_leftovers(loop)
        message.interrupt = None  # from here on the watchdog throws into this thread itself


def _cancel_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels the tasks that the job began and did not await: they must not run inside the next job."""
    leftovers = asyncio.all_tasks(loop)
    if leftovers:
        log.warning("the job left %d asyncio tasks behind; they are cancelled: await them in the job", len(leftovers))
        for task in leftovers:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))


def close_own_loop() -> None:
    """Called by a worker's thread when it ends."""
    loop: asyncio.AbstractEventLoop | None = getattr(_own, "loop", None)
    if loop is not None:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        _own.loop = None
