"""Markdown for generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

GENERATED = "<!-- This page is written by `make reference`. -->"


class Missing(Exception):
    """Something that the pages need: a docstring, a place for a name, an example."""


def filled(page: str, tables: Mapping[str, str], path: str) -> str:
    """The page with today's tables, each between its two marks."""
    for name, table in tables.items():
        begin, end = f"<!-- {name}: written by `make reference` -->\n", "<!-- end -->"
        parts = re.split(f"{re.escape(begin)}.*?{end}", page, flags=re.DOTALL)
        if len(parts) != 2:
            raise Missing(f"{path} must have these two lines once:\n{begin}{end}")
        page = f"{begin}\n{table}\n\n{end}".join(parts)
    return page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Help or a docstring as Markdown: pages that it names become links, indented code gets a fence."""
    linked = re.sub(r"(?<![\w/])docs/([\w/-]+\.md)(#[\w-]+)?", _link, text)
    blocks = re.split(r"\n\s*\n", linked)
    return "\n\n".join(_fenced(blocks)) if any(block.startswith("    ") for block in blocks) else linked


def _link(page: re.Match[str]) -> str:
    name = page[1].removesuffix(".md").rpartition("/")[2].replace("-", " ")
    return f"[{name}]({page[1]}{page[2] or ''})"


def _fenced(blocks: Sequence[str]) -> Iterable[str]:
    """Blocks of code with nothing but an empty line between them get one fence."""
    code_blocks: list[str] = []
    for block in [*blocks, ""]:
        if block.startswith("    "):
            code_blocks.append("\n".join(line[4:] for line in block.splitlines()))
            continue
        if code_blocks:
            yield "\n".join(["```pyi", "\n\n".join(code_blocks), "```"])
            code_blocks = []
        if block:
            yield block
