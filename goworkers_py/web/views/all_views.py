"""The table of all pages and actions: those of the features come after those of queues, jobs and processes."""

from __future__ import annotations

from goworkers_py.features import BY_NAME
from goworkers_py.web.site.table import RowTable
from goworkers_py.web.views import (
    api_docs,
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

TABLE: RowTable = RowTable(
    [
        *(view for module in _BEFORE_FEATURES for view in module.VIEWS),
        *(view for pages in _FEATURES for view in pages.views),
        *(view for module in _AFTER_FEATURES for view in module.VIEWS),
        *api_docs.views_of(lambda: TABLE),
    ],
    [
        *(action for module in _BEFORE_FEATURES for action in module.ACTIONS),
        *(action for pages in _FEATURES for action in pages.actions),
        *(action for module in _AFTER_FEATURES for action in module.ACTIONS),
    ],
)
