"""The options of unique jobs, a part of the table in `config.job_options`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict, get_args

from goworkers_py.config.job_option import Option
from goworkers_py.config.option_values import is_life_or_false
from goworkers_py.features.unique.lock import OnConflict, Until


class UniqueOptions(TypedDict, total=False):
    unique_for: Annotated[
        float | datetime.timedelta | Literal[False] | None,
        Option(
            is_life_or_false,
            "seconds from 1 on, a timedelta, or False",
            "the job is not pushed while another one of its class and key holds the lock, which lasts for so many "
            "seconds from the time on at which the job is due, and is freed at its end; see docs/unique-jobs.md",
            write=None,
            needs="unique",
        ),
    ]
    unique_by: Annotated[
        Callable[..., Any] | None,
        Option(
            callable,
            "a function of the job's arguments",
            "a function of the job's arguments that returns the key of a unique job; without it all arguments count",
            write=None,
        ),
    ]
    unique_until: Annotated[
        Until | None,
        Option(
            lambda value: value in get_args(Until),
            "success, start or expiry",
            "when the lock of a unique job is freed: when it has ended (success), as it begins (start), or only after "
            "`unique_for` (expiry)",
            write=None,
        ),
    ]
    on_conflict: Annotated[
        OnConflict | None,
        Option(
            lambda value: value in get_args(OnConflict),
            "skip, raise, replace or reschedule",
            "what a push does whose lock another job holds: nothing (skip); it raises DuplicateJob; the other job gets "
            "its arguments and its time (replace); or the job waits for the lock in the schedule",
            write=None,
        ),
    ]
