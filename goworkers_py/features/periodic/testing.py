"""Fires the periodic jobs of a test block, as daemons would that run all the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from goworkers_py.api.app import App
from goworkers_py.brokers.broker import Broker
from goworkers_py.features.parts import ForTests
from goworkers_py.features.periodic.plan import NAME
from goworkers_py.features.periodic.schedule import PeriodicJobs, Release
from goworkers_py.features.periodic.service import SHORTEST_SLEEP_S, Firer
from goworkers_py.observe.counters import Counters
from goworkers_py.runtime.outage import Outage


def before_travel(app: App, broker: Broker) -> Callable[[], object]:
    """The slots are those from now on. All of them fire, also where a daemon would catch up with the latest."""
    periodic: PeriodicJobs = app.runner.plan().of_features.get(NAME) or PeriodicJobs(Release(""), ())
    jobs = [dataclasses.replace(job, catch_up="all") for job in periodic.jobs]
    firer = Firer(broker, dataclasses.replace(periodic, jobs=jobs), Counters(), Outage(broker.name))
    _fire_all(firer)
    return lambda: _fire_all(firer)


def _fire_all(firer: Firer) -> None:
    """One look fires so many slots of a schedule at most."""
    while firer.run_once() <= SHORTEST_SLEEP_S:
        pass


FOR_TESTS = ForTests(before_travel=before_travel)
