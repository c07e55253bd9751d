"""An entry of the audit list as JSON: {"v": 1, "who": ..., "action": ..., "what": ..., "count": ..., "source": ...}.

The time is that of the broker, which keeps it beside the entry.
"""

from __future__ import annotations

from contextlib import suppress

import simplejson

from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.wire.needs import is_version

V = 1
# Characters of a text in an entry. A longer one is cut: an action that was done must be noted.
LONGEST = 1_000
_OWN = ("v", "who", "action", "what", "count", "source")


def written_entry(who: str, action: str, what: str, count: int | None, source: str) -> str:
    texts = {"who": who, "action": action, "what": what, "source": source}
    told = {name: _cut(text) for name, text in texts.items()}
    return simplejson.dumps({"v": V, **told, "count": count})


def read_entry(raw: bytes, position: str, at: float) -> AuditEntry | None:
    """None for what is no entry that this release can read."""
    with suppress(Exception):  # other programs may write there too
        told = simplejson.loads(raw)
        count = told.get("count")
        if is_version(told["v"], V):
            who, action, what, source = (str(told.get(name, "")) for name in ("who", "action", "what", "source"))
            more = {name: value for name, value in told.items() if name not in _OWN}
            return AuditEntry(position, at, who, action, what, None if count is None else int(count), source, more)
    return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
