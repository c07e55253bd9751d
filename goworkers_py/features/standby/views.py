"""The leaders, in the table of partitions."""

from __future__ import annotations

from goworkers_py.admin.inspector import Inspector
from goworkers_py.config.options import Config
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.web.site.table import Data, FeaturePages, PartitionColumn

_UNKNOWN: Data = {"leader": None, "epoch": None}


def _look(inspector: Inspector, config: Config) -> Data:
    if not inspector.has(Leadership):
        return _UNKNOWN
    standing = inspector.election(config.partition_name)
    return {"leader": standing.leader.identity if standing.leader else None, "epoch": standing.epoch}


PAGES = FeaturePages(of_partitions=[PartitionColumn("Leader", "leader", "partition_leader.html", _look, _UNKNOWN)])
