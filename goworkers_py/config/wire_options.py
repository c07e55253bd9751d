"""The options of the engine that may be given anywhere, a part of the table in `job_options`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, TypedDict, get_args

from goworkers_py.config.job_option import Option
from goworkers_py.config.log_levels import LEVELS
from goworkers_py.config.moments import is_number
from goworkers_py.config.option_values import (
    are_names,
    in_order,
    is_bool,
    is_bool_or_count,
    is_count,
    is_name,
)
from goworkers_py.core.levels import Priority


class RunOptions(TypedDict, total=False):
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
    log_level: Annotated[
        str | None,
        Option(
            lambda value: isinstance(value, str) and value.lower() in LEVELS,
            f"one of {', '.join(LEVELS)}",
            "log level of the lines that this job logs, whatever other jobs have",
        ),
    ]
