"""Checks a value against the part of JSON Schema that the description of the API uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip
_KNOWN = {"$ref", "allOf", "type", "enum", "required", "properties", "additionalProperties", "items", "minItems",
          "maxItems", "minimum", "maximum", "description", "default"}  # fmt: skip


def misfit(value: Any, schema: Mapping[str, Any], document: Mapping[str, Any], at: str = "$") -> str:
    """Where and why the value does not fit; empty if it does."""
    assert set(schema) <= _KNOWN, f"{at}: teach this validator {set(schema) - _KNOWN}"
    if "$ref" in schema:
        return misfit(value, referred(schema["$ref"], document), document, at)
    for part in schema.get("allOf", ()):
        if why := misfit(value, part, document, at):
            return why
    types = schema.get("type", list(_TYPES))
    if not any(_is(value, one) for one in ([types] if isinstance(types, str) else types)):
        return f"{at} is no {types}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is none of {schema['enum']}"
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{at} is out of range"
    if isinstance(value, list):
        return _misfit_of_list(value, schema, document, at)
    return _misfit_of_object(value, schema, document, at) if isinstance(value, dict) else ""


def referred(reference: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    assert isinstance(found, dict)
    return found


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _misfit_of_list(value: list[Any], schema: Mapping[str, Any], document: Mapping[str, Any], at: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{at} has {len(value)} items"
    found = (misfit(one, schema.get("items", {}), document, f"{at}[{number}]") for number, one in enumerate(value))
    return next(filter(None, found), "")


def _misfit_of_object(value: dict[str, Any], schema: Mapping[str, Any], document: Mapping[str, Any], at: str) -> str:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at} lacks {name}"
    if schema.get("additionalProperties") is False and (more := set(value) - set(known)):
        return f"{at} has {more}"
    found = (misfit(value[name], known[name], document, f"{at}.{name}") for name in known if name in value)
    return next(filter(None, found), "")
