"""Checks whether the live processes know the features that a pushed job needs, see `wire.needs`, and work its level."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, BrokerRefused
from goworkers_py.core.strikes import Lock
from goworkers_py.core.values import NamedTuple
from goworkers_py.core.version import __version__

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.recoverable import LiveProcess

log = logging.getLogger(__name__)

# How long a producer uses the last answer about the processes.
LOOK_EVERY_S = 5.0
# For so long after the last look at a process that works a level, its absence counts as a restart.
RESTART_S = 600.0
MOST_REMEMBERED = 100


class _Answer(NamedTuple):
    """The last answer of the broker about the processes."""

    until: float  # it is used until then (monotonic clock)
    processes: Sequence[LiveProcess]
    checked: set[tuple[str, frozenset[str]]]  # the queues and needs that are all right, or were warned of


class WorkerCheck:
    """Safe to share between threads: two threads that ask at the same time may both ask the broker."""

    def __init__(self, ask: Callable[[], Sequence[LiveProcess]], look_every_s: float = LOOK_EVERY_S) -> None:
        self._ask = ask
        self._look_every_s = look_every_s
        self._seen = _Answer(0.0, (), set())  # one assignment, so no lock
        # By level: when a process that works it was seen last (monotonic clock). Each change is a single operation.
        self._worked: dict[str, float] = {}
        self._warned_of: set[str] = set()
        self._lock = Lock()

    def check(self, queue: str, needs: frozenset[str]) -> None:
        """Raises ArgumentError when no live process of the queue knows all `needs`. Warns once when some do not."""
        try:
            seen = self._look()
        except BrokerRefused as error:
            self._warn("", f"cannot check whether the processes have {_features(needs)}: {error}; the job is pushed")
            return
        if (queue, needs) in seen.checked:
            return
        workers = [worker for worker in seen.processes if queue in worker.queues]
        lacking = [worker for worker in workers if not needs <= set(worker.speaks)]
        if not workers:
            self._warn(
                queue,
                f"no live process of pyworkers works queue {queue}, so its jobs wait there. Start one, of release "
                f"{_since(needs)} or later: pyworkers run -r MODULE -q {queue}",
            )
        elif len(lacking) == len(workers):
            raise ArgumentError(
                f"not pushed: the job needs {_features(needs)}, and all live processes of queue {queue} are older: "
                f"{_list(map(str, lacking))}. Upgrade them first"
            )
        elif lacking:
            self._warn(
                queue,
                f"jobs of queue {queue} need {_features(needs)}, and some of its processes are older: "
                f"{_list(map(str, lacking))}. Upgrade them: since 0.2.0 a process leaves such jobs to newer ones, an "
                "older one runs them without the feature",
            )
        seen.checked.add((queue, needs))

    def check_level(self, queue: str, level: str) -> None:
        """Raises ArgumentError when no live process works this level of the queue: the job would wait for ever. A
        process that worked the level a while ago may be starting again."""
        try:
            workers = [worker for worker in self._look().processes if queue in worker.queues or level in worker.queues]
        except BrokerRefused as error:
            self._warn(level, f"cannot check whether a process works queue {level}: {error}; the job is pushed")
            return
        now = machine.monotonic()
        if any(level in worker.queues for worker in workers):
            self._worked[level] = now
        elif workers or now - self._worked.get(level, -math.inf) > RESTART_S:
            if not workers:
                raise ArgumentError(
                    f"no live process works queue {queue}: start a process with this job's code (pyworkers run -r "
                    "MODULE), or push without a priority"
                )
            found = f"{_list(map(str, workers))} work {queue} without priorities"
            raise ArgumentError(
                f"no live process works queue {level}: {found}; set priorities = yes in the section [queue:{queue}] of "
                "a process and start it, or push without a priority"
            )

    def _look(self) -> _Answer:
        seen = self._seen
        if machine.monotonic() >= seen.until:
            processes = self._ask()
            seen = self._seen = _Answer(machine.monotonic() + self._look_every_s, processes, set())
        return seen

    def _warn(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._warned_of or len(self._warned_of) >= MOST_REMEMBERED:
                return
            self._warned_of.add(about)
        log.warning("%s", text)


def _features(needs: frozenset[str]) -> str:
    return f"{_list(needs)} (since release {_since(needs)})"


def _since(needs: frozenset[str]) -> str:
    """The first release that knows all of them."""
    from goworkers_py.core.release_order import release_order
    from goworkers_py.policy.known_needs import SINCE

    return max((SINCE.get(need, __version__) for need in needs), key=release_order)


def _list(words: Any) -> str:
    words = sorted(words)
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
