"""Handles a job that does not end at its time limit: replaces its worker, or stops the process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from goworkers_py.config.options import Config
from goworkers_py.core.command import Command, Obey
from goworkers_py.links.time_limit import Watched
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)


class StuckJobs:
    def __init__(
        self,
        config: Config,
        shared: Shared,
        managers: Callable[[], Sequence[Manager]],
        obey: Obey | None,
    ) -> None:
        """`obey` is None where this process is part of another program."""
        self._spares = config.stuck_spares
        self._exit_at = config.stuck_exit
        self._state = shared.state
        self._counters = shared.counters
        self._managers = managers
        self._obey = obey

    def found(self, watched: Watched, stuck: int) -> None:
        """In the watchdog's thread. `stuck` is how many jobs of the process are stuck, with this one."""
        self._counters.add("stuck")
        manager = next(manager for manager in self._managers() if watched.message.queue in manager.queues)
        if stuck <= self._spares and manager.replace(watched.thread.name):
            log.warning("started another worker, because the job of %s is stuck", watched.thread.name)
        if self._exit_at and stuck >= self._exit_at and not self._state.gave_up and not self._state.will_end:
            self._state.gave_up = True
            self._give_up(stuck)

    def _give_up(self, stuck: int) -> None:
        if self._obey is None:
            log.error("%d jobs are stuck; restart this program: its workers are a part of it and cannot stop it", stuck)
        else:
            log.error("%d jobs are stuck: stopping, to be started again", stuck)
            self._obey(Command.STOP, "the watchdog")
