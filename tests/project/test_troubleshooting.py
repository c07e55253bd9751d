"""The messages that docs/troubleshooting.md quotes are made of words that stand together in the code.

That finds a message which was invented, or was reworded in the code since. It is no proof that the program prints it: a
wrong name or number is not seen, and a single word is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from pages import ROOT, blocks_of, without_blocks

PAGE = ROOT / "docs/troubleshooting.md"

# So many words in a row must stand in one text of the code.
ROW = 3
# The other words are names of the example: of queues, of classes.
LEAST_COVERED = 0.55
# What Redis, Ruby, Python or the system say.
_FOREIGN = re.compile(
    r"NameError: uninitialized constant|Error -?\d+ connecting to [\w.:]+|Error while reading from [\w.:]+"
    r"|Connection refused|Connection reset by peer|Name or service not known|Address already in use"
    r"|(?:Timeout connecting to|Connection closed by) server|max number of clients reached|Authentication required"
    r"|command not allowed when used memory > 'maxmemory'|self-signed certificate in certificate chain"
    r"|invalid username-password pair or user is disabled|too many positional arguments"
)

_PREFIX = re.compile(r"^(?:INFO|WARNING|ERROR|CRITICAL|pyworkers|problem \([\w-]+\)|note \([\w-]+\)): ")
_COMMANDS = re.compile(r"(?:pyworkers|kubectl|redis-cli|uvx|dmesg|ssh|kill|pip|retries) |[@?]|\w+=")


def _words(text: str) -> list[str]:
    # Values stand between words and are none: `key=value`, numbers, names with a dot, a colon or capitals inside.
    return re.findall(r"(?<![\w.:=/])[A-Za-z][a-z']*(?![\w=./])", text)


def _rows(words: list[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + ROW]) for at in range(len(words) - ROW + 1)]


@cache
def _rows_of_code() -> frozenset[tuple[str, ...]]:
    """Each row of words in a text of the package that is no docstring."""
    found = set[tuple[str, ...]]()
    for file in (ROOT / "goworkers_py").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in statements:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else " 0 " for part in node.values)
                found.update(_rows(_words(text)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(_rows(_words(re.sub(r"%[-.,\d]*[sdrfgi]", " 0 ", node.value))))
    return frozenset(found)


def _covered(message: str) -> float:
    words, known = _words(message), _rows_of_code()
    covered = {at + n for at, row in enumerate(_rows(words)) if row in known for n in range(ROW)}
    return len(covered) / max(1, len(words))


def _messages() -> Iterator[str]:
    for block in blocks_of(PAGE):
        for line in block.text.splitlines():
            if block.language == "text" or (block.language == "console" and _PREFIX.match(line)):
                yield _PREFIX.sub("", line)
    for span in re.findall(r"`([^`\n]+)`", without_blocks(PAGE)):
        if not _COMMANDS.match(span):
            yield from (_PREFIX.sub("", part.strip()) for part in span.split("..."))


def _quoted() -> list[str]:
    found = {_FOREIGN.sub("0", one) for one in _messages()}
    return sorted(one for one in found if len(_words(one)) > ROW)


def test_messages_of_the_page_are_found() -> None:
    assert len(_quoted()) > 50


def test_a_quoted_message_stands_in_the_code() -> None:
    assert [message for message in _quoted() if _covered(message) < LEAST_COVERED] == []


def test_a_message_that_nobody_prints_is_found_out() -> None:
    assert _covered("queue mail has 1 job waiting, but there is no worker that could run it now") < LEAST_COVERED
