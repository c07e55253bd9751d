"""The options of tracked jobs, a part of the table in `config.job_options`."""

from __future__ import annotations

import datetime
from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.option_values import is_bool, is_life, whole_seconds


class TrackingOptions(TypedDict, total=False):
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
            needs="result",
        ),
    ]
