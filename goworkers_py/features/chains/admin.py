"""The verbs of the inspector for chains."""

from __future__ import annotations

from goworkers_py.admin.verbs import Verbs
from goworkers_py.features.chains.chain_list import ChainList


class ChainVerbs(Verbs):
    @property
    def chains(self) -> ChainList:
        """Shows chains and cancels them: `inspector.chains.status(cid)`, as `workers.chains` does."""
        return ChainList(self._find_broker)
