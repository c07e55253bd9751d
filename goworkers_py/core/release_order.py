"""The order of releases, of this distribution or of an application."""

from __future__ import annotations


def release_order(release: str) -> str:
    """A text that sorts, byte by byte, as people count: 9 before 10, 1.9 before 1.10. The empty text is first."""
    parts: list[str] = []
    digits = ""
    for letter in [*release, ""]:
        if letter.isascii() and letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append(digits.lstrip("0").rjust(20, "0"))
            digits = ""
        parts.append(letter)
    return "".join(parts)
