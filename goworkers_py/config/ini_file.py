"""Parses the text of a configuration, which is in a file or was stored centrally."""

from __future__ import annotations

import configparser
from pathlib import Path

from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass

LONGEST_ERROR = 1_000  # characters; it could name each line


@dataclass(frozen=True, slots=True)
class ConfigText:
    text: str
    name: str  # stands in errors in the place of a path

    def __str__(self) -> str:
        return self.name


def read(source: str | Path | ConfigText) -> configparser.ConfigParser:
    # No interpolation, because a password may hold a percent sign. Inline comments, because the samples have them.
    parser = configparser.ConfigParser(
        interpolation=None, inline_comment_prefixes=(";",), comment_prefixes=(";", "#"), default_section=""
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(source.text if isinstance(source, ConfigText) else text_of(source), str(source))
    except configparser.MissingSectionHeaderError as error:
        raise ConfigError(f"{source}: line {error.lineno} is in no section; begin with [pyworkers]") from None
    except configparser.Error as error:
        raise ConfigError(f"{source}: {' '.join(str(error)[:LONGEST_ERROR].split())}") from None
    return parser


def kind_and_name(section: str) -> tuple[str, str]:
    kind, _, name = section.partition(":")
    return kind, name.strip()


def text_of(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
