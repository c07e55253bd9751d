"""The link that counts runs and learns how long they take."""

from __future__ import annotations

import time

from goworkers_py.counters import Counters, Pace
from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run, Wrap
from goworkers_py.outcome import Outcome


def stats(counters: Counters, pace: Pace) -> Wrap:
    def wrap(inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            began = time.monotonic()
            try:
                outcome = inner(message)
            except BaseException:
                counters.add("failed")
                raise
            finally:
                pace.record(time.monotonic() - began)
                counters.add("processed")
            return outcome

        return run

    return wrap
