"""Periodic jobs: a report for each slot, a check that does not overlap, and a class of another program.

See docs/periodic-jobs.md.
`pyworkers run -r periodic` fires and runs them; `pyworkers periodic list` shows them. `every` is short here, so that
there is something to see. `python periodic.py` asks for a report now.
"""

from __future__ import annotations

import logging
import time

import goworkers_py as workers

log = logging.getLogger(__name__)


@workers.periodic("0 3 * * *", timezone="Europe/Berlin", name="nightly report", args=lambda slot: [slot.isoformat()])
@workers.periodic(every=2, args=lambda slot: [slot.isoformat()], catch_up="all")
@workers.job("report", queue="periodic")
def report(slot: str) -> None:
    log.info("the report of %s", slot)


@workers.periodic(every=1, overlap="skip", catch_up="none")
@workers.job("check", queue="periodic")
def check() -> None:
    time.sleep(1.5)
    log.info("checked")


if __name__ == "__main__":
    print(workers.inspector.run_periodic("nightly report"))
