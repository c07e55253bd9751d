"""Gauges of features in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.values import NamedTuple
from goworkers_py.observe.health_report import HealthReport


class OfProcesses(NamedTuple):
    """A gauge of the processes that share the port. `read`: its values, by the value of its label."""

    name: str  # without `pyworkers_`
    about: str
    label: str
    read: Callable[[HealthReport], Mapping[str, float]]


class OfFleet(NamedTuple):
    """A gauge of the whole fleet."""

    name: str
    about: str
    label: str  # empty: it has none, and `read` gives one value, by an empty text
    read: Callable[[Stats], Mapping[str, float]]
