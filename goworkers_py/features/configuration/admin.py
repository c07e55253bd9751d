"""Central configurations: stored in the broker with versions, and checked before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from goworkers_py.admin.asker import asker
from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.broker import Broker
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.config.parsers import has_password
from goworkers_py.core.errors import ArgumentError, BrokerRefused, ConfigError
from goworkers_py.features.configuration.central import check_form, refuse_local, written_over
from goworkers_py.features.configuration.contract import Configurations
from goworkers_py.features.configuration.stored_config import StoredConfig

MOST_SHOWN = 1_000  # configurations in a list


class ConfigurationVerbs(Verbs):
    @property
    def configurations(self) -> CentralConfiguration:
        """Shows central configurations and stores them: `inspector.configurations.newest()`."""
        return CentralConfiguration(self._broker)


class CentralConfiguration:
    """Stores configurations and shows them: `inspector.configurations.push("billing", text)`."""

    def __init__(self, broker: Broker) -> None:
        self._stored = configurations_of(broker)

    def push(self, name: str, text: str, where: str = "the text") -> StoredConfig:
        """Stores a text that processes can take, and returns it with its version. The same text as the newest
        one is not stored again. `where` names the text in errors."""
        check(name, text, where)
        before = self._stored.read(name)
        return before if before is not None and before.text == text else self._push(name, text)

    def rollback(self, name: str, version: int | None = None) -> StoredConfig:
        """Stores the text of an older version again, as the newest one; without a number, the one before the newest."""
        old = self.version(name, version) if version is not None else self.before_newest(name)
        check(name, old.text, str(old))  # a release in between may have other options
        return self._push(name, old.text, old.version)

    def _push(self, name: str, text: str, of: int = 0) -> StoredConfig:
        return self.version(name, self._stored.push(name, text, asker(), of))

    def newest(self) -> list[StoredConfig]:
        """The newest version of each configuration, but for those that cannot be read, and of 1,000 at most."""
        return [*self._newest()]

    def _newest(self) -> Iterator[StoredConfig]:
        for name, version in sorted(self._stored.newest().items())[:MOST_SHOWN]:
            with suppress(BrokerRefused):  # a stranger or a later release has written it: it must not hide the others
                if (found := self._stored.read(name, version)) is not None:
                    yield found

    def versions(self, name: str) -> Sequence[StoredConfig]:
        """The versions that are kept, the oldest first."""
        found = self._stored.versions(name)
        if not found:
            raise ArgumentError(unknown(name, self._stored))
        return found

    def version(self, name: str, version: int | None = None) -> StoredConfig:
        """One version, or the newest one."""
        found = {config.version: config for config in self.versions(name)}
        if version is not None and version not in found:
            raise ArgumentError(f"{name} has no version {version}; it has {', '.join(map(str, found))}")
        return found[max(found) if version is None else version]

    def current(self, name: str) -> StoredConfig:
        """The newest version, without a look at the others."""
        found = self._stored.read(name)
        if found is None:
            raise ArgumentError(unknown(name, self._stored))
        return found

    def before_newest(self, name: str) -> StoredConfig:
        newest = self._stored.newest().get(name, 0)
        older = [config for config in self.versions(name) if config.version < newest]
        if not older:
            raise ArgumentError(f"{name} has one version only: there is none before it")
        return older[-1]

    def delete(self, name: str) -> bool:
        """Deletes all versions. Processes that run go on as they are. False if there is no such configuration."""
        return self._stored.delete(name)


def configurations_of(broker: Broker) -> Configurations:
    configurations = broker.part(Configurations)
    if configurations is None:
        raise ConfigError(f"broker: {broker.name} stores no central configurations: set a Redis as the broker")
    return configurations


def unknown(name: str, stored: Configurations) -> str:
    known = ", ".join(sorted(stored.newest())) or "none"
    reason = f"there is no central configuration {name!r}; there are: {known}"
    return f"{reason}; `pyworkers config push FILE --name {name}` stores one"


def check(name: str, text: str, where: str) -> None:
    """Raises an error if no process could take this text, or if it has a secret or a local option."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise ArgumentError(f"the name of a configuration has letters, digits and _.- only, not {name!r}")
    source = ConfigText(text, where)
    check_form(source)
    for number, line in enumerate(text.splitlines(), 1):
        if has_password(line):
            raise ConfigError(
                f"{where}: line {number} has a password in an address, which everybody who may read the broker could "
                "read: delete it there, and where the processes run set PYWORKERS_BROKER, or name a file with the "
                "password as broker_password_file"
            )
    load(source, environment={})  # first: it knows the name that was meant
    refuse_local(source)
    load(environment={}, over=written_over(source))
