"""Lists, sets, tuples, dicts and unions whose parts are converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from goworkers_py.core.values import dataclass
from goworkers_py.wire.scalars import Converter, Unconvertible, from_json, shown, to_json


class Placeholder:
    """Stands for a JSON value that nobody knows yet. It is not converted."""


Convert = Callable[[Converter | None, Any], Any]


def convert_part(convert: Convert, part: str, converter: Converter | None, value: Any) -> Any:
    """Converts a part of a value. An error gets the name of the part in its path."""
    if isinstance(value, Placeholder):
        return value
    try:
        return convert(converter, value)
    except Unconvertible as error:
        raise error.inside(part) from None


def _each(convert: Convert, converter: Converter | None, values: Iterable[Any]) -> list[Any]:
    return [convert_part(convert, f"[{number}]", converter, value) for number, value in enumerate(values)]


def _list(plain: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(plain, list | tuple):
        raise Unconvertible(f"is {shown(plain)}, not a list")
    return plain


@dataclass(frozen=True, slots=True)
class Items:
    item: Converter

    def fits(self, value: Any) -> bool:
        return isinstance(value, list | tuple)

    def dump(self, value: Any) -> Any:
        return _each(to_json, self.item, value)

    def load(self, plain: Any) -> Any:
        return _each(from_json, self.item, _list(plain))


@dataclass(frozen=True, slots=True)
class Members:
    """A set. In JSON a list, in order where its values have one: equal sets are then equal bytes."""

    kind: type
    item: Converter | None

    def fits(self, value: Any) -> bool:
        return isinstance(value, set | frozenset)

    def dump(self, value: Any) -> Any:
        plain = [to_json(self.item, item) for item in value]
        try:
            return sorted(plain)
        except TypeError:
            return plain

    def load(self, plain: Any) -> Any:
        items = _each(from_json, self.item, _list(plain))
        try:
            return self.kind(items)
        except TypeError as error:
            raise Unconvertible(f"holds what no set can hold: {error}") from None


@dataclass(frozen=True, slots=True)
class RowConverter:
    """A tuple: of a type for each place, or of one type for any number of them. Also a named tuple."""

    make: Callable[[Iterable[Any]], Any]
    places: Sequence[Converter | None] | None
    item: Converter | None = None  # without places

    def fits(self, value: Any) -> bool:
        return isinstance(value, tuple)

    def dump(self, value: Any) -> Any:
        return self._converted(to_json, value)

    def load(self, plain: Any) -> Any:
        return self.make(self._converted(from_json, _list(plain)))

    def _converted(self, convert: Convert, values: Sequence[Any]) -> list[Any]:
        if self.places is None:
            return _each(convert, self.item, values)
        if len(values) != len(self.places):
            raise Unconvertible(f"has {len(values)} values, not {len(self.places)}")
        pairs = enumerate(zip(self.places, values, strict=True))
        return [convert_part(convert, f"[{number}]", place, value) for number, (place, value) in pairs]


@dataclass(frozen=True, slots=True)
class Entries:
    key: Converter | None
    value: Converter | None

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def dump(self, value: Any) -> Any:
        return self._converted(to_json, value)

    def load(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise Unconvertible(f"is {shown(plain)}, not an object")
        return self._converted(from_json, plain)

    def _converted(self, convert: Convert, entries: dict[Any, Any]) -> dict[Any, Any]:
        converted = {}
        for key, value in entries.items():
            part = f"[{shown(key)}]"
            converted[convert_part(convert, part, self.key, key)] = convert_part(convert, part, self.value, value)
        return converted


@dataclass(frozen=True, slots=True)
class Choice:
    """A union. A number, a bool and null pass as they are if the union has any plain type; any other JSON is tried as
    each converted type in turn, and passes as it is if none of them fits and there is a plain type."""

    kinds: Sequence[Converter]
    names: Sequence[str]
    plain: bool
    optional: bool

    def fits(self, value: Any) -> bool:
        return True

    def dump(self, value: Any) -> Any:
        if self._passes(value):
            return value
        fitting = [kind for kind in self.kinds if kind.fits(value)]
        # Another value is the JSON of one of the types, or of the plain type: then it is not to be changed.
        return self._first(to_json, fitting or ([] if self.plain else self.kinds), value)

    def load(self, plain: Any) -> Any:
        return plain if self._passes(plain) else self._first(from_json, self.kinds, plain)

    def _passes(self, value: Any) -> bool:
        return (value is None and self.optional) or (self.plain and isinstance(value, bool | int | float))

    def _first(self, convert: Convert, kinds: Sequence[Converter], value: Any) -> Any:
        errors = []
        for kind in kinds:
            try:
                return convert(kind, value)
            except Unconvertible as error:
                errors.append(error)
        if self.plain:
            return value
        if len(errors) == 1:
            raise errors[0]
        reasons = "; ".join(f"{error.path} {error.why}".strip() for error in errors)
        raise Unconvertible(f"is none of {', '.join(self.names)}: {reasons}")
