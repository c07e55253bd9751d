"""The table of all pages and actions: those of the features come after those of queues, jobs and processes. The last
two pages describe the table itself: for programs as OpenAPI, for people as a page."""

from __future__ import annotations

import functools
from typing import Any

from goworkers_py.features import BY_NAME
from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.table import Data, RowTable, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views import (
    audit,
    failures,
    find,
    job,
    job_lists,
    metrics,
    overview,
    partitions,
    processes,
    pushing,
    queues,
)

_BEFORE_FEATURES = (
    overview, queues, job_lists, job, failures, metrics, processes, find,
)  # fmt: skip
_AFTER_FEATURES = (partitions, audit, pushing)
_FEATURES = [pages for feature in BY_NAME if (pages := feature.pages()) is not None]


@functools.cache
def _described() -> dict[str, Any]:
    return document(TABLE)


def openapi(visit: Visit) -> Data:
    """This API, described by OpenAPI 3.1."""
    return _described()


def api_docs(visit: Visit) -> Data:
    """All paths of the API with their parameters."""
    return {"paths": _described()["paths"], "about": _described()["info"]["description"]}


TABLE: RowTable = RowTable(
    [
        *(view for module in _BEFORE_FEATURES for view in module.VIEWS),
        *(view for pages in _FEATURES for view in pages.views),
        *(view for module in _AFTER_FEATURES for view in module.VIEWS),
        View("/openapi.json", "OpenAPI", "", openapi),
        View("/api-docs", "JSON API", "api_docs.html", api_docs),
    ],
    [
        *(action for module in _BEFORE_FEATURES for action in module.ACTIONS),
        *(action for pages in _FEATURES for action in pages.actions),
        *(action for module in _AFTER_FEATURES for action in module.ACTIONS),
    ],
)
