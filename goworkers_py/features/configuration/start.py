"""The start of a process with --config-from: from the newest version of a central configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import WriteOver, load, variable
from goworkers_py.config.options import Config
from goworkers_py.config.partitions import of_connection
from goworkers_py.core.errors import BrokerRefused, ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.features.configuration.central import ignored, written_over

if TYPE_CHECKING:
    from goworkers_py.cli.base import LocalSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CentralSource:
    """The central configuration from which a process has started."""

    name: str
    version: int  # with which the process has started; 0: with none, because the newest one could not be used
    digest: str  # of the text that was read at the start
    home: Config  # says on which broker it is
    read: Callable[[WriteOver], Config]  # as at the start: over the same file, under the same environment and flags
    fault: str = ""  # why the newest version could not be used at the start
    ignored: str = ""  # the warning about what was ignored at the start


def configured_from(name: str, local: LocalSettings) -> Config:
    """The local configuration, and over it the newest version of a central one, on the broker of the local one. A
    version that cannot be used does not keep processes from starting, because a stranger could have written it."""
    home = load(local.file, environment=of_connection(os.environ, variable), flags=of_connection(local.flags))
    stored, digest = local.use(home).configurations, ""
    try:
        found = stored.current(name)
        digest, text = found.digest, ConfigText(found.text, str(found))
        config = local.read(written_over(text))
        source = CentralSource(name, found.version, digest, home, local.read, ignored=ignored(text))
    except (BrokerRefused, ConfigError) as error:
        config = local.read(None)
        source = CentralSource(name, 0, digest, home, local.read, fault=str(error))
    return replace(config, origin=source)


def log_start(source: CentralSource) -> None:
    """Tells what of the central configuration could not be used."""
    if source.fault:
        log.error(
            "the configuration %s cannot be used, and this process starts with its local configuration alone; it takes "
            "the next version that is pushed: %s", source.name, source.fault,
        )  # fmt: skip
    if source.ignored:
        log.warning("%s", source.ignored)
