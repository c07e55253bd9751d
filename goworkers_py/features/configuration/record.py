"""A version of a central configuration as JSON: {"v": 1, "text": ..., "by": ..., "at": ..., "of": ...}"""

from __future__ import annotations

from contextlib import suppress

import simplejson

from goworkers_py.features.configuration.stored_config import StoredConfig
from goworkers_py.wire.needs import is_version

V = 1
LATEST = 253_000_000_000.0  # in the year 9987


def written_config(text: str, by: str, at: float, of: int) -> str:
    return simplejson.dumps({"v": V, "text": text, "by": by, "at": at, "of": of})


def read_config(raw: bytes, name: str, version: int) -> StoredConfig | None:
    """None for what this release cannot read."""
    with suppress(Exception):
        record = simplejson.loads(raw)
        if is_version(record["v"], V):
            text, by = str(record["text"]), str(record["by"])
            at = float(record["at"])
            if 0 <= at < LATEST:  # another program may have written a time that no calendar has
                return StoredConfig(name, version, text, by, at, int(record["of"]))
    return None
