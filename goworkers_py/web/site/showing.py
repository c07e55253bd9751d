"""Makes any text safe and readable on a page."""

from __future__ import annotations

import re

from markupsafe import Markup

# Control characters, marks that turn the direction of text, characters without width, halves of surrogate pairs: all
# that could make a page show something else than the text says. Line ends and tabs stay.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text with such characters as escapes: `\\x1b`, `\\u202e`."""
    return text if text.isprintable() else _INVISIBLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: object) -> object:
    """Called for every value that a template prints."""
    if isinstance(value, Markup):
        return value
    return visible(value) if isinstance(value, str) else value


def cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
