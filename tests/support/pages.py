"""The pages of the documentation, the fenced blocks in them, and what a reader has who types them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from daemon import environment
from servers import do_without

ROOT = Path(__file__).resolve().parents[2]
README, EXAMPLES = ROOT / "README.md", ROOT / "examples"
# The history tells of former versions: its names and commands need not exist any more.
HISTORY = ROOT / "docs/history.md"
PAGES = [README, *sorted({*(ROOT / "docs").glob("*.md")} - {HISTORY}), EXAMPLES / "README.md"]
# With those for developers.
ALL_PAGES = [*PAGES, *sorted((ROOT / "docs/internals").glob("*.md")), *sorted(ROOT.glob("[!R]*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. Its first line may name a file: `# jobs.py`, `; conf.ini`, `// main.go`."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        named = re.match(r"(?:#|;|//) (\S+\.\w+)\n", self.text)
        return named[1] if named else None

    @property
    def commands(self) -> list[str]:
        """Its lines that are not empty and no comments."""
        return [line for line in self.text.splitlines() if shlex.split(line, comments=True)]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


_BLOCK = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = _BLOCK.finditer(text)
    return [Block(page, text.count("\n", 0, block.start()) + 1, block[2], textwrap.dedent(block[3])) for block in found]


def without_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text("utf-8"))


def write_files_of(page: Path, folder: Path) -> None:
    for block in blocks_of(page):
        if block.file:
            file = folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, "utf-8")


def terminal() -> dict[str, str]:
    """The environment of somebody who types the commands of a page."""
    return environment(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONDONTWRITEBYTECODE="1",  # no files beside the examples
    )


def reader(redis_url: str) -> dict[str, str]:
    """The same, with the address of the server for Python, Ruby and Go."""
    address = redis_url.partition("://")[2].partition("/")[0]
    return terminal() | {"PYWORKERS_BROKER": redis_url, "REDIS_URL": redis_url, "REDIS_ADDR": address}


def needs(program: str) -> None:
    if not shutil.which(program, path=terminal()["PATH"]):
        do_without(f"{program} is missing")


@cache
def ruby_has_sidekiq() -> bool:
    tried = ["ruby", "-rsidekiq", "-e", "1"]
    return bool(shutil.which("ruby")) and subprocess.run(tried, capture_output=True).returncode == 0
