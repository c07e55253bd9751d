"""The address of the server, with the password of `broker_password_file`, if there is one."""

from __future__ import annotations

from pathlib import Path

from goworkers_py.config.options import Config
from goworkers_py.config.parsers import with_password
from goworkers_py.core.errors import ConfigError


def address_of(config: Config) -> str:
    if not config.broker_password_file:
        return config.broker
    option = config.spelling("broker_password_file")
    path = Path(config.directory, config.broker_password_file)
    try:
        password = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"{option} {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{option} {path}: is no text in UTF-8") from None
    if not password:
        raise ConfigError(f"{option} {path}: is empty")
    try:
        return with_password(config.broker, password)
    except ValueError as error:
        raise ConfigError(f"{option}: the address in {config.spelling('broker')} {error}") from None
