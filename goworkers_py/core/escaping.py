"""Text that strangers wrote, for lines that people and programs read: it must not pass for a line of its own, and a
terminal must find nothing in it to obey."""

from __future__ import annotations

import re

# Control characters but the tab, what some readers take for a line break, what turns the direction of text, and halves
# of surrogate pairs. No other character that cannot be seen does harm: the spaces of many languages, joined emoji.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """For people: `\\n` for a line break, `\\x1b` for an escape."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_json_line(text: str) -> str:
    """JSON in one line, which says the same afterwards: such characters stand in its strings only."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
