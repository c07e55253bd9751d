"""Ours: `pyworkers run -r counted_pyworkers`; as a program, it fills the queue."""

import counted

import goworkers_py as workers

SLICE = 1_000
noop = workers.job("Noop", queue="default")(counted.noop)

if __name__ == "__main__":
    workers.configure(broker=counted.URL)
    for start in range(0, counted.COUNT, SLICE):
        noop.enqueue_bulk([[]] * min(SLICE, counted.COUNT - start))
