"""Processes that fire a due slot and kill themselves at the n-th line of that, see `crash_points`.

    python periodic_crash_points.py ADDRESS STRIDE

The schedule of step n is that of the application `app-n`, pushes into queue `periodic-n` and has a single slot, which
is due. Its job is tracked and must not overlap, so the firing writes a record and takes a lock too. Prints `n killed`
for each step, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import sys
from functools import partial

from crash_points import Killer, live_until_one_survives

from goworkers_py.api.app import App
from goworkers_py.features.periodic import redis as periodic
from goworkers_py.features.periodic.service import Firer
from goworkers_py.observe.counters import Counters
from goworkers_py.runtime.outage import Outage

# The second slot of this rule is in the year 2033.
EVERY_S = 1_000_000_000


def firer(address: str, step: int) -> tuple[App, Firer]:
    app = App()
    app.configure(broker=address, source=f"app-{step}")

    @app.periodic(every=EVERY_S, overlap="skip")
    @app.job("Periodic", queue=f"periodic-{step}", track=True)
    def job() -> None: ...

    return app, Firer(app.broker, app.runner.plan().of_features["periodic"], Counters(), Outage("Redis"))


def fire(address: str, step: int) -> None:
    killer = Killer(step)
    _, fires = firer(address, step)
    killer.begin()
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    fires.run_once()


def main(address: str, stride: str) -> None:
    # Each process would compose the script and load the parts of features first: thousands of lines that ask no server.
    assert periodic._FIRE.sha
    live_until_one_survives(partial(fire, address), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
