"""The commands that every process knows. They run in the thread `commands`, and wait for nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.config.log_levels import LEVELS
from goworkers_py.config.options import Config
from goworkers_py.core.command import Command, Obey
from goworkers_py.core.errors import ArgumentError, NotHere
from goworkers_py.features.calls.call import (
    CONCURRENCY,
    DUMP,
    LOG_LEVEL,
    PAUSE_QUEUE,
    QUIET,
    RELOAD,
    RESUME,
    RESUME_QUEUE,
    STOP,
)
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.runtime.controls import Controls
from goworkers_py.runtime.running.thread_dump import thread_stacks

log = logging.getLogger(__name__)

CONFIGURED = "configured"  # the log level of the configuration
MOST_THREADS = 10_000


class BuiltInCommands:
    """For one launcher. `obey` takes what is for the whole process; None where it is a part of another program."""

    def __init__(self, config: Config, controls: Callable[[], Controls], obey: Obey | None) -> None:
        self._config = config
        self._controls = controls
        self._obey = obey

    def by_name(self) -> Mapping[str, Callable[..., Any]]:
        return {
            QUIET: self._quiet,
            RESUME: self._resume,
            STOP: self._stop,
            DUMP: self._dump,
            RELOAD: self._reload,
            LOG_LEVEL: self._log_level,
            CONCURRENCY: self._concurrency,
            PAUSE_QUEUE: self._pause_queue,
            RESUME_QUEUE: self._resume_queue,
        }

    def _quiet(self) -> str:
        self._of_this_program(QUIET)
        self._controls().on_quiet_asked()
        return "quiet"

    def _resume(self) -> str:
        self._of_this_program(RESUME)
        if not self._controls().resume():
            raise ArgumentError("this process is stopping")
        return "working"

    def _stop(self) -> str:
        self._of_this_program(STOP)(Command.STOP, "a command")
        return "stopping"

    def _dump(self) -> str:
        return "\n".join(
            f"{thread_stack.thread}\n{thread_stack.stack}"
            for thread_stack in thread_stacks(self._controls().health.running)
        )

    def _reload(self) -> str:
        obey = self._of_this_program(RELOAD)
        if not self._config.needs_a_parent:
            raise ArgumentError("this process has no parent that could replace it: set `processes`, or restart it")
        obey(Command.REPLACE, "a command")
        return "a new process replaces it when that is ready"

    def _log_level(self, level: str) -> str:
        self._of_this_program(LOG_LEVEL)
        if level != CONFIGURED and level not in LEVELS:
            raise ArgumentError(f"a log level is one of {', '.join([*LEVELS, CONFIGURED])}, not {level!r}")
        job_levels.change(LEVELS.get(level))
        return level

    def _concurrency(self, threads: int, pool: str = "") -> dict[str, list[int]]:
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            raise ArgumentError(f"a number of threads is from 1 to {MOST_THREADS:,}, not {threads!r}")
        names = [manager.name for manager in self._controls().managers]
        if pool and pool not in names:
            raise NotHere(f"not here: this process has no pool {pool!r}, but {', '.join(names)}")
        changed = self._controls().resize(threads, pool)
        if not changed:
            raise ArgumentError(f"{pool or ', '.join(names)} has mode = serial, which is one thread")
        return changed

    def _pause_queue(self, queue: str) -> bool:
        self._of_this_process(queue)
        return self._controls().pause_queue(queue)

    def _resume_queue(self, queue: str) -> bool:
        self._of_this_process(queue)
        return self._controls().resume_queue(queue)

    def _of_this_process(self, queue: str) -> None:
        queues = [name for manager in self._controls().managers for name in manager.queues]
        if queue not in queues:
            raise NotHere(f"not here: this process does not fetch from queue {queue!r}, but from {', '.join(queues)}")

    def _of_this_program(self, name: str) -> Obey:
        if self._obey is None:
            raise ArgumentError(f"this process is part of another program; only that program can {name} it")
        return self._obey
