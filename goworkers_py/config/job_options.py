"""The options of a job: one table, which says of each option its type, its check and where it may be given.

    WireOptions    anywhere; each one is the field of that name in the payload
    CodeOptions    by the job's own code: @job
    PushOptions    by one push: EnqueueOptions
    SetOptions     by one push through the job: set()

For a run, a field in the payload overrides what the job's code says; for a push, the options of `set` or
EnqueueOptions override it. The same classes are the signatures that editors and type checkers see. None: not said.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_args, get_type_hints

from goworkers_py.config.log_levels import LEVELS
from goworkers_py.config.moments import Moment, is_number, moment
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire import payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

RetryIn = Callable[[int, BaseException], float | str | None] | float | str | None

_ANY_COUNT = 1_000_000_000


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and payload.encodable(value)


def _is_moment(value: object) -> bool:
    return is_number(value) or isinstance(value, datetime.datetime)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and 0 <= value <= _ANY_COUNT


def _is_bool_or_count(value: Any) -> bool:
    return _is_bool(value) or _is_count(value)


def _are_names(value: Any) -> bool:
    """A lone string is a sequence of strings too, and was meant as one name."""
    return isinstance(value, list | tuple | set | frozenset) and all(map(is_name, value))


def _in_order(names: Any) -> list[str]:
    return sorted(names) if isinstance(names, set | frozenset) else list(names)


def _is_retry_in(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("discard", "kill")
    return callable(value) or (isinstance(value, int | float) and 0 < value < math.inf)


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table."""

    fits: Callable[[Any], bool]
    wanted: str  # "must be ..."
    about: str
    write: Callable[[Any], Any] | None = _as_it_is  # its form in the payload; None: no field of the payload
    may_be_empty: bool = False  # an empty text says nothing, as None does


_QUEUE = Option(is_name, "a name", "where the job waits to be run", write=None)


class WireOptions(TypedDict, total=False):
    retry: Annotated[
        bool | int | None,
        Option(_is_bool_or_count, "true, false or a number of retries", "how often a failed job is run again"),
    ]
    retry_max: Annotated[
        int | None,
        Option(_is_count, "a number of retries", "how often, beside `retry=True`: the number that go-workers2 reads"),
    ]
    retry_for: Annotated[
        float | None,
        Option(
            lambda value: is_number(value) and 0 <= value <= 1e9,
            "0 to 1e9 s",
            "for how many seconds from its first failure on, whatever `retry` says",
            write=int,
        ),
    ]
    retry_queue: Annotated[str | None, Option(is_name, "a name", "the queue that its retries go to", may_be_empty=True)]
    dead: Annotated[bool | None, Option(_is_bool, "a bool", "false: not kept in the dead set without retries left")]
    backtrace: Annotated[
        bool | int | None,
        Option(
            _is_bool_or_count,
            "a bool or a count",
            "how many lines of its backtrace a failure stores: true all, false none, 20 if not said",
        ),
    ]
    tags: Annotated[
        Collection[str] | None,
        Option(_are_names, "a list of strings", "words that Sidekiq's pages show beside the job", write=_in_order),
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
            "the level of the lines that it logs, whatever the others have",
        ),
    ]


class CodeOptions(WireOptions, total=False):
    queue: Annotated[str | None, _QUEUE]
    retry_in: Annotated[
        RetryIn,
        Option(
            _is_retry_in,
            "seconds above 0, 'discard', 'kill' or a function f(count, error)",
            "seconds until a retry, or a function `f(count, error)` that returns seconds, 'discard', 'kill' or None "
            "for Sidekiq's own back-off",
            write=None,
        ),
    ]
    interrupt: Annotated[
        bool | None,
        Option(_is_bool, "a bool", "false: at its time limit nothing is raised inside of the job", write=None),
    ]


