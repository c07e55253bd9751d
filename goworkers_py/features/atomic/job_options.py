"""The option of atomic jobs, a part of the table in `config.job_options`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.config.option_values import is_bool


class AtomicOptions(TypedDict, total=False):
    atomic: Annotated[
        bool | None,
        Option(is_bool, "a bool", "true: pushes of the job happen when it has ended well, all or none", write=None),
    ]
