"""What a worker does with a job of a group: a member that it meets in a queue joins its group, and the job that
aggregates a set gets the set's members."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.groups import Groups
from goworkers_py.core.effect import EndSet, Push, PushJobs
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.group import GroupMembership
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import DONE, REQUEUE_LAST, Cancelled, Done, Joined, Outcome, Reschedule
from goworkers_py.policy.grouping import settings_in
from goworkers_py.policy.member_ends import member_ends
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.canceller import Canceller
from goworkers_py.wire import payload
from goworkers_py.wire.group import JobGroup, Member
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

# Members that are read in one step.
PAGE = 1_000
# When the broker refuses to read a set, its job is tried again after so long.
REFUSED_S = 60.0


def groups_of(broker: Broker) -> Groups | None:
    return broker.groups if Capability.GROUPS in broker.capabilities else None


class GroupMembers:
    """Shared by all workers of a process."""

    def __init__(self, broker: Broker, registry: Registry, canceller: Canceller, wall: Callable[[], float]) -> None:
        self._groups = groups_of(broker)
        self._registry = registry
        self._canceller = canceller
        self._wall = wall

    def begin(self, message: Message, found: JobGroup) -> Outcome | None:
        """The outcome of a job that is not run. None for one that aggregates a set: the message has its members."""
        if not found.aggregates:
            return self._joined(message, found)
        if self._groups is None:
            return None
        try:
            found_members = [*self._members(found)]
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            log.error("not begun, tried again in %g s: its members cannot be read: %s", REFUSED_S, error)
            raw = payload.splice(message.raw, {"queue": message.queue}, drop=("at",))
            return Reschedule(self._wall() + REFUSED_S, raw)
        if not found_members:
            log.info("nothing to do: the members of its group were aggregated or deleted before")
            return DONE
        message.members = members = [member for raw in found_members if (member := self._read(raw)) is not None]
        rows = [member.fields.get("args") for member in members if member.state == "completed"]
        if not rows:
            log.info("nothing to do: all members of its group have expired or were cancelled")
            return Done(effects=(EndSet(message.jid, found.group, member_ends(members, message.jid)),))
        message.args = [rows]
        return None

    def _joined(self, message: Message, found: JobGroup) -> Outcome:
        if self._groups is None:
            return DONE
        spec = self._registry.job(message.job_class)
        settings = found.said.over(settings_in({} if spec is None else spec.options))
        push = Push(message.queue, message.raw, group=GroupMembership(found.group, settings))
        return Joined(effects=(PushJobs(message.jid, (push,)),))

    def _members(self, found: JobGroup) -> Iterator[bytes]:
        assert self._groups is not None
        first = 0
        while page := self._groups.members(found.group, first, PAGE):
            yield from page
            first += len(page)

    def _read(self, raw: bytes) -> Member | None:
        try:
            member = Message(raw, "")
        except UnreadablePayload as error:
            log.error("a member of the group is no job, and is left out: %s", error)
            return None
        return Member(raw, member.fields, self._state_of(member))

    def _state_of(self, member: Message) -> StateWord:
        expires_at = member.expires_at
        if expires_at is not None and expires_at < self._wall():
            return "expired"
        outcome = self._canceller.never_run(member) if self._canceller.tombstones else None
        return "cancelled" if isinstance(outcome, Cancelled) else "completed"