class PushOptions(WireOptions, total=False):
    retry_count: Annotated[
        int | None,
        Option(_is_whole, "a whole number", "how many retries have failed", write=lambda count: count or None),
    ]
    deadline: Annotated[
        Moment | None,
        Option(
            _is_moment,
            "epoch seconds or a datetime",
            "when a run must be over",
            write=moment,
        ),
    ]
    jid: Annotated[str | None, Option(is_name, "a text", "the job's id, instead of a random one", write=None)]
    at: Annotated[
        Moment | None,
        Option(
            _is_moment,
            "epoch seconds or a datetime",
            "when the job becomes due",
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
    queue: Annotated[str | None, replace(_QUEUE, may_be_empty=True)]


NOTHING_SAID = CodeOptions()

# How people give the options of a table, for those who have looked in the wrong one.
_PLACES = {CodeOptions: "@job", SetOptions: "set()", PushOptions: "EnqueueOptions"}


@cache
def options_of(table: Any) -> dict[str, Option]:
    hints = get_type_hints(table, include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items()}


def checked(given: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """What is said, without each None. Raises ArgumentError for what is no option there, and for a wrong value."""
    known = options_of(table)
    for name, value in given.items():
        if name not in known:
            raise ArgumentError(f"{name} is not an option{_elsewhere(name, table) or did_you_mean(name, known)}")
        if _says(value, known[name]) and not known[name].fits(value):
            raise ArgumentError(f"{name} must be {known[name].wanted}, is {value!r}")
    return {name: value for name, value in given.items() if _says(value, known[name])}


def _says(value: Any, option: Option) -> bool:
    return value is not None and not (option.may_be_empty and value == "")


def _elsewhere(name: str, table: Any) -> str:
    other = next((place for other, place in _PLACES.items() if name in options_of(other)), None)
    return (other and f" of {_PLACES[table]}; it is one of {other}") or ""


def fields_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """As they stand in the JSON."""
    rows = options_of(CodeOptions) | options_of(SetOptions)
    written = {name: write(value) for name, value in said.items() if (write := rows[name].write) is not None}
    return {name: value for name, value in written.items() if value is not None}


class EnqueueOptions:
    """What one push says of its job: `EnqueueOptions(retry=3, tags=["a"])`. Unsaid, the job's own code decides, or the
    default of the program that runs the job."""

    __slots__ = ("fields", "said")

    def __init__(self, **options: Unpack[PushOptions]) -> None:
        self.said: dict[str, Any] = checked(options, PushOptions)
        self.fields = fields_of(self.said)  # of the payload
        if "extra" in self.said:
            self.fields = _extra_fields(self.said["extra"]) | self.fields

    def over(self, code: CodeOptions) -> EnqueueOptions:
        """With what the job's code says where this says nothing: other programs respect and show that too."""
        extra = self.said.get("extra", {})
        shared = {name: value for name, value in code.items() if name in options_of(WireOptions) and name not in extra}
        return EnqueueOptions(**{**shared, **self.said})

    def replaced(self, **options: Unpack[PushOptions]) -> EnqueueOptions:
        return EnqueueOptions(**{**self.said, **options})

    def __repr__(self) -> str:
        return f"EnqueueOptions({', '.join(f'{name}={value!r}' for name, value in self.said.items())})"


NO_OPTIONS = EnqueueOptions()

_SET_BY_PUSH = ("class", "args", "queue", "at", "created_at", "enqueued_at")
_RESERVED = "pyworkers"
# Options since 0.2.0: programs of before then give them as further fields. The option itself overrides the field.
_ONCE_EXTRA = ("retry_max", "log_level")


def _extra_fields(extra: dict[str, Any]) -> dict[str, Any]:
    for name in extra:
        if name in _SET_BY_PUSH:
            raise ArgumentError(f"extra: {name} is set by the push itself")
        if name == _RESERVED:
            raise ArgumentError(f"extra: {name} is reserved for the workers themselves since 0.2.0")
        if name in options_of(PushOptions) and name not in _ONCE_EXTRA:
            raise ArgumentError(f"extra: {name} is an option of its own")
    checked({name: extra[name] for name in _ONCE_EXTRA if name in extra}, PushOptions)
    payload.check_plain(extra, "extra", payload.MAX_NESTING)
    return extra
