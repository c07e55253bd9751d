"""An entry of the audit list as JSON: {"v": 1, "who": ..., "action": ..., "what": ..., "count": ..., "source": ...}.
The entries of one change of many steps have the same `change`, each with the count of its step.

The time is that of the broker, which keeps it beside the entry.
"""

from __future__ import annotations

from contextlib import suppress

import simplejson

from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.escaping import one_line
from goworkers_py.wire.needs import is_version

V = 1
# Characters of a text in an entry. A longer one is cut: an action that was done must be noted.
LONGEST = 1_000
_OWN = ("v", "who", "action", "what", "count", "source", "change")


def written_entry(who: str, action: str, what: str, count: int | None, source: str, change: str = "") -> str:
    """The texts hold names of jobs and queues, and none of these must look like another entry where it is printed."""
    texts = {"who": who, "action": action, "what": what, "source": source} | ({"change": change} if change else {})
    fields = {name: _cut(one_line(text)) for name, text in texts.items()}
    return simplejson.dumps({"v": V, **fields, "count": count})


def read_entry(raw: bytes, position: str, at: float) -> AuditEntry | None:
    """None for what is no entry that this release can read."""
    with suppress(Exception):  # other programs may write there too
        record = simplejson.loads(raw)
        count = record.get("count")
        if is_version(record["v"], V):
            texts = ("who", "action", "what", "source", "change")
            who, action, what, source, change = (str(record.get(name, "")) for name in texts)
            more = {name: value for name, value in record.items() if name not in _OWN}
            count = None if count is None else int(count)
            return AuditEntry(position, at, who, action, what, count, source, change, more)
    return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
