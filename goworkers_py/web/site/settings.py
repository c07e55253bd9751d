"""The settings of the pages, from the arguments of `application(...)` and from the section [web]."""

from __future__ import annotations

from goworkers_py.config.web_options import HIDDEN
from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class PageSettings:
    title: str = ""
    read_only: bool = False
    hide: tuple[str, ...] = HIDDEN
