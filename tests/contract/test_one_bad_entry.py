"""An entry that no program should have written holds up no other of its list, whatever it holds."""

from __future__ import annotations

import re

from harness import OUTBOX, PARKED, SCHEDULED, Process, Processes, job, stored, waiting
from hostile_payloads import cases

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.recoverable import Recoverable
from goworkers_py.brokers.contracts.store import Store
from goworkers_py.config.options import Config
from goworkers_py.core.clock import Clock
from goworkers_py.core.effect import PostJobs
from goworkers_py.core.outcome import Done, Park
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.recovering.recoverer import judge_by
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.scheduling.scheduler import Scheduler

LONG_AGO = 1_000_000_000.0
# Every seventh of them, for they are many.
HOSTILE = [case.raw for case in cases()][::7]
EVERY = 50
FINE = [f"fine-{number}" for number in range(len(HOSTILE) // EVERY + 1)]
MIXED = [
    one for at, jid in enumerate(FINE) for one in (*HOSTILE[EVERY * at : EVERY * (at + 1)], job(jid))
]  # fmt: skip


def neighbours(several: list[bytes]) -> list[str]:
    """The jids of the neighbours among them."""
    return sorted(re.findall(r'"jid": ?"(fine-\d+)"', b"\n".join(several).decode("latin-1")))


def test_a_due_entry_holds_up_no_other(me: Process, admin: Admin, store: Store) -> None:
    me.publish(*MIXED, at=LONG_AGO)
    Scheduler(store, Config(poll_interval=60), DueHints(), Clock(), Outage("the broker")).run_once()
    assert neighbours(waiting(admin)) == sorted(FINE)
    assert stored(admin, SCHEDULED) == []


def test_an_entry_of_a_line_holds_up_no_other(me: Process, admin: Admin, store: Store) -> None:
    me.publish(*MIXED)
    me.settle(*[(one, Park("line")) for one in me.consume(len(MIXED))])
    store.release("line", 10 * len(MIXED))
    assert neighbours(waiting(admin)) == sorted(FINE)
    assert stored(admin, PARKED) == []


def test_a_push_in_an_outbox_holds_up_no_other(me: Process, admin: Admin, store: Store) -> None:
    me.publish(job("parent"))
    [parent] = me.consume(1)
    pushes = tuple(me.push(raw, push_id=str(at)) for at, raw in enumerate(MIXED))
    assert me.settle((parent, Done(effects=(PostJobs("parent", "far", pushes),)))) == [True]
    posted = store.posted("far", 10 * len(MIXED))
    assert len(posted) == len(MIXED)
    store.sent("far", posted)
    assert stored(admin, OUTBOX) == []


def test_a_job_of_a_dead_process_holds_up_no_other(
    start: Processes, recoverable: Recoverable, me: Process, admin: Admin
) -> None:
    dead = start()
    dead.publish(*MIXED)
    dead.consume(len(MIXED))
    start.expire(dead)
    judge = judge_by(PoisonPolicy(), [Tracking(Registry(), Config(), Clock().wall)], Clock().wall)
    assert len(list(recoverable.recover(me.identity, judge, ""))) == len(MIXED)
    assert neighbours(waiting(admin)) == sorted(FINE)
