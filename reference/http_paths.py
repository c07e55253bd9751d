"""docs/openapi.json, the description of the JSON API, and docs/http-paths.md, the same for people."""

from __future__ import annotations

from typing import Any

import simplejson

from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.visit import PARTITION
from goworkers_py.web.views.all_views import TABLE
from reference.markdown import GENERATED, code, table

_HEAD = f"""\
{GENERATED}

# Paths of the HTTP API

Every path of the [HTTP API](http-api.md), below `/api`. A path that reads takes its parameters from the query, and \
one that changes takes them from a JSON object. A parameter in bold is needed.

Each path takes `{PARTITION}` in the query too: the name of a partition. [openapi.json](openapi.json) says the same \
for programs, with the types and the answers.
"""


def openapi() -> str:
    return simplejson.dumps(document(TABLE), indent=1) + "\n"


def page() -> str:
    paths: dict[str, dict[str, Any]] = document(TABLE)["paths"]
    reads = [
        [code(f"GET {path}"), path_of["get"]["description"], _parameters(path_of["get"]["parameters"])]
        for path, path_of in paths.items()
        if "get" in path_of
    ]
    changes = [
        [code(f"POST {path}"), path_of["post"]["description"], _fields(path_of["post"])]
        for path, path_of in paths.items()
        if "post" in path_of
    ]
    parts = [
        _HEAD,
        "## Reading\n",
        table(["path", "answers with", "parameters"], reads) + "\n",
        "## Changing and pushing\n",
        table(["path", "what it does", "fields"], changes) + "\n",
    ]
    return "\n".join(parts)


def _parameters(parameters: list[dict[str, Any]]) -> str:
    named = [(one["name"], one["description"], one["required"]) for one in parameters if one["name"] != PARTITION]
    return _listed(named)


def _fields(action: dict[str, Any]) -> str:
    schema = action["requestBody"]["content"]["application/json"]["schema"]
    needed = schema.get("required", [])
    return _listed([(name, of["description"], name in needed) for name, of in schema["properties"].items()])


def _listed(parameters: list[tuple[str, str, bool]]) -> str:
    return "<br>".join(
        f"{'**' if needed else ''}{code(name)}{'**' if needed else ''}: {about}" for name, about, needed in parameters
    )
