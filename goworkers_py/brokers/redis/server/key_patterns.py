"""Patterns of keys, for SCAN."""

from __future__ import annotations

import re


def any_between(before: str, after: str) -> str:
    """A pattern for SCAN, for the lists of other programs whose names begin and end so."""
    return f"{literally(before)}*{literally(after)}"


def literally(text: str) -> str:
    """The text as a part of a pattern."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)
