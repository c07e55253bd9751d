"""The thread that flushes groups: it pushes the job that aggregates a group when the group is due.

It sleeps until the next group of a class that this process aggregates is due. It looks at least once a second, because
another process may have filled a group. Any number of processes flush: the broker lets one of them claim each group.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from goworkers_py.brokers.broker import Broker
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.groups.aggregates import aggregated_in
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.end import is_ended
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.payload import field_of_set
from goworkers_py.policy.registry import JobSpec
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps, new_jid
from goworkers_py.wire.needs import FIELD

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
# Groups that are read in one step.
AT_ONCE = 100
# A look ends when the broker has refused so many.
MOST_REFUSED = 1_000
# A shorter sleep is not worth its wake-up, see `scheduler`.
SHORTEST_SLEEP_S = 0.001
# The options of a class that hold for its aggregation jobs too.
_OPTIONS = ("retry", "retry_max", "retry_for", "retry_queue", "dead", "backtrace", "tags", "log_level")
# A discarded job would take its members along: it is dead instead.
_KEPT = {"retry": 0, "dead": True}


class GroupFlusher(BrokerService):
    def __init__(self, broker: Broker, plan: Plan, wall: Callable[[], float], outage: Outage) -> None:
        super().__init__("group flusher", outage)
        self._groups = broker.part(Groups)
        self._registry = plan.registry
        self._timestamps = Timestamps(plan.config.timestamps)
        self._wall = wall

    def run_once(self) -> float:
        specs = aggregated_in(self._registry)
        if self._groups is None or not specs:
            return math.inf  # no job is declared any more while this process runs
        return max(SHORTEST_SLEEP_S, min(LOOK_EVERY_S, *(self._flush_due(self._groups, spec) for spec in specs)))

    def _flush_due(self, groups: Groups, spec: JobSpec) -> float:
        """Returns in how many seconds the next group of the class is due. Groups that the broker refuses to flush do
        not hold up the others."""
        refused: list[BrokerRefused] = []
        while True:
            due, before = groups.due(spec.name, AT_ONCE, len(refused)), len(refused)
            for group in due.groups:
                if self.stopping.is_set():
                    break
                try:
                    self._flush(groups, group, spec)
                except BrokerRefused as error:
                    refused.append(error)
            if len(refused) == before or len(due.groups) < AT_ONCE or len(refused) >= MOST_REFUSED:
                break
        line = f"{self.name}:{spec.name}"  # in the log lines that say that the broker refuses groups
        if refused:
            return self._outage.failed(line, refused[-1])
        self._outage.recovered(line)
        return math.inf if due.next_in_s is None else due.next_in_s

    def _flush(self, groups: Groups, group: Group, spec: JobSpec) -> None:
        into = group if group.set else group._replace(set=machine.token_hex(12))
        if size := groups.flush(group, into, self.job_of(into, spec)):
            log.debug("group %s of %s: %d members are to be aggregated", group.name, spec.name, size)

    def job_of(self, group: Group, spec: JobSpec) -> bytes:
        """The payload of the job that aggregates this set."""
        written = self._timestamps.write(self._wall())
        options = {name: value for name, value in spec.options.items() if name in _OPTIONS}
        options.update({name: kept for name, kept in _KEPT.items() if options.get(name) is False})
        return payload.write(
            {
                "retry": True,
                "queue": group.queue,
                "class": spec.name,
                **EnqueueOptions(**options).fields,  # type: ignore[arg-type]
                "args": [group.name],
                "jid": new_jid(),
                "created_at": written,
                "enqueued_at": written,
                FIELD: field_of_set(group, is_ended(group)),
            }
        )

    def run(self) -> None:
        super().run()
        for spec in aggregated_in(self._registry):
            self._outage.forget(f"{self.name}:{spec.name}")

    def wait_between(self, seconds: float) -> None:
        self.stopping.wait(None if math.isinf(seconds) else seconds)
