"""Where a job expires among the rungs around its run."""

from __future__ import annotations

import pytest
from apps import Suspicious, guard_around, job, net, never

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import DONE, EXPIRED, Outcome
from goworkers_py.features.expiry.run import ExpiringRuns
from goworkers_py.links.chain import Run
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RESULTS, RunStats
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.wire.message import Message

RECOVERED = {"count": 1, "since": 1}
PAST, FUTURE = 1.0, 4e9


def run(
    payload: bytes, chain: Run = never, quarantine: Quarantine | None = None, run_stats: RunStats | None = None
) -> Outcome:
    guard = guard_around(chain, quarantine=quarantine, of_queue=net(run_stats))
    return guard.run(Delivery(payload, "q", "me"))


@pytest.mark.parametrize("field", ["expires_at", "expiry"])
def test_a_job_whose_time_has_passed_is_dropped_and_counted_and_no_code_sees_it(field: str) -> None:
    stats = RunStats()
    assert run(job(**{field: PAST}), run_stats=stats) is EXPIRED
    assert stats.snapshot()["J"][RESULTS.index("expired")] == 1
    assert run(job(**{field: FUTURE}), lambda message: DONE) is DONE


def test_a_suspect_whose_time_has_passed_does_not_wake_the_quarantine() -> None:
    quarantine = Suspicious()
    assert run(job(recovered=RECOVERED, expires_at=PAST), quarantine=quarantine) is EXPIRED
    assert quarantine.ran == []


def test_a_suspect_whose_time_passes_while_it_waits_to_run_alone_is_dropped() -> None:
    now = PAST

    class Waits(Suspicious):
        def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
            nonlocal now
            now = FUTURE
            return super().run(message, delivery, chain)

    quarantine = Waits()
    expiring = ExpiringRuns(Registry(), Counters(), lambda: now)
    guard = guard_around(never, expiring, quarantine=quarantine)
    payload = job(jid="late", recovered=RECOVERED, expires_at=2.0)
    assert guard.run(Delivery(payload, "q", "me")) is EXPIRED
    assert quarantine.ran == ["late"]
