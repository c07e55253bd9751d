"""The options of iterable jobs, a part of the table in `config.job_options`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.moments import is_number


class IterationOptions(TypedDict, total=False):
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
