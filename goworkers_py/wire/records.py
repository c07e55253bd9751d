"""Classes whose values are JSON objects: dataclasses, TypedDicts and the models of pydantic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Optional, get_args, get_origin

from goworkers_py.core.values import NamedTuple
from goworkers_py.wire import payload
from goworkers_py.wire.containers import Convert, convert_part
from goworkers_py.wire.hints import hints_of
from goworkers_py.wire.scalars import REFUSALS, Converter, Unconvertible, from_json, shown, to_json

Find = Callable[[Any], Converter | None]


class _Field(NamedTuple):
    converter: Converter | None
    required: bool


class _Record:
    """The fields are looked at when the first value is converted: a class may have fields of its own type."""

    def __init__(self, kind: Any, find: Find) -> None:
        self.kind = kind
        self._find = find
        self._seen: dict[str, _Field] | None = None

    def _fields(self) -> dict[str, _Field]:
        if self._seen is None:
            self._seen = self._look()
        return self._seen

    def _look(self) -> dict[str, _Field]:
        raise NotImplementedError

    def _object(self, plain: Any) -> dict[str, Any]:
        if not isinstance(plain, dict):
            raise Unconvertible(f"is {shown(plain)}, not an object of {self.kind.__name__}")
        return plain

    def _converted(self, convert: Convert, entries: dict[str, Any]) -> dict[str, Any]:
        fields = self._fields()
        for name, field in fields.items():
            if field.required and name not in entries:
                raise Unconvertible("is missing", f".{name}")
        return {
            name: convert_part(convert, f".{name}", fields[name].converter, part) if name in fields else part
            for name, part in entries.items()
        }


class DataclassRecord(_Record):
    """A dataclass: in JSON an object with the fields that the constructor takes."""

    def _look(self) -> dict[str, _Field]:
        hints, found = hints_of(self.kind), {}
        for field in dataclasses.fields(self.kind):
            hint = hints.get(field.name, Any)
            if field.init:
                converter = self._find(Optional[hint] if field.default is None else hint)  # noqa: UP045
                required = field.default is field.default_factory is dataclasses.MISSING
                found[field.name] = _Field(converter, required)
        return found

    def fits(self, value: Any) -> bool:
        return type(value) is self.kind  # the fields of a subclass would be lost

    def dump(self, value: Any) -> Any:
        return self._converted(to_json, {name: getattr(value, name) for name in self._fields()})

    def load(self, plain: Any) -> Any:
        for name in self._object(plain):
            if name not in self._fields():
                raise Unconvertible(f"is no field of {self.kind.__name__}", f".{name}")
        fields = self._converted(from_json, plain)
        try:
            return self.kind(**fields)
        except REFUSALS as error:
            raise Unconvertible(f"is refused by {self.kind.__name__}: {error}") from None


class TypedDictRecord(_Record):
    """A TypedDict. Keys that it does not name stay as they are."""

    def _look(self) -> dict[str, _Field]:
        # Not `__required_keys__` alone: where hints are texts, it holds keys that are NotRequired.
        required = self.kind.__required_keys__
        return {
            name: _Field(self._find(hint), name in required and not _may_be_left_out(hint))
            for name, hint in hints_of(self.kind).items()
        }

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def dump(self, value: Any) -> Any:
        return self._converted(to_json, value)

    def load(self, plain: Any) -> Any:
        return self._converted(from_json, self._object(plain))


def qualified(hint: Any) -> str:
    """The word around the type of a key of a TypedDict: Required, NotRequired, ReadOnly; else an empty text."""
    name = getattr(get_origin(hint), "_name", None)
    return name if name in ("Required", "NotRequired", "ReadOnly") else ""


def _may_be_left_out(hint: Any) -> bool:
    return bool(word := qualified(hint)) and (word == "NotRequired" or _may_be_left_out(get_args(hint)[0]))


class Model:
    """A model of pydantic (2 or later), which reads and writes its JSON itself."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def fits(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def dump(self, value: Any) -> Any:
        try:
            return value.model_dump(mode="json", by_alias=True, round_trip=True)
        except REFUSALS as error:
            raise Unconvertible(f"cannot be written by {self.kind.__name__}: {error}") from None

    def load(self, plain: Any) -> Any:
        try:
            # From text: a strict model takes a text for a date from JSON only.
            return self.kind.model_validate_json(payload.encode(plain))
        except REFUSALS as error:
            raise _refused(self.kind, error) from None


def _refused(kind: Any, error: Exception) -> Unconvertible:
    """The first of pydantic's errors, with its place."""
    errors = error.errors() if hasattr(error, "errors") else []
    if not errors:
        return Unconvertible(f"is refused by {kind.__name__}: {error}")
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in errors[0]["loc"])
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return Unconvertible(f"{errors[0]['msg']}{more}", path)
