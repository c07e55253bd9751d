"""The verbs of the inspector for batches."""

from __future__ import annotations

from goworkers_py.admin.verbs import Verbs
from goworkers_py.features.batches.batch_list import BatchList
from goworkers_py.features.batches.contract import Batches


class BatchVerbs(Verbs):
    @property
    def batches(self) -> BatchList:
        """Shows batches and changes them: `inspector.batches.status(bid)`, as `workers.batches` does."""
        return BatchList(self._find_broker)

    @property
    def knows_batches(self) -> bool:
        """Whether the broker keeps batches: without them the methods of `batches` raise ConfigError."""
        return self.has(Batches)
