"""The table of all pages and actions."""

from __future__ import annotations

from goworkers_py.web.site.table import Table
from goworkers_py.web.views import batches, groups, job, job_lists, limits, overview, partitions, periodic, queues

_MODULES = (overview, queues, job_lists, job, periodic, batches, groups, limits, partitions)

TABLE = Table(
    [view for module in _MODULES for view in module.VIEWS], [action for module in _MODULES for action in module.ACTIONS]
)
