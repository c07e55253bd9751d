"""The generated files by their paths, each with its text of today: documentation, and the modules that fold over
features for type checkers.

A page is generated as a whole, or has tables between two marks; the text around these is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reference import api, brokers, commands, comparison, features, http_paths, metrics, options
from reference.markdown import filled


def generated(root: Path) -> Mapping[str, str]:
    def with_tables(path: str, tables: Mapping[str, str]) -> str:
        return filled((root / path).read_text("utf-8"), tables, path)

    return {
        **features.modules(root),
        "conf/pyworkers.ini": options.sample(),
        "docs/options.md": options.page(),
        "docs/jobs.md": with_tables("docs/jobs.md", {"job options": options.of_jobs()}),
        "docs/brokers.md": with_tables("docs/brokers.md", brokers.tables()),
        "docs/commands.md": commands.page(),
        "docs/comparison.md": with_tables("docs/comparison.md", comparison.tables()),
        "docs/metrics.md": metrics.page(),
        "docs/openapi.json": http_paths.openapi(),
        "docs/http-paths.md": http_paths.page(),
        **api.pages(),
    }
