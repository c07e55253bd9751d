"""A number of bytes as people read it."""

from __future__ import annotations

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def byte_size(count: float) -> str:
    """1288490189 as `1.2 GB`. A KB has 1,024 bytes, as in the settings of Redis."""
    unit = 0
    while count >= 1023.95 and unit < len(_UNITS) - 1:  # what would be shown as 1024.0 has the next unit
        count, unit = count / 1024, unit + 1
    return f"{count:,.1f} {_UNITS[unit]}" if unit and count < 99.95 else f"{count:,.0f} {_UNITS[unit]}"
