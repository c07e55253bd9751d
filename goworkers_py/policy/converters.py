"""The converters of the parameters of a job's function, by their hints: see `wire.conversion`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from goworkers_py.core.errors import ArgumentError, ArgumentsDoNotFit
from goworkers_py.core.values import dataclass
from goworkers_py.wire.containers import Convert, convert_part
from goworkers_py.wire.conversion import converter_for
from goworkers_py.wire.scalars import Converter, Unconvertible, from_json, to_json

log = logging.getLogger("goworkers_py.policy.arguments")

Both = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(slots=True)
class Converters:
    """None for a parameter whose arguments pass as they are."""

    job_class: str
    places: list[tuple[str, Converter | None]]  # of positional arguments
    names: dict[str, Converter | None]  # of keyword arguments
    rest: tuple[str, Converter | None] | None  # of *args
    others: Converter | None  # of **kwargs

    @property
    def none(self) -> bool:
        return not any([self.others, self.rest and self.rest[1], *self.names.values(), *dict(self.places).values()])

    def dump(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        try:
            return self._convert(to_json, args, kwargs)
        except Unconvertible as error:
            raise ArgumentError(f"{self.job_class}: {error}") from None

    def load(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        try:
            return self._convert(from_json, args, kwargs)
        except Unconvertible as error:
            raise ArgumentsDoNotFit(f"{self.job_class}: {error}") from None

    def _convert(self, how: Convert, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
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


def converters_of(job_class: str, signature: inspect.Signature | None, hints: Mapping[str, Any]) -> Converters | None:
    """None where all arguments pass as they are."""
    found = Converters(job_class, [], {}, None, None)
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
    return None if found.none else found


def _converter(parameter: inspect.Parameter, hint: Any) -> Converter | None:
    try:
        # Many write `day: date = None`, which means `day: date | None = None`.
        return converter_for(Optional[hint] if parameter.default is None else hint)  # noqa: UP045
    except Exception as error:  # a hint is any expression, and may contain itself
        log.warning("the hint %r of %s is not understood, so its values pass as plain JSON: %s", hint, parameter, error)
        return None
