"""The options of groups, a part of the table in `config.job_options`."""

from __future__ import annotations

import datetime
from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.option_values import is_count, is_name, is_time_span

GROUP = "group"  # a need: the job waits in a group, or aggregates one


class GroupOptions(TypedDict, total=False):
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


class GroupOfPush(TypedDict, total=False):
    group: Annotated[
        str | None,
        Option(
            is_name,
            "a text of up to 1,000 characters",
            "the job is a member of this group: with the other members it is aggregated into one job, see "
            "docs/groups.md",
            write=None,
            needs=GROUP,
        ),
    ]
