"""A periodic job of this process: its schedule, and how its pushes are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from goworkers_py.core.effect import Push
from goworkers_py.core.values import dataclass
from goworkers_py.features.periodic.schedule import CatchUp, Release, Schedule

# The jid and the push of the job of one slot, whose arguments are those of an override, if there is one. None: a client
# link has stopped it.
Draft = Callable[[float, list[Any] | None], tuple[str, Push] | None]


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    schedule: Schedule
    catch_up: CatchUp
    draft: Draft


@dataclass(frozen=True, slots=True)
class PeriodicJobs:
    """Of a process."""

    release: Release
    jobs: Sequence[PeriodicJob]
