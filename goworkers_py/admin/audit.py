"""Notes what people change, and shows it."""

from __future__ import annotations

from dataclasses import replace

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.verbs import Verbs
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.audit_record import written_entry

MOST = 1_000  # entries that are returned
LEAST_READ = 100  # at once: the steps of one change may be many
_SECRETS = ("error", "match", "argument")


class Audit(Verbs):
    def note_action(
        self, who: str, action: str, what: str, count: int | None = None, *, source: str = "", change: str = ""
    ) -> None:
        """`inspector.note_action("ada", "retry", "dead jobs, class Mail", 12, source="10.0.0.7")` adds an entry to the
        audit list, with the time of the broker. The broker keeps about 10,000 of them. Longer texts are cut. A change
        that is made in steps notes each of them with the same `change`, a name of your own, and the count of the step.
        """
        self._admin.note_action(written_entry(who, action, what, count, source, change))

    def actions(self, limit: int = 50, before: str = "") -> list[AuditEntry]:
        """The newest entries of the audit list, the newest first: `inspector.actions(10)`. `before` is the position of
        an entry: those before it are returned. The steps of a change that follow each other are one entry with the sum
        of their counts and the words of the last step."""
        admin = self._admin
        if not 1 <= limit <= MOST:
            raise ArgumentError(f"limit must be 1 to {MOST:,}, is {limit}")
        found: list[AuditEntry] = []
        while page := admin.actions(before, max(limit + 1, LEAST_READ)):
            for entry in page:
                if found and _is_one_change(found[-1], entry):
                    found[-1] = _joined(found[-1], entry)
                elif len(found) == limit:
                    return found
                else:
                    found.append(entry)
            before = page[-1].position
        return found


def scope_of(wanted: Filter) -> str:
    """A filter in the words of the audit list: without the texts that somebody may have copied from a job."""
    shown = str(replace(wanted, error="", match="", argument=""))
    hidden = " and ".join(name for name in _SECRETS if getattr(wanted, name))
    return ", ".join(filter(None, (shown, hidden and f"by {hidden}")))


def _is_one_change(newer: AuditEntry, older: AuditEntry) -> bool:
    named = newer.change, newer.who, newer.action
    return bool(newer.change) and named == (older.change, older.who, older.action)


def _joined(newer: AuditEntry, older: AuditEntry) -> AuditEntry:
    counts = [entry.count for entry in (newer, older) if entry.count is not None]
    return replace(newer, position=older.position, count=sum(counts) if counts else None)
