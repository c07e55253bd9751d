"""Makes any text safe and readable on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from markupsafe import Markup

from goworkers_py.web.http.request import EXACT

# Control characters, marks that turn the direction of text, characters without width, halves of surrogate pairs: all
# that could make a page show something else than the text says. Line ends and tabs stay.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """The text with such characters as escapes: `\\x1b`, `\\u202e`."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: object) -> object:
    """Called for every value that a template prints."""
    if isinstance(value, Markup):
        return value
    return visible(value) if isinstance(value, str) else value


def named(name: str, value: object) -> Markup:
    """The name and the value of a field that is sent as it is. A browser would send other line ends, no NUL and no half
    of a surrogate pair, and `shown` makes the rest visible: so such a text goes percent-encoded."""
    text = str(value)
    if not text.isprintable() or visible(text) != text:
        name, text = f"{name}{EXACT}", quote(text, safe="", errors="surrogatepass")
    return Markup('name="{}" value="{}"').format(name, text)


def hidden(fields: Mapping[str, object] | Iterable[tuple[str, object]]) -> Markup:
    """Hidden fields of a form. A list makes several of one name."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    flat_pairs = (
        (name, element) for name, value in pairs for element in (value if isinstance(value, list | tuple) else [value])
    )
    return Markup("").join(
        Markup('<input type="hidden" {}>').format(named(name, element)) for name, element in flat_pairs
    )


def cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
