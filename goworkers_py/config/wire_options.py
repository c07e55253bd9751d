"""The options of a job that may be given anywhere, a part of the table in `job_options`."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, get_args

from goworkers_py.config.log_levels import LEVELS
from goworkers_py.config.moments import Delay, Moment, is_delay, is_number, moment
from goworkers_py.config.option_values import (
    are_names,
    as_it_is,
    in_order,
    is_bool,
    is_bool_or_count,
    is_count,
    is_life,
    is_life_or_false,
    is_moment,
    is_name,
    is_time_span,
    whole_seconds,
)
from goworkers_py.core.levels import Priority
from goworkers_py.features.unique.lock import OnConflict, Until
from goworkers_py.wire.needs import EXPIRES, RESULT, UNIQUE


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table."""

    fits: Callable[[Any], bool]
    wanted: str  # "must be ..."
    about: str
    write: Callable[[Any], Any] | None = as_it_is  # its form in the payload; None: no field of the payload
    may_be_empty: bool = False  # an empty text means, as None does, that the option is not given
    needs: str = ""  # the feature that the worker of a job with this option must know, see `wire.needs`


class WireOptions(TypedDict, total=False):
    retry: Annotated[
        bool | int | None,
        Option(is_bool_or_count, "true, false or a number of retries", "how many retries a failed job gets"),
    ]
    retry_max: Annotated[
        int | None,
        Option(is_count, "a number of retries", "number of retries beside `retry=True`; go-workers2 reads this one"),
    ]
    retry_for: Annotated[
        float | None,
        Option(
            lambda value: is_number(value) and 0 <= value <= 1e9,
            "0 to 1e9 s",
            "retries end this many seconds after the first failure, whatever `retry` says",
            write=int,
        ),
    ]
    priority: Annotated[
        Priority | None,
        Option(
            lambda value: value in get_args(Priority),
            "high, normal or low",
            "the level of the queue in which the job waits: before the other jobs of the queue (high), or after them "
            "(low), see docs/configuration.md",
            write=None,
        ),
    ]
    retry_queue: Annotated[str | None, Option(is_name, "a name", "the queue of the job's retries", may_be_empty=True)]
    dead: Annotated[bool | None, Option(is_bool, "a bool", "false: discarded, not buried, without retries left")]
    backtrace: Annotated[
        bool | int | None,
        Option(
            is_bool_or_count,
            "a bool or a count",
            "how many lines of the backtrace a failure stores: true all, false none; default 20",
        ),
    ]
    tags: Annotated[
        Collection[str] | None,
        Option(are_names, "a list of strings", "words that Sidekiq's pages show beside the job", write=in_order),
    ]
    timeout: Annotated[
        float | None,
        Option(lambda value: is_number(value) and value > 0, "seconds above 0", "seconds that a run may take"),
    ]
    track: Annotated[
        bool | None,
        Option(is_bool, "a bool", "true: the states of the job are recorded, see docs/job-states.md"),
    ]
    retain: Annotated[
        float | datetime.timedelta | None,
        Option(
            is_life,
            "seconds from 1 on, or a timedelta",
            "seconds for which the result of the job, or its error, is kept after its end; it is tracked then",
            write=whole_seconds,
            needs=RESULT,
        ),
    ]
    expires_in: Annotated[
        Delay | None,
        Option(
            is_delay,
            "seconds above 0 or a timedelta",
            "seconds from the push, or from the time of a scheduled job, after which the job is not begun any more",
            write=None,
            needs=EXPIRES,
        ),
    ]
    expires_at: Annotated[
        Moment | None,
        Option(
            is_moment,
            "epoch seconds or a datetime",
            "the time after which the job is not begun any more; instead of `expires_in`",
            write=moment,
            needs=EXPIRES,
        ),
    ]
    time_slice: Annotated[
        float | None,
        Option(
            lambda value: is_number(value) and value > 0,
            "seconds above 0",
            "seconds after which an iterable job goes on behind the other jobs of its queue, see docs/iteration.md",
        ),
    ]
    checkpoint: Annotated[
        float | None,
        Option(
            lambda value: is_number(value) and value > 0,
            "seconds above 0",
            "seconds between two stores of the cursor of an iterable job; default 5",
        ),
    ]
    unique_for: Annotated[
        float | datetime.timedelta | Literal[False] | None,
        Option(
            is_life_or_false,
            "seconds from 1 on, a timedelta, or False",
            "the job is not pushed while another one of its class and key holds the lock, which lasts for so many "
            "seconds from the time on at which the job is due, and is freed at its end; see docs/unique-jobs.md",
            write=None,
            needs=UNIQUE,
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
    group_grace: Annotated[
        float | datetime.timedelta | None,
        Option(
            is_time_span,
            "seconds above 0, or a timedelta",
            "seconds after its last member at which a group is aggregated; default 60; see docs/groups.md",
            write=None,
        ),
    ]
    group_max_delay: Annotated[
        float | datetime.timedelta | None,
        Option(
            is_time_span,
            "seconds above 0, or a timedelta",
            "seconds after its first member at which a group is aggregated, also while members come",
            write=None,
        ),
    ]
    group_max_size: Annotated[
        int | None,
        Option(
            lambda value: is_count(value) and value > 0,
            "a number of members, from 1 on",
            "number of members with which a group is aggregated at once",
            write=None,
        ),
    ]
    log_level: Annotated[
        str | None,
        Option(
            lambda value: isinstance(value, str) and value.lower() in LEVELS,
            f"one of {', '.join(LEVELS)}",
            "log level of the lines that this job logs, whatever other jobs have",
        ),
    ]
