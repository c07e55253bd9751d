"""The arguments of a job and the parameters of its function: whether they fit, and which are converted.

A producer writes JSON. The hints of the parameters say what the function gets: see `wire.conversion`. Nothing of a
function is looked at before its first use, because its hints may name classes that are defined after it.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from goworkers_py.core.errors import ArgumentError, ArgumentsDoNotFit
from goworkers_py.wire.containers import Convert, convert_part
from goworkers_py.wire.conversion import converter_for
from goworkers_py.wire.hints import hints_of, own_function
from goworkers_py.wire.scalars import Converter, Unconvertible, from_json, to_json

log = logging.getLogger(__name__)

Both = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(slots=True)
class _Converters:
    """The converters of a function's parameters; None for a parameter whose arguments pass as they are."""

    places: list[tuple[str, Converter | None]]  # of positional arguments
    names: dict[str, Converter | None]  # of keyword arguments
    rest: tuple[str, Converter | None] | None  # of *args
    others: Converter | None  # of **kwargs

    @property
    def none(self) -> bool:
        return not any([self.others, self.rest and self.rest[1], *self.names.values(), *dict(self.places).values()])

    def convert(self, how: Convert, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        return (
            [convert_part(how, *self._place(number), value) for number, value in enumerate(args)],
            {name: convert_part(how, name, self.names.get(name, self.others), value) for name, value in kwargs.items()},
        )

    def _place(self, number: int) -> tuple[str, Converter | None]:
        """The name and the converter of an argument. One too many has neither: the call refuses it."""
        if number < len(self.places):
            return self.places[number]
        name, converter = self.rest or ("args", None)
        return f"{name}[{number - len(self.places)}]", converter


class Arguments:
    """How the function of one job takes its arguments. Shared by all threads: two may look at the function at the same
    time, and find the same."""

    def __init__(self, job_class: str, function: Callable[..., Any]) -> None:
        self._job_class = job_class
        self._function = function
        # Known after the first look at the function:
        self.plain = False  # whether all arguments pass as they are
        self._counts = range(0)  # how many positional arguments alone fit
        # Not by `cached_property`, whose lock another thread may hold in the moment in which a job forks.
        self._seen: tuple[inspect.Signature | None, _Converters] | None = None

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises ArgumentError at a push whose arguments do not fit the function's signature."""
        if why := self._unbound(args, kwargs):
            raise ArgumentError(f"{self._job_class} cannot be called with these arguments: {why}")

    def dump(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        """The JSON of the arguments of a push. A row that is no list stays as it is: the client refuses it."""
        if not isinstance(args, list | tuple):
            return args, kwargs
        try:
            return self._converted(to_json, args, kwargs)
        except Unconvertible as error:
            raise ArgumentError(f"{self._job_class}: {error}") from None

    def load(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        """The values of the arguments in a payload."""
        try:
            return self._converted(from_json, args, kwargs)
        except Unconvertible as error:
            raise ArgumentsDoNotFit(f"{self._job_class}: {error}") from None

    def misfit(self, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError) -> str:
        """Why a call with these arguments raised the error before the function began; empty if it had begun."""
        code = getattr(own_function(self._function), "__code__", None)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is code:
                return ""
            trace = trace.tb_next
        return self._unbound(args, kwargs)

    def _unbound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Why the function's signature does not take these arguments; empty if it does."""
        signature, _ = self._look()
        if signature is not None:
            try:
                if kwargs or len(args) not in self._counts:
                    signature.bind(*args, **kwargs)
            except TypeError as error:
                return str(error)
        return ""

    def _converted(self, how: Convert, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        _, converters = self._look()
        return (args, kwargs) if self.plain else converters.convert(how, args, kwargs)

    def _look(self) -> tuple[inspect.Signature | None, _Converters]:
        if self._seen is None:
            signature = _signature(self._function)
            converters = _converters(signature, hints_of(own_function(self._function)))
            self._seen = signature, converters
            self.plain = converters.none
            self._counts = _counts(signature)
        return self._seen


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin without a signature


def _counts(signature: inspect.Signature | None) -> range:
    """How many positional arguments without keyword arguments fit: to count them is quicker than to bind them."""
    least = most = 0
    for one in signature.parameters.values() if signature else ():
        if one.kind is one.VAR_POSITIONAL:
            most = sys.maxsize - 1
        elif one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            most += 1
            least += one.default is one.empty
        elif one.kind is one.KEYWORD_ONLY and one.default is one.empty:
            return range(0)
    return range(least, most + 1)


def _converters(signature: inspect.Signature | None, hints: Mapping[str, Any]) -> _Converters:
    found = _Converters([], {}, None, None)
    for name, parameter in signature.parameters.items() if signature else ():
        converter = _converter(parameter, hints.get(name, Any))
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.rest = (name, converter)
        elif parameter.kind is parameter.VAR_KEYWORD:
            found.others = converter
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.places.append((name, converter))
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.names[name] = converter
    return found


def _converter(parameter: inspect.Parameter, hint: Any) -> Converter | None:
    try:
        # Many write `day: date = None`, which means `day: date | None = None`.
        return converter_for(Optional[hint] if parameter.default is None else hint)  # noqa: UP045
    except Exception as error:  # a hint is any expression, and may contain itself
        log.warning("the hint %r of %s is not understood, so its values pass as plain JSON: %s", hint, parameter, error)
        return None
