"""The verb of the inspector that shows an election."""

from __future__ import annotations

from goworkers_py.admin.verbs import Verbs
from goworkers_py.config.partitions import MAIN
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Standing


class ElectionVerbs(Verbs):
    def election(self, name: str = MAIN) -> Standing:
        """Tells how an election of processes with `standby` stands, and who leads: `inspector.election().leader`."""
        return self._broker.require_part(Leadership).look(name)
