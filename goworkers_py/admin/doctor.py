"""The doctor: checks the broker, queues, jobs and processes for what an operator should fix. It changes nothing.

A finding is one line: what is wrong, and what to do. A problem loses jobs or leaves them unprocessed, sooner or later;
a note is only information. The broker itself brings the checks of its server, see `Admin.checks`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.late_queues import late_queues
from goworkers_py.admin.long_runs import long_runs
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.admin.summary import Summary
from goworkers_py.brokers.contracts.admin import Advice, Checks, Glance, Place
from goworkers_py.brokers.contracts.fleet import QueueStats
from goworkers_py.core.errors import BrokerFull, BrokerRefused, NoSuchDatabase, WrongType
from goworkers_py.core.values import dataclass
from goworkers_py.features import BY_NAME
from goworkers_py.observe.health_report import OF_SUSPECT, QUIET, STARTING, STOPPING
from goworkers_py.policy.lines import owner_of
from goworkers_py.policy.our_work import OurWork
from goworkers_py.wire.stored_job import StoredJob

# How many of the next jobs of each queue are read, unless it is told otherwise.
SAMPLE = 1_000
# How many failed jobs of each state are counted, and how many of the most frequent kinds are reported.
MOST_FAILURES, TOP_FAILURES = 5_000, 3

# A job that is parked for longer may have been forgotten.
LONG_PARKED_S = 86_400
# A push goes to the other broker within seconds, if that serves and a process knows it.
LONG_POSTED_S = 60

# Some process of a fleet looks for due jobs every few seconds, unless `poll_interval` says otherwise.
LATE_DUE_S = 120

PROBLEM = True
NOTE = False


def start_for(queue: str) -> str:
    """Advises people to start a process for a queue from which none fetches."""
    return f"start a process for this queue: pyworkers run -q {shlex.quote(queue)} -r MODULE"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    problem: bool
    what: str
    todo: str


class Doctor:
    def __init__(
        self, inspector: Inspector, work: OurWork | None, sample: int = SAMPLE, most_failures: int | None = None
    ) -> None:
        """`work` is None when the user's code could not be imported: then the check `classes` is left out. `sample` is
        how many of the next jobs of each queue are read, `most_failures` how many failed jobs of each state."""
        self._inspector = inspector
        self._work = work
        self._sample = sample
        self._most_failures = most_failures or MOST_FAILURES

    def findings(self) -> Iterator[Finding]:
        of_server = self._inspector.checks(self._work.queues if self._work else ())
        for name, check in {**of_server, **self._checks()}.items():
            try:
                for problem, what, todo in check():
                    yield Finding(name, problem, what, todo)
            except NoSuchDatabase:
                raise
            except WrongType:
                pass  # the check `types` reports the key
            except BrokerRefused as error:
                todo = f"grant the command, or use --skip {name}"
                yield Finding(name, False, f"this check could not run: {error}", todo)
            except BrokerFull as error:  # only checks that write, or that open a transaction; the others say more
                yield Finding(name, False, f"this check could not run: {error}", "make room in the server first")

    def _checks(self) -> Checks:
        return {
            "queues": self._queues,
            "classes": self._classes,
            "processes": self._processes,
            "threads": self._threads,
            "long-runs": self._long_runs,
            "due": self._due,
            "failures": self._failures,
            "in-progress": self._dead_owners,
            "parked": self._parked,
            **self._checks_of_features(),
            "outbox": self._outbox,
            "go-workers": self._go_workers,
            "unreadable": self._unreadable,
        }

    def _checks_of_features(self) -> Checks:
        found = [feature.checks(self._inspector, self._work) for feature in BY_NAME]
        return {name: check for checks in found for name, check in checks.items()}

    def _queues(self) -> Iterator[Advice]:
        fetched = fetched_queues(self._inspector)
        for queue in self._inspector.queues():
            if queue.size and queue.paused:
                what = f"queue {queue.name} is paused and holds {counted(queue.size)}"
                yield Advice(NOTE, what, f"pyworkers queue resume {queue.name}")
            elif queue.size and queue.name not in fetched:
                what = f"queue {queue.name} holds {counted(queue.size)}, but no live process fetches from it"
                elsewhere = self._work.elsewhere if self._work else {}
                yield Advice(PROBLEM, what, elsewhere.get(queue.name, start_for(queue.name)))

    def _classes(self) -> Iterator[Advice]:
        if self._work is None:
            return
        for queue in self._inspector.queues():
            if queue.name not in self._work.queues:
                continue
            jobs = self._next_jobs(queue)
            # A large payload has something that stands in for it, and that may lack the class.
            messages = [job.message for job in jobs if job.message and (job.message.job_class or not job.whole)]
            unknown = Counter(message.job_class for message in messages if not self._work.knows(message))
            for name, count in unknown.items():
                waiting = f"{counted(count)} waiting in queue {queue.name}"
                what = f"no code is registered for class {name or '(none)'}: {waiting}"
                yield Advice(PROBLEM, what, "add its module to `require`, or push this class to another queue")

    def _processes(self) -> Iterator[Advice]:
        for owner in self._inspector.owners():
            if owner.trouble not in ("", STARTING, QUIET, STOPPING):
                if OF_SUSPECT in owner.trouble:
                    yield Advice(
                        NOTE, f"process {owner.identity} {owner.trouble}", "do not restart it: this ends within minutes"
                    )
                    continue
                dump = f"`pyworkers processes dump {owner.identity}` and its log show where it hangs"
                yield Advice(PROBLEM, f"process {owner.identity} {owner.trouble}", f"{dump}; then restart it")

    def _threads(self) -> Iterator[Advice]:
        for found in late_queues(self._inspector):
            yield Advice(PROBLEM, str(found), found.todo)

    def _long_runs(self) -> Iterator[Advice]:
        for found in long_runs(self._inspector):
            todo = "`pyworkers processes dump` shows where they are; give long jobs a timeout or a queue of their own"
            yield Advice(NOTE, str(found), todo)

    def _due(self) -> Iterator[Advice]:
        now = self._inspector.now()
        for place in (SCHEDULED, RETRIES):
            with suppress(WrongType):  # the check `types` reports this key; the other state is still read
                for job in self._inspector.first(place, 1, Glance()):
                    if job.at is not None and (late_s := now - job.at) > LATE_DUE_S:
                        what = f"{place.state.value} holds {counted(self._inspector.count(place))}"
                        what += f", the first of them due {late_s:.0f} s ago: nobody has put it into its queue"
                        todo = "start `pyworkers run` or Sidekiq; where one runs, look for `scheduler` in its log, and "
                        yield Advice(PROBLEM, what, todo + "whether its `poll_interval` is that long")

    def _failures(self) -> Iterator[Advice]:
        for place in (RETRIES, DEAD):
            with suppress(WrongType):  # the check `types` reports this key; the other state is still read
                yield from self._failures_in(place)

    def _failures_in(self, place: Place) -> Iterator[Advice]:
        summary, read, name = Summary(), 0, place.state.value
        for page in self._inspector.pages(place, newest_first=True, glance=Glance()):
            summary.add(page)
            read += len(page)
            if read >= self._most_failures:
                break
        size = self._inspector.count(place)
        of = counted(size) if size <= read else f"the last {counted(read)}"
        for kind in [kind for kind in summary.kinds() if kind.error_class][:TOP_FAILURES]:
            what = f"{kind.count} of {of} in {name} failed with {kind.error_class} in class {kind.job_class}"
            shown = f"pyworkers {name} list --class {shlex.quote(kind.job_class)}"
            yield Advice(NOTE, what, f"`{shown}` lists them, `pyworkers {name} summary` counts all failures")

    def _dead_owners(self) -> Iterator[Advice]:
        for owner in self._inspector.owners():
            held = 0 if owner.alive else self._inspector.held([owner])
            if held:
                what = f"process {owner.identity} is dead and has {counted(held)} in progress"
                yield Advice(PROBLEM, what, "to recover them now: pyworkers recover")

    def _parked(self) -> Iterator[Advice]:
        for line in self._inspector.lines():
            if line.latency_s > LONG_PARKED_S and owner_of(line.name) is None:
                hours = int(line.latency_s // 3600)
                what = f"line {line.name} holds {counted(line.size)}, the first of them for {hours} hours"
                yield Advice(
                    NOTE,
                    what,
                    "`pyworkers parked list` shows them, `pyworkers parked retry` puts them into their queues",
                )

    def _outbox(self) -> Iterator[Advice]:
        for outbox in self._inspector.outboxes():
            if outbox.latency_s > LONG_POSTED_S:
                pushes = counted(outbox.size, "push", "pushes")
                what = f"{pushes} to {outbox.name} wait in the outbox, the first for {outbox.latency_s:.0f} s"
                todo = "look whether it serves; another broker also needs a process whose code configures an App for it"
                yield Advice(PROBLEM, what, todo)

    def _go_workers(self) -> Iterator[Advice]:
        for left in self._inspector.neighbours.leftovers():
            if not self._inspector.neighbours.lives(left.process):
                what = f"process {left.process} of go-workers holds {counted(left.size)} of queue {left.queue}"
                yield Advice(PROBLEM, what, f"if it has ended: pyworkers recover --go-workers {left.process}")

    def _unreadable(self) -> Iterator[Advice]:
        for queue in self._inspector.queues():
            count = sum(job.message is None for job in self._next_jobs(queue))
            if count:
                what = f"queue {queue.name} holds {_unreadable_jobs(count)}"
                yield Advice(PROBLEM, what, f"fix their producer; to see them: pyworkers queue show {queue.name}")
        for place in (RETRIES, SCHEDULED, DEAD):
            with suppress(WrongType):  # the check `types` reports this key; the other states are still read
                yield from self._unreadable_in(place)

    def _unreadable_in(self, place: Place) -> Iterator[Advice]:
        page = next(self._inspector.pages(place, newest_first=place == DEAD, glance=Glance()), [])
        count, name = sum(job.message is None for job in page), place.state.value
        if count:
            what = f"{name} holds {_unreadable_jobs(count)}"
            yield Advice(place != DEAD, what, f"fix their producer; to see them: pyworkers {name} list")

    def _next_jobs(self, queue: QueueStats) -> list[StoredJob]:
        return self._inspector.first(waiting_in(queue.name), min(queue.size, self._sample), Glance())


def fetched_queues(inspector: Inspector) -> set[str]:
    """The queues from which live processes fetch."""
    fetched = {queue for process in inspector.processes() for queue in process.queues}
    return fetched | {queue for owner in inspector.owners() if owner.alive for queue in owner.queues}


def _unreadable_jobs(count: int) -> str:
    return counted(count, "unreadable job", "unreadable jobs")
