"""The doctor's check of periodic jobs: schedules that do not fire, and those whose jobs nobody runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress

from goworkers_py.admin.doctor import NOTE, PROBLEM, start_for
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.core.errors import ConfigError
from goworkers_py.policy.our_work import OurWork
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

# A periodic job fires within seconds after its slot.
LATE_S = 60


def periodic_findings(inspector: Inspector, work: OurWork | None) -> Iterator[Advice]:
    jobs = []
    with suppress(ConfigError):  # a broker without periodic jobs
        jobs = inspector.periodic_jobs()
    fetched = {queue for process in inspector.processes() for queue in process.queues} if jobs else set()
    now = inspector.now()
    for job in [job for job in jobs if job.state != "gone"]:
        what, name = f"periodic job {job.name} of {job.source}", shlex.quote(f"{job.source}:{job.name}")
        if job.state == "no process":
            todo = f"start one, or delete it: pyworkers periodic forget {name}"
            yield Advice(PROBLEM, f"{what} is in the code of no live process", todo)
        elif job.next_at is not None and now - job.next_at > LATE_S:
            finding = f"{what} has not fired at its slot {now - job.next_at:.0f} s ago"
            yield Advice(PROBLEM, finding, "the log of its processes, at `periodic job`, says why")
        if job.state == "paused":
            yield Advice(NOTE, f"{what} is paused", f"pyworkers periodic resume {name}")
        if work is not None and job.queue in work.queues and not _knows(work, job.job_class, job.queue):
            finding = f"{what} pushes class {job.job_class} to queue {job.queue}, and no code is registered for it"
            yield Advice(PROBLEM, finding, "add its module to `require`, or push this class to another queue")
        if job.state != "no process" and job.queue not in fetched:
            finding = f"{what} pushes to queue {job.queue}, but no live process fetches from it"
            yield Advice(PROBLEM, finding, start_for(job.queue))


def _knows(work: OurWork, job_class: str, queue: str) -> bool:
    return work.knows(Message(payload.write({"class": job_class, "args": [], "jid": ""}), queue))
