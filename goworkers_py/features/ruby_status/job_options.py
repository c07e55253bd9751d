"""The option of jobs that sidekiq-status shows, a part of the table in `config.job_options`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.option_values import is_bool


class RubyStatusOptions(TypedDict, total=False):
    sidekiq_status: Annotated[
        bool | None,
        Option(
            is_bool,
            "a bool",
            "true: the gem sidekiq-status shows the job in Ruby, see docs/job-states.md; it is tracked then",
            write=None,
        ),
    ]
