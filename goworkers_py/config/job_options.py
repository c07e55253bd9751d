"""The options of a job: one table with the type of each option, its check, and the places where it may be given.

    WireOptions    anywhere; each one is the field of that name in the payload, unless its row says otherwise
    CodeOptions    in the job's own code: @job
    PushOptions    for one push: EnqueueOptions, see `enqueue_options`
    SetOptions     for one push through the job: set()

The options of a feature are in its folder, and `features.job_options` puts those of all features together.

For a run, a field in the payload overrides the options in the job's code; for a push, the options of `set` or
EnqueueOptions override them. Editors and type checkers show the same classes as signatures. None: the option is not
given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from goworkers_py.config.job_option import Option
from goworkers_py.config.moments import Moment, moment
from goworkers_py.config.option_values import (
    is_bool,
    is_moment,
    is_name,
    is_retry_in,
    is_whole,
)
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.config.wire_options import RunOptions
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.job_options import FeatureOptions, FeatureOptionsOfCode, FeatureOptionsOfPush

RetryIn = Callable[[int, BaseException], float | str | None] | float | str | None


_QUEUE = Option(is_name, "a name", "the queue in which the job waits", write=None)

_PARTITION = Option(is_name, "a name", "the partition whose broker holds the queue, see docs/partitions.md", write=None)


class WireOptions(RunOptions, FeatureOptions, total=False):
    """Their order is that of the docs."""


class _OfCode(TypedDict, total=False):
    queue: Annotated[str | None, _QUEUE]
    partition: Annotated[str | None, _PARTITION]
    retry_in: Annotated[
        RetryIn,
        Option(
            is_retry_in,
            "seconds above 0, 'discard', 'kill' or a function f(count, error)",
            "seconds until a retry, to which a random part is added (up to 10 for each failure so far), or a function "
            "`f(count, error)` that returns seconds, 'discard', 'kill' or None "
            "for Sidekiq's own back-off",
            write=None,
        ),
    ]
    is_failure: Annotated[
        Callable[[BaseException], bool] | None,
        Option(
            callable,
            "a function f(error)",
            "a function `f(error)`: where it returns False, the job is run again without spending a retry, and the run "
            "does not count as failed",
            write=None,
        ),
    ]
    interrupt: Annotated[
        bool | None,
        Option(
            is_bool,
            "a bool",
            "false: nothing is raised in the job, neither at its time limit nor when it is cancelled",
            write=None,
        ),
    ]


class CodeOptions(WireOptions, _OfCode, FeatureOptionsOfCode, total=False):
    """Their order is that of the docs."""


class PushOptions(WireOptions, FeatureOptionsOfPush, total=False):
    retry_count: Annotated[
        int | None,
        Option(is_whole, "a whole number", "how many retries have failed already", write=lambda count: count or None),
    ]
    deadline: Annotated[
        Moment | None,
        Option(
            is_moment,
            "epoch seconds or a datetime",
            "the time at which a run must be over",
            write=moment,
        ),
    ]
    jid: Annotated[
        str | None,
        Option(is_name, "a text of up to 1,000 characters", "the job's jid, instead of a random one", write=None),
    ]
    at: Annotated[
        Moment | None,
        Option(
            is_moment,
            "epoch seconds or a datetime",
            "the time at which the job becomes due",
            write=None,
        ),
    ]
    extra: Annotated[
        dict[str, Any] | None,
        Option(
            lambda value: isinstance(value, dict),
            "a dict of further fields",
            "further fields of the payload, for other programs that read the job",
            write=None,
        ),
    ]


class SetOptions(PushOptions, total=False):
    queue: Annotated[str | None, _QUEUE._replace(may_be_empty=True)]
    partition: Annotated[str | None, _PARTITION._replace(may_be_empty=True)]


NOTHING_SAID = CodeOptions()

# Where the options of each table are given, for the error about an option in the wrong place.
_PLACES = {CodeOptions: "@job", SetOptions: "job.set(...)", PushOptions: "EnqueueOptions"}


@cache
def options_of(table: Any) -> dict[str, Option]:
    hints = get_type_hints(table, include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items()}


def checked(given: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """The given options, without None. Raises ArgumentError for an option that is not in the table, for a wrong value,
    and for two options that exclude each other."""
    if not given:
        return {}  # those of NO_OPTIONS: the table is made when an option is given
    known = options_of(table)
    for name, value in given.items():
        if name not in known:
            raise ArgumentError(f"{name} is not an option{_elsewhere(name, table) or did_you_mean(name, known)}")
        if _says(value, known[name]) and not known[name].fits(value):
            raise ArgumentError(f"{name} must be {known[name].wanted}, is {value!r}")
    said = {name: value for name, value in given.items() if _says(value, known[name])}
    for name, option in known.items():
        if option.instead_of in said and name in said:
            raise ArgumentError(f"{name} and {option.instead_of} are both given; give one of them")
    return said


@cache
def _replaced() -> Mapping[str, str]:
    """The option that is replaced, by that which replaces it."""
    return {name: option.instead_of for name, option in options_of(CodeOptions).items() if option.instead_of}


def overridden(by: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The options `said` and those that override them."""
    replaced = {other for name, other in _replaced().items() if by.get(name) is not None}
    return {**{name: value for name, value in said.items() if name not in replaced}, **by}


def _says(value: Any, option: Option) -> bool:
    return value is not None and not (option.may_be_empty and value == "")


def _elsewhere(name: str, table: Any) -> str:
    other = next((place for other, place in _PLACES.items() if name in options_of(other)), None)
    return (other and f" of {_PLACES[table]}; it is one of {other}") or ""


def fields_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the payload for these options."""
    if not said:
        return {}
    rows = options_of(CodeOptions) | options_of(SetOptions)
    written = {name: write(value) for name, value in said.items() if (write := rows[name].write) is not None}
    return {name: value for name, value in written.items() if value is not None}
