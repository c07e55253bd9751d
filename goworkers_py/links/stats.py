"""The link that counts how each run ended, how long it took and how long its job had waited."""

from __future__ import annotations

from goworkers_py.core import machine
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.wire.message import Message, epoch


def stats(run_stats: RunStats, prefetch: AdaptivePrefetch) -> Wrap:
    add, record, monotonic = run_stats.add, prefetch.record, machine.monotonic

    def wrap(inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            enqueued_at = epoch(message.fields.get("enqueued_at"))  # the property is one call more
            waited_s = None if enqueued_at is None else message.begun_at - enqueued_at
            began = monotonic()
            outcome = inner(message)
            ran_s = monotonic() - began
            record(ran_s)
            add(message.job_class, outcome, ran_s, waited_s)
            return outcome

        return run

    return wrap
