"""Partitions: the brokers of a fleet, whether they answer, what waits on them, and what features show of them."""

from __future__ import annotations

import time

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.config.parsers import without_password
from goworkers_py.config.partitions import MAIN, of_partition
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import BY_NAME
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit

AGE_S, WAIT_S = 2.0, 0.3

OF_FEATURES = [
    column for feature in BY_NAME if (pages := feature.pages()) is not None for column in pages.of_partitions
]
COLUMNS = Columns(
    "broker", *(column.sort for column in OF_FEATURES), "waiting", "in_progress", "retries", "dead", "processes",
    name=lambda row: row["shown_name"],
    state=lambda row: row["error"] or ("working" if row["answers"] else ""),
)  # fmt: skip


def listed(visit: Visit) -> Data:
    """Every partition: its broker, whether it answers, what waits there, and who leads its standby processes."""
    config = visit.host.config
    names = ["", *(partition.name for partition in config.partitions)]
    for name in names:
        _look(visit, name, 0.0)  # all are asked at once: brokers that do not answer hold up the page together
    deadline = time.monotonic() + WAIT_S
    rows = []
    for name in names:
        own = of_partition(config, name)
        found = _look(visit, name, max(0.0, deadline - time.monotonic()))
        stats, facts = found.value or (None, [column.unknown for column in OF_FEATURES])
        lacks = isinstance(found.error, ConfigError)  # such as a directory, which does not count
        rows.append(
            {
                "name": name,
                "shown_name": name or MAIN,
                "broker": without_password(own.broker),
                "store": without_password(own.store) if own.store else "",
                "standby": own.standby,
                "lacks": lacks,
                "answers": found.error is None and stats is not None,
                "error": str(found.error) if found.error else "",
                "waiting": sum(queue.size for queue in stats.queues) if stats else None,
                "in_progress": stats.in_progress if stats else None,
                "retries": stats.retries if stats else None,
                "dead": stats.dead if stats else None,
                "processes": stats.processes if stats else None,
            }
            | {name: value for fields in facts for name, value in fields.items()}
        )
    return {"rows": COLUMNS.sorted(rows, visit.args["sort"])}


def _look(visit: Visit, name: str, wait_s: float) -> PageSnapshot[tuple[Stats, list[Data]]]:
    inspector = visit.host.partition(name).inspector if name else visit.host.inspector
    config = of_partition(visit.host.config, name)

    def look() -> tuple[Stats, list[Data]]:
        return inspector.stats(), [column.look(inspector, config) for column in OF_FEATURES]

    return visit.panel(f"partition {name}", AGE_S, look, wait_s)


VIEWS = [View("/partitions", "Partitions", "partitions.html", listed, (COLUMNS.param,), menu="Partitions")]
ACTIONS: list[Action] = []
