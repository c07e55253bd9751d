"""Describes the JSON API by OpenAPI, from the table that makes it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from goworkers_py.core.version import __version__
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.table import Action, RowTable, View
from goworkers_py.web.site.visit import PARTITION

_ABOUT = (
    "Reads and changes the jobs of a fleet, and pushes new ones, in Sidekiq's format. Every page of pyworkers has its "
    'data here under the same path. Errors are `{"error": text}`.'
)
_PARTITION = {
    "name": PARTITION, "in": "query", "description": "name of a partition; the main one if left out",
    "schema": {"type": "string"},
}  # fmt: skip
_ERRORS = {
    400: "a parameter is wrong, and the text says which", 401: "log in, or give a token",
    403: "this role may not do that", 404: "there is no such thing", 502: "the broker has refused",
    503: "the broker does not answer: try again",
}  # fmt: skip
_ERRORS_OF_CHANGES = {
    409: "another job has this jid, or this lock", 413: "the body is too long",
    415: "the body is neither JSON nor a form", 429: "too many changes: wait as `Retry-After` says",
}  # fmt: skip


def document(table: RowTable) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for view in table.views.values():
        paths.setdefault(view.path, {})["get"] = _of_view(view)
    for action in table.actions.values():
        paths.setdefault(action.path, {})["post"] = _of_action(action)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pyworkers", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/api", "description": "below the path of the pages"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`pyworkers web grant NAME` makes one"},
                "password": {"type": "http", "scheme": "basic"},
            },
            "schemas": {
                "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
                "Done": _DONE,
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


_DONE = {
    "type": "object",
    "required": ["said", "count", "problems"],
    "properties": {
        "said": {"type": "string", "description": "a sentence about what was done"},
        "count": {"type": ["integer", "null"], "description": "how many things were changed"},
        "problems": {"type": "array", "items": {"type": "string"}},
        "go_on": {
            "type": "object",
            "description": "there is more to do: post `fields` again, until no `go_on` comes",
            "properties": {
                "fields": {"type": "object"},
                "looked_at": {"type": "integer"},
                "total": {"type": "integer"},
            },
        },
    },
}


def _of_view(view: View) -> dict[str, Any]:
    return {
        "operationId": f"get{view.path.replace('/', '-').rstrip('-') or '-overview'}",
        "summary": view.title,
        "description": _docstring(view.data),
        "tags": [view.tag or _tag(view.path)],
        "parameters": [*map(_parameter, view.query), _PARTITION],
        "responses": {
            "200": _answer({"type": "object"}, "the data of the page"),
            **_others(_ERRORS | dict(view.others)),
        },
    }


def _of_action(action: Action) -> dict[str, Any]:
    done: dict[str, Any] = {"$ref": "#/components/schemas/Done"}
    if action.result:
        done = {"allOf": [done, {"type": "object", "properties": dict(action.result)}]}
    return {
        "operationId": f"post{action.path.replace('/', '-')}",
        "summary": action.audit_name,
        "description": _docstring(action.run),
        "tags": [_tag(action.path)],
        "parameters": [_PARTITION],
        "requestBody": {"required": True, "content": {"application/json": {"schema": object_of(action.fields)}}},
        "responses": {"200": _answer(done, "it was done"), **_others(_ERRORS | _ERRORS_OF_CHANGES)},
    }


def object_of(fields: Sequence[Param]) -> dict[str, Any]:
    """The schema of a JSON object with these fields."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _schema(field) for field in fields},
        "additionalProperties": False,
    }
    if needed := [field.name for field in fields if field.needed]:
        schema["required"] = needed
    return schema


def _docstring(function: Any) -> str:
    return " ".join((inspect.getdoc(function) or "").split())


def _tag(path: str) -> str:
    first = path.strip("/").split("/")[0]
    return {"": "overview", "jobs": "job", "queues": "queue"}.get(first, first)


def _parameter(param: Param) -> dict[str, Any]:
    schema = _schema(param)
    about = schema.pop("description")
    fields = {"name": param.name, "in": "query", "description": about, "required": param.needed, "schema": schema}
    return fields | ({"explode": True} if param.kind.several else {})


def _schema(param: Param) -> dict[str, Any]:
    schema = dict(param.kind.schema)
    how = schema.get("description")
    schema["description"] = f"{param.about}: {how}" if how else param.about
    if param.choices:
        schema["enum"] = list(param.choices)
    if param.default not in (None, ""):
        schema["default"] = param.default
    return schema


def _answer(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _others(answers: Mapping[int, str]) -> dict[str, Any]:
    error = {"$ref": "#/components/schemas/Error"}
    return {str(code): _answer(error if code >= 400 else {"type": "object"}, about) for code, about in answers.items()}
