"""How the pages are to be: what `application(...)` was given, and the section [web] for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from goworkers_py.config.web_options import HIDDEN


@dataclass(frozen=True, slots=True)
class Settings:
    title: str = ""
    read_only: bool = False
    hide: tuple[str, ...] = HIDDEN
