"""The work on a job of a group: a member that it meets in a queue joins its group, and the job that
aggregates a set gets the set's members."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from goworkers_py.brokers.broker import Broker
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import DONE, REQUEUE_LAST, Done, Joined, Outcome, Requeue
from goworkers_py.features.groups.aggregates import NAME, Aggregates, aggregated_in
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndMember, EndSet
from goworkers_py.features.groups.end import AT_ONCE, end_of_set, ends_of, is_ended, member_ends
from goworkers_py.features.groups.group import Group, GroupMembership
from goworkers_py.features.groups.job_options import GROUP
from goworkers_py.features.groups.payload import GroupMember, JobGroup, field_of_set, group_of
from goworkers_py.features.groups.push import settings_in
from goworkers_py.features.in_process import InProcess, StandIn, WorkerProcess, never_begins
from goworkers_py.links.chain import Run
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.running.rungs import Rung, refused
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD

if TYPE_CHECKING:
    from goworkers_py.features.groups.service import GroupFlusher

# The mark of a member of a group, and of the job that aggregates its members.
MARK = "group"

log = logging.getLogger("goworkers_py.job")

# Members that are read in one step.
PAGE = 1_000


class GroupedRuns(InProcess):
    def __init__(self, process: WorkerProcess) -> None:
        self._registry, wall = process.plan.registry, process.shared.clock.wall
        ends = partial(never_begins, process.parts.values())
        self._members = GroupMembers(process.broker, self._registry, ends, wall)
        self._flusher: GroupFlusher | None = None
        if aggregated_in(self._registry):
            from goworkers_py.features.groups.service import GroupFlusher

            self._flusher = GroupFlusher(process.broker, process.plan, wall, process.shared.outage)

    def markers(self) -> Mapping[str, Callable[[Message], Collection[str]]]:
        return {GROUP: lambda message: () if group_of(message.fields, message.queue) is None else (MARK,)}

    def rungs(self) -> Mapping[str, Rung]:
        return {"group": Rung(self._run, frozenset((MARK,)))}

    def stand_in(self) -> StandIn:
        return StandIn(MARK, Aggregates(self._registry), aggregate)

    def services(self) -> Sequence[BrokerService]:
        return () if self._flusher is None else (self._flusher,)

    def look(self) -> None:
        if self._flusher is not None:
            self._flusher.run_once()

    def _run(self, run: Run, message: Message) -> Outcome:
        group = group_of(message.fields, message.queue)
        if group is None:
            return run(message)
        outcome = self._members.begin(message, group)
        return self._members.after(message, group.group, run(message)) if outcome is None else outcome


class GroupMembers:
    """Shared by all workers of a process."""

    def __init__(
        self,
        broker: Broker,
        registry: Registry,
        never_begins: Callable[[Message], StateWord | None],
        wall: Callable[[], float],
    ) -> None:
        """`never_begins`: see `InProcess`."""
        self._broker = broker
        self._registry = registry
        self._never_begins = never_begins
        self._wall = wall

    @property
    def _groups(self) -> Groups | None:
        return self._broker.part(Groups)

    def begin(self, message: Message, found: JobGroup) -> Outcome | None:
        """The outcome of a job that is not run. None for one that aggregates a set: the message has its members."""
        if not found.aggregates:
            return self._joined(message, found)
        if self._groups is None:
            return None
        try:
            if is_ended(found.group):
                return self._end_some(self._groups, message, found.group)
            read = [(raw, self._read(raw)) for raw in self._members(found)]
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            return refused(message, f"its members cannot be read: {error}", self._wall())
        return self._without_run(message, found.group, read)

    def _without_run(
        self, message: Message, group: Group, read: Sequence[tuple[bytes, GroupMember | None]]
    ) -> Outcome | None:
        """None when there are members to aggregate."""
        if not read:
            log.info("nothing to do: the members of its group were aggregated or deleted before")
            return DONE
        members = [member for _, member in read if member is not None]
        message.delivery.of_features = {**message.delivery.of_features, NAME: members}
        rows = [member.fields.get("args") for member in members if member.state == "completed"]
        if len(members) > len(rows) + AT_ONCE:
            dropped = [member for member in members if member.state != "completed"][:AT_ONCE]
            log.info("%d members of its group have expired or were cancelled, and leave it first", len(dropped))
            return Requeue(effects=ends_of(dropped, group, message.jid))
        if not rows:
            log.info("nothing to do: all members of its group have expired or were cancelled")
            return Done(effects=(EndSet(message.jid, group, member_ends(members, message.jid)),))
        message.args = [rows]
        return None

    def _end_some(self, groups: Groups, message: Message, group: Group) -> Outcome:
        """One step of the end of a set whose one job was pushed."""
        found = groups.members(group, 0, AT_ONCE)
        ends = [end for raw in found for end in self._ends(raw, group, message.jid)]
        if len(found) < AT_ONCE:
            return Done(effects=(*ends, EndSet(message.jid, group)))
        return Requeue(effects=tuple(ends))

    def _ends(self, raw: bytes, group: Group, by: str) -> Sequence[EndMember]:
        member = self._read(raw)
        if member is None:
            return (EndMember(by, group, raw),)
        return ends_of([member._replace(state="completed")], group, by)

    def after(self, message: Message, group: Group, outcome: Outcome) -> Outcome:
        """The outcome of a run of the function that aggregates. A link of the user may have answered that the job is
        done, in place of the function: its members end as well. When the ends of the members are too many for one step,
        the job goes on with the set in which they wait."""
        if not isinstance(outcome, Done):
            return outcome
        end = next((effect for effect in outcome.effects if isinstance(effect, EndSet)), None)
        if end is None:
            end = end_of_set(group, message.delivery.of_features.get(NAME, ()), (), message.jid)
            outcome = dataclasses.replace(outcome, effects=(*outcome.effects, end))
        if end.into is None:
            return outcome
        raw = payload.splice(message.raw, {FIELD: field_of_set(end.into, is_ended=True)})
        return Requeue(raw, effects=outcome.effects)

    def _joined(self, message: Message, found: JobGroup) -> Outcome:
        if self._groups is None:
            return DONE
        spec = self._registry.job(message.job_class)
        settings = found.said.over(settings_in({} if spec is None else spec.options))
        push = Push(message.queue, message.raw, ties=(GroupMembership(found.group, settings),))
        return Joined(effects=(PushJobs(message.jid, (push,)),), group=found.group.name)

    def _members(self, found: JobGroup) -> Iterator[bytes]:
        assert self._groups is not None
        first = 0
        while page := self._groups.members(found.group, first, PAGE):
            yield from page
            first += len(page)

    def _read(self, raw: bytes) -> GroupMember | None:
        try:
            member = Message(raw, "")
        except UnreadablePayload as error:
            log.error("a member of the group is no job, and is left out: %s", error)
            return None
        return GroupMember(raw, member.fields, self._state_of(member))

    def _state_of(self, member: Message) -> StateWord:
        expires_at = member.expires_at
        if expires_at is not None and expires_at < self._wall():
            return "expired"
        return self._never_begins(member) or "completed"


def aggregate(inner: Run) -> Run:
    """The link around the function that aggregates a set: its end is that of the members. The pushes of the function
    are held back; that of the job which runs in the members' place is one of them. They happen in the step in which the
    set is deleted."""

    def run(message: Message) -> Outcome:
        outcome = inner(message)
        found = group_of(message.fields, message.queue)
        if not isinstance(outcome, Done) or found is None:
            return outcome
        members = message.delivery.of_features.get(NAME, ())
        end = end_of_set(found.group, members, outcome.effects, message.jid)
        return dataclasses.replace(outcome, effects=(end,))

    return run
