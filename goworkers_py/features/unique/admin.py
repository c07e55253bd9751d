"""The verbs of the inspector for locks of unique jobs."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.admin.verbs import Verbs
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockEntry


class LockVerbs(Verbs):
    def locks(self, prefix: str = "") -> Iterator[LockEntry]:
        """The locks that unique jobs hold, in no order: `[lock.holder.jid for lock in inspector.locks("Order:")]`.
        `prefix` is the beginning of their names, which begin with the class."""
        return self._broker.require_part(Locks).entries(prefix)

    def lock(self, name: str) -> LockEntry | None:
        """One lock: `inspector.lock("Order:...")`; None if no job holds it: a free lock and a
        name that no code uses are the same to the broker."""
        return self._broker.require_part(Locks).entry(name)

    def free_lock(self, name: str) -> bool:
        """`inspector.free_lock("Order:...")` ends a lock, whatever its job does: from then on another job of this key
        may be pushed. Returns False if it was free."""
        return self._broker.require_part(Locks).free(name)
