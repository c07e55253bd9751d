"""The table of all pages and actions."""

from __future__ import annotations

from goworkers_py.web.site.table import Table
from goworkers_py.web.views import failures, find, job, job_lists, overview, process_commands, processes, queues

_MODULES = (overview, queues, job_lists, job, failures, processes, process_commands, find)

TABLE = Table(
    [view for module in _MODULES for view in module.VIEWS], [action for module in _MODULES for action in module.ACTIONS]
)
