"""Fires the periodic jobs of a test block, as daemons would that run all the time."""

from __future__ import annotations

import dataclasses

from goworkers_py.api.app import App
from goworkers_py.features.periodic.periodic_job import PeriodicJobs
from goworkers_py.features.periodic.schedule import Release
from goworkers_py.features.periodic.service import SHORTEST_SLEEP_S, Firer
from goworkers_py.observe.counters import Counters
from goworkers_py.runtime.outage import Outage
from goworkers_py.testing.fake_broker import FakeBroker


def periodic_firer(app: App, broker: FakeBroker) -> Firer:
    """Its slots are those from now on. It fires all of them, also where a daemon would catch up with the latest."""
    periodic = app.runner.plan().periodic or PeriodicJobs(Release(""), ())
    jobs = [dataclasses.replace(job, catch_up="all") for job in periodic.jobs]
    firer = Firer(broker, dataclasses.replace(periodic, jobs=jobs), Counters(), Outage(broker.name))
    fire_all(firer)
    return firer


def fire_all(firer: Firer) -> None:
    """One look fires so many slots of a schedule at most."""
    while firer.run_once() <= SHORTEST_SLEEP_S:
        pass
