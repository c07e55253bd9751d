"""The central configuration from which a process has started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.options import Config


@dataclass(frozen=True, slots=True)
class CentralSource:
    name: str
    version: int  # with which the process has started
    digest: str  # of the text of that version
    home: Config  # says on which broker it is
    read: Callable[[ConfigText], Config]  # as at the start: under the same flags and environment
