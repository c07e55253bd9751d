"""Finds how the values of a type hint are written as JSON and read from it.

A hint of a plain type (int, str, dict, Any, ...), or of a type that is not known here, has no converter: its values
pass unchanged and unchecked. docs/arguments.md says the JSON of each type.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
from collections.abc import Sequence
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from goworkers_py.wire.containers import Choice, Entries, Items, Members, RowConverter
from goworkers_py.wire.hints import hints_of
from goworkers_py.wire.records import DataclassRecord, Model, TypedDictRecord, qualified
from goworkers_py.wire.scalars import Converter, scalar

_abc = collections.abc
_LISTS = (list, _abc.Sequence, _abc.MutableSequence, _abc.Collection, _abc.Iterable)
_SETS = {set: set, frozenset: frozenset, _abc.Set: set, _abc.MutableSet: set}
_DICTS = (dict, _abc.Mapping, _abc.MutableMapping)


def converter_for(hint: Any) -> Converter | None:
    """None for a hint whose values are plain JSON."""
    hint = _bare(hint)
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return _choice(parts)
    if not isinstance(kind, type):
        return None  # Any, Literal, a type variable
    return scalar(kind) or _container(kind, parts) or _record(kind)


def _bare(hint: Any) -> Any:
    """The hint without what says nothing of the JSON: Annotated, NewType, an alias of `type X = ...`, Required."""
    while True:
        if get_origin(hint) is Annotated or qualified(hint):
            hint = get_args(hint)[0]
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _choice(parts: Sequence[Any]) -> Converter | None:
    found = [(part, converter_for(part)) for part in parts if part is not type(None)]
    known = [(getattr(part, "__name__", str(part)), converter) for part, converter in found if converter]
    if not known:
        return None
    names, converters = zip(*known, strict=True)
    return Choice(converters, names, plain=len(known) < len(found), optional=len(found) < len(parts))


def _container(kind: type, parts: Sequence[Any]) -> Converter | None:
    if kind in _SETS:
        return Members(_SETS[kind], converter_for(parts[0]) if parts else None)
    if issubclass(kind, tuple):
        return _row(kind, parts)
    if kind in _LISTS:
        item = converter_for(parts[0]) if parts else None
        return Items(item) if item else None
    if kind in _DICTS and parts:
        key, value = map(converter_for, parts)
        return Entries(key, value) if key or value else None
    return None


def _row(kind: Any, parts: Sequence[Any]) -> Converter:
    if hasattr(kind, "_fields"):
        hints = hints_of(kind)
        return RowConverter(kind._make, [converter_for(hints.get(name, Any)) for name in kind._fields])
    if not parts and kind is tuple:
        return RowConverter(tuple, None)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return RowConverter(tuple, None, converter_for(parts[0]))
    return RowConverter(tuple, [converter_for(part) for part in parts])


def _record(kind: Any) -> Converter | None:
    if dataclasses.is_dataclass(kind):
        return DataclassRecord(kind, converter_for)
    if issubclass(kind, dict) and hasattr(kind, "__total__"):
        return TypedDictRecord(kind, converter_for)
    if hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate_json"):
        return Model(kind)  # the user has imported pydantic, so nothing is imported here
    return None
