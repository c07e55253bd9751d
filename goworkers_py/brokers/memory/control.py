"""This process and the others on the same memory: reports and commands."""

from __future__ import annotations

from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.contracts.fleet import Counts, Process, Running, ThreadPool
from goworkers_py.brokers.memory.lease_record import Shown
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.command import Command
from goworkers_py.observe.executions import ByQueue
from goworkers_py.wire.process_record import VERSION, ProcessMember, ProcessSnapshot
from goworkers_py.wire.stored_job import StoredJob

# A command that is older is dropped: the process did not beat when it was sent.
ASKED_FOR_S = 60.0


class MemoryControl(Control):
    def __init__(self, state: State) -> None:
        self._state = state
        self._recorded: dict[str, Counts] = {}  # by queue
        self._identity = ""  # the identity under which this process is shown

    def report(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[Command]:
        shown = Shown(_process(identity, member, now), _running(identity, now))
        with self._state.lock:
            if identity != self._identity:  # the old one was declared dead
                self._show(None)
            self._identity = identity
            before = self._show(shown)
            since = self._state.clock() - ASKED_FOR_S
        return [command for at, command in before.asked if at >= since] if before else []

    def record(self, total: ByQueue, at: float) -> None:
        with self._state.lock:
            for queue, by_class in total.items():
                runs, failures = (sum(getattr(row, name) for row in by_class.values()) for name in ("runs", "failures"))
                now, before = Counts(runs, failures), self._recorded.get(queue, Counts())
                self._state.count_of_day(at, now.since(before), queue)
                self._recorded[queue] = now

    def leave(self) -> None:
        with self._state.lock:
            self._show(None)

    def _show(self, shown: Shown | None) -> Shown | None:
        """Under the lock. Returns what was shown before. An identity without a lease has nowhere to show itself."""
        record = self._state.leases.get(self._identity)
        if record is None:
            return None
        before, record.shown = record.shown, shown
        return before


def _process(identity: str, member: ProcessMember, now: ProcessSnapshot) -> Process:
    return Process(
        identity=identity,
        version=VERSION,
        tag=member.tag,
        queues=member.queues,
        concurrency=member.concurrency,
        pools=[ThreadPool(tuple(pool.weights), pool.threads) for pool in member.pools],
        busy=len(now.running),
        quiet=now.quiet,
        embedded=now.embedded,
        standby=now.standby,
        rss_kb=now.rss // 1024,
        started_at=member.started_at,
        beat=now.at,
        commands=member.commands,
        partition=member.partition,
        cpu_share=now.cpu_share,
    )


def _running(identity: str, now: ProcessSnapshot) -> list[Running]:
    return [
        Running(identity, delivery.queue, StoredJob(delivery.payload, delivery.queue), delivery.begun_at)
        for delivery in now.running.values()
    ]
