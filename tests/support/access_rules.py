"""The ACL rules for Redis that the docs list."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPTIONAL = {"info", "client|setinfo", "select"}


def documented() -> list[str]:
    """The words after ACL SETUSER of the first such line in a fenced block."""
    for page in sorted(DOCS.rglob("*.md")):
        found = re.search(r"^```\w*\n(?:[^`]*\n)?ACL SETUSER (pyworkers .+)$", page.read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1].split()
    raise AssertionError("no page of docs/ has a line with ACL SETUSER in a fenced block")


RULES = documented()
PASSWORD = next(word for word in RULES if word.startswith(">"))[1:]
COMMANDS = [word for word in RULES if word.startswith("+")]
PATTERNS = [word for word in RULES if word.startswith("~")]
