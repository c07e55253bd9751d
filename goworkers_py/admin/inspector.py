"""Reads and changes queues, jobs and processes: one facade for the command line, the HTTP pages and programs.

inspector = workers.inspector
inspector.queues()
for looked_at, changed in inspector.retry(inspector.DEAD, workers.Filter(error="Timeout")): ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from goworkers_py.admin.audit import Audit
from goworkers_py.admin.jobs import Jobs
from goworkers_py.admin.metrics import ExecutionMetrics
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Checks
from goworkers_py.brokers.contracts.fleet import (
    Day,
    InProgressJob,
    LeaseOwner,
    Leftover,
    LineStats,
    Process,
    QueueStats,
    Running,
    ServerFacts,
    Stats,
)
from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES
from goworkers_py.features.verbs import FeatureVerbs


class Inspector(Jobs, FeatureVerbs, Audit, ExecutionMetrics):
    """Shows and changes queues, jobs and processes, for programs and for the command line: `workers.inspector`.

    Every method asks the broker again, and raises BrokerError if the broker does not answer. A place is SCHEDULED,
    PARKED, OUTBOX, RETRIES, DEAD or `waiting_in("mail")`.
    """

    @property
    def neighbours(self) -> Neighbours:
        """Shows jobs that other programs of a Sidekiq fleet hold: `inspector.neighbours.leftovers()`. Shows none if
        the broker serves no other programs."""
        return self._broker.neighbours or _NoNeighbours(self._broker.name)

    # --- queues

    def queues(self) -> list[QueueStats]:
        """The queues that have been pushed to, and the paused ones:
        `[queue.name for queue in inspector.queues() if queue.size]`."""
        return self._admin.queues()

    def queue(self, name: str) -> QueueStats | None:
        """One queue, such as `inspector.queue("mail")`; None if it was never pushed to and is not paused."""
        return self._admin.queue(name)

    def pause(self, queue: str) -> bool:
        """`inspector.pause("mail")`: until `resume`, no pyworkers process begins a job of the queue. Returns False
        if the queue was paused already."""
        return self._admin.pause(queue)

    def resume(self, queue: str) -> bool:
        """`inspector.resume("mail")` ends a pause. Returns False if the queue was not paused."""
        return self._admin.resume(queue)

    # --- lines and outboxes

    def lines(self) -> list[LineStats]:
        """The lines that hold parked jobs: `{line.name: line.size for line in inspector.lines()}`."""
        return self._admin.lines()

    def outboxes(self) -> list[LineStats]:
        """The outboxes that hold pushes for other brokers: `sum(one.size for one in inspector.outboxes())`."""
        return self._admin.outboxes()

    # --- the fleet

    def stats(self) -> Stats:
        """The counters, the sizes of the states and the queues: `inspector.stats().retries`."""
        stats, figures = self._admin.stats(), [feature.figures().of_stats(self) for feature in FEATURES]
        return replace(stats, **{name: value for found in figures for name, value in found.items()})

    def history(self, days: int = 30) -> list[Day]:
        """The jobs of the last days, today first, by queue too: `[(day.date, day.failed) for day in
        inspector.history(7)]`. Days begin at midnight UTC."""
        return self._admin.history(days)

    def processes(self) -> list[Process]:
        """The live processes of the fleet, in any language: `[one.identity for one in inspector.processes()]`."""
        return self._admin.processes()

    def running(self) -> list[Running]:
        """The jobs that live processes report as running, oldest first: `inspector.running()[:10]`."""
        return self._admin.running()

    def ask(self, processes: Sequence[Process], command: Command) -> list[Process]:
        """Asks processes to quiet, to stop or to dump: `inspector.ask(processes, Command.QUIET)`.

        Returns the processes that were asked. A process that is a part of another program (`embedded`) is not asked:
        only that program can command it. Nor is one of go-workers2, which reads no commands.
        """
        self._broker.require(Capability.CONTROL)
        asked = [process for process in processes if not process.embedded and process.language != "Go"]
        self._admin.ask([process.identity for process in asked], command)
        return asked

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        """Finds those of these owners of places and locks that were declared dead, or that nobody knows:
        `inspector.dead_holders({holder.owner for holder in inspector.places(Slot("stripe"))})`."""
        return self._admin.dead_holders(owners)

    def owners(self) -> list[LeaseOwner]:
        """Every identity that may have jobs in progress, alive or dead: `inspector.owners()`."""
        return self._admin.owners()

    def in_progress(self) -> Iterator[InProgressJob]:
        """The jobs in progress with their owners: `for held in inspector.in_progress(): print(held.owner)`."""
        return self._admin.in_progress()

    def held(self, owners: Collection[LeaseOwner], queue: str | None = None) -> int:
        """Counts the jobs that these owners have in progress, of one queue or of all:
        `inspector.held(inspector.owners(), "mail")`."""
        return self._admin.held(owners, queue)

    # --- the broker itself

    def now(self) -> float:
        """The time of the broker's clock, in epoch seconds: `inspector.now()`."""
        return self._admin.now()

    def broker_facts(self) -> Sequence[ServerFacts]:
        """Version, memory, clients and uptime of each server of the broker: `[(one.version, one.memory_bytes) for one
        in inspector.broker_facts()]`. Empty where the broker has no server, or does not allow INFO."""
        return self._broker.admin.servers() if self.has(Capability.ADMIN) else ()

    def damage(self) -> list[str]:
        """One line for each shared key (counters, sets) whose content no program of the fleet can have written:
        `inspector.damage()`."""
        return self._admin.damage()

    def damaged_queues(self) -> list[str]:
        """One line for each queue whose content no program of the fleet can have written:
        `inspector.damaged_queues()`."""
        return self._admin.damaged_queues()

    def checks(self, queues: Collection[str]) -> Checks:
        """The doctor's checks of this kind of broker: `inspector.checks(["mail"])`."""
        return self._admin.checks(queues)


class _NoNeighbours(Neighbours):
    """The neighbours of a broker that only pyworkers uses."""

    def __init__(self, broker: str) -> None:
        self._broker = broker  # the broker's name, for the error message

    def leftovers(self) -> list[Leftover]:
        return []

    def take_over(self, process: str) -> Iterator[int]:
        return iter(())

    def lives(self, process: str) -> bool:
        return False

    def mark_deploy(self, label: str, at: float) -> str | None:
        raise ConfigError(f"broker: cannot mark a deploy: Sidekiq's Metrics page does not read {self._broker}")
