"""The part of the inspector that reads and changes the schedules of periodic jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from goworkers_py.admin.verbs import Verbs
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import args_of, fields_of, rule_fields, rule_of
from goworkers_py.features.periodic.schedule import ForeignSchedule, HistoryEntry, Rule, ScheduleRecord
from goworkers_py.features.periodic.slots import slots_of
from goworkers_py.wire import payload

# A schedule that no process has registered for so long has none that could fire it.
UNSEEN_S = 60.0


@dataclass(frozen=True, slots=True)
class PeriodicJobStatus:
    """A periodic job: `inspector.periodic_jobs()[0].next_at`."""

    source: str  # the application, or the gem that fires it
    name: str
    rule: str
    job_class: str
    queue: str
    args: list[Any] | None  # None: a function makes them
    state: str  # fires, paused, gone, no process; for a schedule of another program: foreign or disabled
    next_at: float | None = None
    last: HistoryEntry | None = None
    catch_up: str = ""
    overlap: str = ""
    overridden: bool = False  # by `set_periodic`
    generation: str = ""
    seen_at: float | None = None  # when a process last had it in its code
    fired: int = 0
    skipped: int = 0
    paused: bool = False  # also where no process has it in its code
    asked: int = 0  # firings that people have asked for and that have not happened yet
    rule_of_code: str = ""  # where `set_periodic` has set another one
    args_of_code: list[Any] | None = None


def status_of_foreign(schedule: ForeignSchedule) -> PeriodicJobStatus:
    state = "foreign" if schedule.enabled else "disabled"
    return PeriodicJobStatus(
        schedule.program, schedule.name, schedule.rule, schedule.job_class, schedule.queue, schedule.args, state
    )


class PeriodicVerbs(Verbs):
    @property
    def _periodic(self) -> Periodic:
        return self._broker.require_part(Periodic)

    def periodic_jobs(self) -> list[PeriodicJobStatus]:
        """The schedules of periodic jobs, also those that a newer release has not any more:
        `[(one.name, one.next_at) for one in inspector.periodic_jobs()]`."""
        now = self._admin.now()
        return [_status(record, now) for record in self._periodic.records()]

    def periodic_job(self, name: str) -> PeriodicJobStatus:
        """One schedule: `inspector.periodic_job("nightly").next_at`."""
        return _status(self._record(*self._named(name)), self._admin.now())

    def periodic_slots(self, name: str, count: int = 5) -> list[float]:
        """The next times at which a schedule fires: `inspector.periodic_slots("nightly")[0]`. None for one that is
        paused or gone."""
        record, now = self._record(*self._named(name)), self._admin.now()
        if record.paused or record.gone:
            return []
        return _slots(record, max(record.since, now), count)

    def periodic_history(self, name: str) -> list[HistoryEntry]:
        """The last firings of a periodic job, the newest first: `inspector.periodic_history("nightly")[0].word`."""
        return self._periodic.history(*self._named(name))

    def pause_periodic(self, name: str) -> bool:
        """`inspector.pause_periodic("nightly")`: it does not fire until `resume_periodic`. Returns False if it was
        paused already."""
        return self._periodic.pause(*self._named(name))

    def resume_periodic(self, name: str) -> bool:
        """`inspector.resume_periodic("nightly")` ends a pause: slots from now on fire. Returns False if it was not
        paused."""
        return self._periodic.resume(*self._named(name))

    def run_periodic(self, name: str) -> bool:
        """`inspector.run_periodic("nightly")` asks for one job now, beside the slots. A process that has it in its code
        pushes it within seconds. Returns False if no process has."""
        source, name = self._named(name)
        now, known = self._admin.now(), self._record(source, name)
        return _state(known, now) in ("fires", "paused") and self._periodic.ask(source, name)

    def set_periodic(
        self,
        name: str,
        *,
        cron: str = "",
        every: int = 0,
        timezone: str = "",
        args: Sequence[Any] | None = None,
    ) -> None:
        """`inspector.set_periodic("nightly", cron="0 4 * * *")`: this counts instead of what the code says, in all
        processes, until `unset_periodic`. A value that is not given stays as it was set before."""
        source, name = self._named(name)
        known = self._record(source, name)
        fields = fields_of(known.override)
        if cron or every or timezone:
            fields = {name: value for name, value in fields.items() if name == "args"}
            fields |= rule_fields(_changed(_rule(known), cron, every, timezone))
        if args is not None:
            payload.check_plain(list(args), "args")
            fields["args"] = list(args)
        if not fields:
            raise ArgumentError("nothing to set: give cron, every, timezone or args")
        self._periodic.override(source, name, payload.write(fields))

    def unset_periodic(self, name: str) -> bool:
        """`inspector.unset_periodic("nightly")`: what the code says counts again. Returns False if nothing was set."""
        source, name = self._named(name)
        return bool(self._record(source, name).override) and self._periodic.override(source, name, b"")

    def forget_periodic(self, name: str) -> bool:
        """`inspector.forget_periodic("nightly")` deletes a schedule with its history. ArgumentError is raised where a
        process of the last minute has it in its code: it would come back at once, without its pause."""
        self.check_unused_periodic(name)
        return self._periodic.forget(*self._named(name))

    def check_unused_periodic(self, name: str) -> None:
        """Raises ArgumentError where a process of the last minute has the periodic job in its code."""
        if _state(self._record(*self._named(name)), self._admin.now()) in ("fires", "paused"):
            raise ArgumentError(
                f"periodic job {name} is in the code of a process that lives, or has lived a minute ago: forgotten, it "
                "would come back without its pause. Take it out of the code first, or pause it"
            )

    def foreign_schedules(self) -> list[ForeignSchedule]:
        """The schedules that other programs of the fleet fire:
        `[schedule.rule for schedule in inspector.foreign_schedules()]`."""
        periodic = self._broker.part(Periodic)
        return [] if periodic is None else periodic.foreign()

    def _record(self, source: str, name: str) -> ScheduleRecord:
        return next(record for record in self._periodic.records() if (record.source, record.name) == (source, name))

    def _named(self, name: str) -> tuple[str, str]:
        """The source and the name for a name, or for SOURCE:NAME."""
        records = self._periodic.records()
        found = [record for record in records if name in (record.name, f"{record.source}:{record.name}")]
        if len(found) == 1:
            return found[0].source, found[0].name
        if found:
            names = ", ".join(f"{record.source}:{record.name}" for record in found)
            raise ArgumentError(f"several applications have a periodic job {name!r}: name one of {names}")
        known = ", ".join(record.name for record in records) or "none"
        raise ArgumentError(f"there is no periodic job {name!r}; there are {known}")


def _changed(rule: Rule, cron: str, every: int, timezone: str) -> Rule:
    """Raises ArgumentError for a rule that is none."""
    if cron and every:
        raise ArgumentError("cron and every exclude each other")
    if timezone and (every or not (cron or rule.cron)):
        raise ArgumentError("timezone is for cron")
    changed = Rule(every=every) if every else Rule(cron or rule.cron, 0, timezone or rule.timezone)
    try:
        slots_of(changed)
    except ConfigError as error:
        raise ArgumentError(str(error)) from None
    return changed


def _rule(record: ScheduleRecord) -> Rule:
    return rule_of(fields_of(record.override)) or rule_of(fields_of(record.text)) or Rule()


def _state(record: ScheduleRecord, now: float) -> str:
    if record.gone:
        return "gone"
    if now - record.seen_at > UNSEEN_S:
        return "no process"
    return "paused" if record.paused else "fires"


def _status(record: ScheduleRecord, now: float) -> PeriodicJobStatus:
    fields, override, state = fields_of(record.text), fields_of(record.override), _state(record, now)
    args = args_of(override)
    return PeriodicJobStatus(
        record.source,
        record.name,
        str(_rule(record)),
        str(fields.get("class", "")),
        str(fields.get("queue", "")),
        args if args is not None else args_of(fields),
        state,
        _next(record) if state in ("fires", "no process") else None,
        record.last,
        str(fields.get("catch_up", "")),
        str(fields.get("overlap", "")),
        bool(override),
        record.generation,
        record.seen_at,
        record.fired,
        record.skipped,
        record.paused,
        record.asked,
        str(rule_of(fields) or ""),
        args_of(fields),
    )


def _next(record: ScheduleRecord) -> float | None:
    return next(iter(_slots(record, record.since, 1)), None)


def _slots(record: ScheduleRecord, after: float, count: int) -> list[float]:
    """The first slots after this time. None where the rule cannot be read, as without the package cronsim."""
    found: list[float] = []
    try:
        slots = slots_of(_rule(record))
    except ConfigError:
        return found
    while len(found) < count and (after := slots.after(after)) < math.inf:
        found.append(after)
    return found
