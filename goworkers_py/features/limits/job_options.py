"""The option of jobs with limits, a part of the table in `config.job_options`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol, TypedDict

from goworkers_py.config.job_option import Option
from goworkers_py.features.limits.limit import LimitSpec


class HasLimit(Protocol):
    """A value of `workers.limit`."""

    @property
    def spec(self) -> LimitSpec: ...


def are_limits(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    names = [spec.name for limit in value if isinstance(spec := getattr(limit, "spec", None), LimitSpec)]
    return len(set(names)) == len(value)


class LimitOptions(TypedDict, total=False):
    limits: Annotated[
        Sequence[HasLimit] | None,
        Option(
            are_limits,
            "a list of limits, as workers.limit() returns them",
            "the limits of the job, which `workers.limit` returns, see docs/limits.md",
            write=None,
        ),
    ]
