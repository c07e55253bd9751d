"""The description of the JSON API: for programs as OpenAPI, for people as a page."""

from __future__ import annotations

from functools import cache
from typing import Any

from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit


@cache
def described() -> dict[str, Any]:
    from goworkers_py.web.views.all_views import TABLE  # the table has this module's views too

    return document(TABLE)


def _openapi(visit: Visit) -> Data:
    """This API, described by OpenAPI 3.1."""
    return described()


def _page(visit: Visit) -> Data:
    """All paths of the API with their parameters."""
    return {"paths": described()["paths"], "about": described()["info"]["description"]}


VIEWS = [View("/openapi.json", "OpenAPI", "", _openapi), View("/api-docs", "JSON API", "api_docs.html", _page)]
ACTIONS: list[Action] = []
