"""A row of the table of job options, see `config.job_options`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.config.option_values import as_it_is
from goworkers_py.core.values import NamedTuple


class Option(NamedTuple):
    """A row of the table."""

    fits: Callable[[Any], bool]
    wanted: str  # "must be ..."
    about: str
    write: Callable[[Any], Any] | None = as_it_is  # its form in the payload; None: no field of the payload
    # The fields of the payload of a job that becomes due at this time.
    write_at: Callable[[Any, float], Mapping[str, Any]] | None = None
    instead_of: str = ""  # another option: each of the two replaces the other
    may_be_empty: bool = False  # an empty text means, as None does, that the option is not given
    needs: str = ""  # the feature that the worker of a job with this option must know, see `wire.needs`
