"""The table of all pages and actions."""

from __future__ import annotations

from goworkers_py.features.limits import views as limits
from goworkers_py.features.tracking import views as results
from goworkers_py.web.site.table import Table
from goworkers_py.web.views import (
    api_docs,
    audit,
    batches,
    configurations,
    failures,
    find,
    groups,
    job,
    job_lists,
    metrics,
    overview,
    partitions,
    periodic,
    process_commands,
    processes,
    pushing,
    queues,
    reports,
    running_jobs,
)

_MODULES = (
    overview, queues, job_lists, job, failures, metrics, processes, process_commands, find, periodic, batches, groups,
    limits, partitions, configurations, reports, audit, pushing, results, running_jobs,
)  # fmt: skip

TABLE: Table = Table(
    [*(view for module in _MODULES for view in module.VIEWS), *api_docs.views_of(lambda: TABLE)],
    [action for module in _MODULES for action in module.ACTIONS],
)
