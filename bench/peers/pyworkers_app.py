"""Ours: `pyworkers run -r pyworkers_app`; as a program, the client."""

import os
import threading
import time

import harness

import goworkers_py as workers

os.environ["PYWORKERS_BROKER"] = harness.URL

JOBS = {
    name: workers.job(name.capitalize(), queue="default")(getattr(harness, name)) for name in ("noop", "nap", "stamp")
}


@workers.job("Trace", queue="default")
def trace(milliseconds: float, number: int) -> None:
    """Notes which thread ran it from when to when, and its number."""
    began = time.monotonic_ns()
    harness.nap(milliseconds)
    harness.note(f"{os.getpid()}:{threading.get_ident()} {began} {time.monotonic_ns()} {number}")


if __name__ == "__main__":
    harness.serve(lambda job, *args: JOBS[job].enqueue(*args), lambda job, rows: JOBS[job].enqueue_bulk(rows))
