"""The description of the JSON API: for programs as OpenAPI, for people as a page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.table import Data, RowTable, View
from goworkers_py.web.site.visit import Visit


def views_of(table: Callable[[], RowTable]) -> list[View]:
    """`table` returns the whole table, of which these views are a part."""

    @functools.cache
    def described() -> dict[str, Any]:
        return document(table())

    def openapi(visit: Visit) -> Data:
        """This API, described by OpenAPI 3.1."""
        return described()

    def page(visit: Visit) -> Data:
        """All paths of the API with their parameters."""
        return {"paths": described()["paths"], "about": described()["info"]["description"]}

    return [View("/openapi.json", "OpenAPI", "", openapi), View("/api-docs", "JSON API", "api_docs.html", page)]
