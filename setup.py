"""Makes the long description: README.md with absolute links, as an index needs them. All else is in setup.cfg."""

from __future__ import annotations

import re
from configparser import RawConfigParser
from pathlib import Path

ROOT = Path(__file__).parent
PICTURES = {".gif", ".jpg", ".png", ".svg"}
# Code in one alternative, the target of a link or a picture in the other: of Markdown, or of HTML.
CODE_OR_TARGET = re.compile(r'```.*?```|`[^`\n]+`|(\]\(|\b(?:href|src|srcset)=")(?!\w+:)([^)\s"]+)', re.DOTALL)


def long_description() -> str:
    setup_cfg = RawConfigParser()
    setup_cfg.read(ROOT / "setup.cfg", "utf-8")
    home = setup_cfg["metadata"]["url"]
    (version,) = re.findall(r'^__version__ = "(.+)"', (ROOT / "goworkers_py/core/version.py").read_text("utf-8"), re.M)

    def absolute(found: re.Match[str]) -> str:
        before, target = found.groups()
        if target is None:
            return found[0]
        file = "README.md" if target.startswith("#") else ""
        kind = "raw" if Path(target).suffix in PICTURES else "blob"
        return f"{before}{home}/{kind}/v{version}/{file}{target}"

    return CODE_OR_TARGET.sub(absolute, (ROOT / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    from setuptools import setup

    setup(long_description=long_description())
