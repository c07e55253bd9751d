"""Escapes text from strangers (payloads, servers, exceptions) before it is printed in a line: the text must not look
like a separate line, and must hold no control sequence for a terminal."""

from __future__ import annotations

import re

# Control characters except the tab, characters that some readers take for a line break, characters that change the
# direction of text, and halves of surrogate pairs. Other invisible characters are harmless: the spaces of many
# languages, joiners in emoji. Texts instead of compiled patterns: `re` compiles them when the first such text comes.
_UNSAFE = "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def one_line(text: str) -> str:
    """For people: `\\n` for a line break, `\\x1b` for an escape."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def one_json_line(text: str) -> str:
    """The same JSON value in one line: unsafe characters stand only in strings, where an escape means the same."""
    return text if text.isprintable() else re.sub(_UNSAFE, lambda found: f"\\u{ord(found[0]):04x}", text)
