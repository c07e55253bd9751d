"""The brokers to which this process can relay held pushes: those of its Apps and of their partitions, and those to
which jobs have pushed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.fence import as_producer
from goworkers_py.core.home import DESTINATIONS

if TYPE_CHECKING:
    from goworkers_py.api.client import Client
    from goworkers_py.config.options import Config
    from goworkers_py.core.effect import Push
    from goworkers_py.core.home import Destination


class _App(Protocol):
    @property
    def is_configured(self) -> bool: ...

    @property
    def config(self) -> Config: ...

    def client_of(self, partition: str) -> Client: ...


_APPS: list[weakref.ref[_App]] = []  # each App


def remember(app: _App) -> None:
    _APPS.append(weakref.ref(app, _APPS.remove))


class _AppDestination:
    """The client is made at the first push: a faulty configuration of one App holds up no other."""

    def __init__(self, app: _App, partition: str) -> None:
        from goworkers_py.config.partitions import of_partition

        config = app.config
        self.home = (of_partition(config, partition) if partition else config).home
        self._app = app
        self._partition = partition

    def publish_held(self, pushes: Sequence[Push]) -> None:
        client = self._app.client_of(self._partition)
        if client.home != self.home:
            raise BrokerUnavailable("the App was configured anew")
        with as_producer():  # the fence of the job has passed them
            client.publish_held(pushes)


def destinations() -> dict[str, Destination]:
    """By name. Apps that nobody has configured are not asked: that would read a configuration file."""
    apps = [app for app in (reference() for reference in _APPS[:]) if app is not None and app.is_configured]
    known = [
        _AppDestination(app, name)
        for app in apps
        for name in ("", *(partition.name for partition in app.config.partitions))
    ]
    return {**DESTINATIONS, **{destination.home.name: destination for destination in known}}
