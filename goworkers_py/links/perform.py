"""The innermost link: finds the code for a message and runs it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from goworkers_py.core.errors import ArgumentError, UnknownJob
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.held_pushes import HeldPushes
from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.links.around import Arounds
from goworkers_py.links.atomic import AtomicFinish
from goworkers_py.links.chain import Run
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

# How many unknown classes are remembered, so that each is warned of once; and how much of a name.
MOST_WARNED_OF, LONGEST_NAME = 1_000, 200

# Each worker's thread has an event loop of its own, created for its first async job.
_own = threading.local()


def perform(registry: Registry, atomic: AtomicFinish | None = None, arounds: Arounds | None = None) -> Run:
    atomic = atomic or AtomicFinish()
    around = arounds.enter_around if arounds and arounds.of_coroutines else None
    home = atomic.home
    forks = FORKS.count  # in the workers' process: it is the one that builds the chain
    warned_of: set[str] = set()  # two threads may warn of a class at the same time: no harm

    def run(message: Message) -> Outcome:
        try:
            spec = registry.find(message)
        except UnknownJob as error:
            name = message.job_class[:LONGEST_NAME]
            if name not in warned_of:
                if len(warned_of) >= MOST_WARNED_OF:
                    warned_of.clear()  # a bound is needed: producers choose the names
                warned_of.add(name)
                log.warning("%s", error)
            raise
        message.held, message.thread = home, threading.get_ident()
        try:
            args = message.args
            if type(args) is not list or spec.takes_message:
                args = _arguments(message, spec)
            result = spec.function(*args)
            # The result is asked, because a partial or a decorated function does not show that it is async.
            if result is not None and inspect.iscoroutine(result):
                _run_in_own_loop(result if around is None else around(result, message), message)
        finally:
            if FORKS.count != forks:
                _end_of_child()
            held, message.held = _held(message), None
        return DONE if held is None else atomic.done(held, message.jid)

    return run


def _held(message: Message) -> HeldPushes | None:
    return message.held if isinstance(message.held, HeldPushes) else None


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


def _arguments(message: Message, spec: JobSpec) -> list[Any]:
    if spec.takes_message:
        return [message]
    if message.args is None:
        return []
    if not isinstance(message.args, list):
        raise ArgumentError(f"args must be an array, is {type(message.args).__name__}")
    return message.args


def _run_in_own_loop(coroutine: Coroutine[Any, Any, Any], message: Message) -> None:
    loop: asyncio.AbstractEventLoop | None = getattr(_own, "loop", None)
    if loop is None:
        loop = _own.loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    message.interrupt = lambda: loop.call_soon_threadsafe(task.cancel)
    try:
        loop.run_until_complete(task)
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
