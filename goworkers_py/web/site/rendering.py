"""Renders the templates. Every value is escaped, and made visible, wherever it comes from."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from goworkers_py.features import BY_NAME
from goworkers_py.web.site.charts import CHARTS
from goworkers_py.web.site.filters import FILTERS
from goworkers_py.web.site.showing import hidden, named, shown

FILES = Path(__file__).parents[1]
FEATURES = FILES.parent / "features"
STATIC = FILES / "static"
KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([FILES / "templates", *(FEATURES / feature.name / "templates" for feature in BY_NAME)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS)
    of_features = [pages for feature in BY_NAME if (pages := feature.pages()) is not None]
    environment.globals.update(
        CHARTS,
        hidden=hidden,
        named=named,
        rows_of_features=[pages.job_rows for pages in of_features if pages.job_rows],
        tools_of_features=[pages.job_tools for pages in of_features if pages.job_tools],
        running_tools=[tool for pages in of_features for tool in pages.running_tools],
        parts_of_processes=[pages.of_processes for pages in of_features if pages.of_processes is not None],
        columns_of_partitions=[column for pages in of_features for column in pages.of_partitions],
    )
    return environment


def render(template: str, values: dict[str, Any]) -> str:
    return _templates().get_template(template).render(values)


def static(name: str) -> tuple[bytes, str] | None:
    """The bytes and the type of a file; None if there is none of this name."""
    return _files().get(name)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """All of them: a cache by names that strangers may ask for would grow without end."""
    return {file.name: (file.read_bytes(), KINDS[file.suffix]) for file in STATIC.iterdir() if file.suffix in KINDS}


@cache  # the names are those of the templates
def version_of(name: str) -> str:
    """Changes with the file's content, so that browsers may keep the file for ever."""
    found = static(name)
    return "" if found is None else hashlib.sha1(found[0], usedforsecurity=False).hexdigest()[:12]
