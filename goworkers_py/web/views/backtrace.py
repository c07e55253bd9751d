"""The backtrace of a failed job, as Sidekiq and pyworkers pack it. A small packed text can be made to unpack into a
huge one, so no more is unpacked than is shown."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import simplejson

MOST_BYTES, MOST_LINES, LONGEST = 200_000, 300, 500


def lines_of(stored: Any) -> list[str]:
    """[] for what cannot be read."""
    if isinstance(stored, str):
        stored = _unpacked(stored)
    if not isinstance(stored, list):
        return []
    return [str(line)[:LONGEST] for line in stored[:MOST_LINES]]


def _unpacked(packed: str) -> Any:
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed), MOST_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        return []
    if unpacking.unconsumed_tail:  # too long: the lines that are whole
        text = text[: text.rfind(b'","')] + b'"]'
    try:
        return simplejson.loads(text)
    except (ValueError, RecursionError):
        return []
