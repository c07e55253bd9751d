"""Jobs with two features each, and what is right for each feature, however the job ends."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.core.errors import (
    ArgumentError,
    DiscardJob,
    DuplicateJob,
    JobCancelled,
    JobFailed,
    KillJob,
    NoResult,
    RetryJob,
    WorkersError,
)
from goworkers_py.features.chains.chain import PREVIOUS
from goworkers_py.wire.message import Message, current_message
from goworkers_py.wire.stored_job import StoredJob

LEVELS = ("q", "q@high", "q@low")
# Slots are multiples of the interval since 1970: one of an hour may come while a test runs, and fire each job again.
NEVER_S = 200 * 365 * 86_400
DAY = datetime.date(2026, 1, 1)

# The options of @job that make a job one with this feature, by the name of the feature. Those of one kind exclude each
# other. A feature without options is in how the job is pushed, or in its function.
FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "unique": {
        "unique": {"unique_for": 600},
        "raise": {"unique_for": 600, "on_conflict": "raise"},
        "replace": {"unique_for": 600, "on_conflict": "replace"},
        "reschedule": {"unique_for": 600, "on_conflict": "reschedule"},
        "until_start": {"unique_for": 600, "unique_until": "start"},
        "until_expiry": {"unique_for": 600, "unique_until": "expiry"},
    },
    "strict": {"strict": {}},
    "wide": {"wide": {}},
    "rate": {"rate": {}},
    "push": {
        "group": {"group_grace": 0.5}, "first": {}, "middle": {}, "last": {}, "part": {}, "callback": {},
        "periodic": {},
    },
    "batch": {"batch": {}, "nested": {}},
    "time": {"scheduled": {}},
    "held": {"held": {}},
    "level": {"high": {"priority": "high"}, "low": {"priority": "low"}},
    "record": {"tracked": {"track": True}, "retained": {"retain": 600}},
    "status": {"status": {"sidekiq_status": True}},
    "atomic": {"atomic": {"atomic": True}},
    "expires": {"expires": {"expires_in": 3600}},
    "form": {"async": {}, "iterable": {}, "sliced": {"time_slice": 0.001}, "async_iterable": {}},
    "arguments": {"kwargs": {}, "typed": {}},
}  # fmt: skip
KIND = {name: kind for kind, named in FEATURES.items() for name in named}
OPTIONS = {name: options for named in FEATURES.values() for name, options in named.items()}
LINKS = {"first", "middle", "last", "part"}
LIMITS: dict[str, dict[str, Any]] = {
    "strict": {"concurrent": 1}, "wide": {"concurrent": 2}, "rate": {"rate": "200/second", "burst": 5},
}  # fmt: skip


def _one_push_has_both(one: str, other: str) -> bool:
    kinds = {KIND[one], KIND[other]}
    if len(kinds) == 1:
        return False
    if "periodic" in (one, other):  # a daemon pushes it
        return not kinds & {"batch", "held", "time"}
    if "callback" in (one, other):  # the end of a batch pushes it
        return not kinds & {"batch", "held"}
    return True


def pairs() -> list[tuple[str, ...]]:
    singles: list[tuple[str, ...]] = [(name,) for name in KIND]
    return singles + [both for both in itertools.combinations(KIND, 2) if _one_push_has_both(*both)]


class World:
    """An App with a job for each pair. Their jobs wait in a paused queue until the test lets them run."""

    def __init__(self, app: App, ending: str, each: int = 1) -> None:
        """`each`: how many jobs of each pair are pushed."""
        self.app, self.ending, self.each = app, ending, each
        self.at_once = False  # whether a job has ended when its push returns
        self.expires_at = time.time() + 3
        self.delay_s = 3600 if ending in ("cancel", "delete", "kill") else 0.6  # of scheduled jobs
        self.cases: dict[str, Case] = {}
        self.begun = queue.SimpleQueue[str]()  # jobs that run until somebody cancels them
        self.refused: dict[tuple[str, ...], str] = {}
        self.dead = Counter[str]()  # by the name of the case, when they are judged
        self.plain = app.job("Plain", queue="r")(lambda: None)
        self.give = app.job("Give", queue="r")(lambda value: value)
        self.take = app.job("Take", queue="r")(self._take)
        self.called = app.job("Called", queue="r")(self._called)
        self.child = app.job("Child", queue="r")(self._child)
        self.carrier = app.job("Carrier", queue="r", atomic=True)(self._carry)

    def _take(self, case: str, value: Any) -> None:
        self.cases[case].taken.append(value)

    def _called(self, case: str, event: str) -> None:
        self.cases[case].called[event] += 1

    def _child(self, case: str) -> None:
        self.cases[case].children += 1

    def _carry(self, case: str, number: int) -> None:
        message = current_message()
        assert message is not None
        with message.batch or ExitStack():
            self.cases[case].push_one(number)

    def declare(self, *pairs: tuple[str, ...]) -> None:
        for names in pairs:
            try:
                case = Case(self, names)
                self.cases[case.name] = case
            except WorkersError as error:
                self.refused[names] = str(error)

    def push(self) -> None:
        for case in [*self.cases.values()]:
            try:
                case.push()
            except WorkersError as error:
                self.refused[case.names] = str(error)
                del self.cases[case.name]
        # A firing that was asked for, and has not happened yet, is in no place that `idle` looks at.
        assert eventually(lambda: not any(one.asked for one in self.app.inspector.periodic_jobs()))

    def waiting(self) -> dict[str, list[StoredJob]]:
        """The jobs of all cases that wait, by the name of the case."""
        found = defaultdict[str, list[StoredJob]](list)
        inspector = self.app.inspector
        # The queues last, because jobs move into them meanwhile: such a job is found once or twice.
        stored = [one for place in (SCHEDULED, PARKED) for one in inspector.jobs(place)]
        stored += [one for entry in inspector.groups() for one in inspector.members(entry.group, 1000)]
        stored += [one for level in LEVELS for one in inspector.jobs(waiting_in(level))]
        for one in {one.jid: one for one in stored}.values():
            if one.message is not None and one.message.job_class in self.cases:
                found[one.message.job_class].append(one)
        return found

    @property
    def idle(self) -> bool:
        inspector = self.app.inspector
        places = [*map(waiting_in, (*LEVELS, "r")), SCHEDULED, PARKED, RETRIES]
        held = any(True for _ in inspector.in_progress())
        return not held and not any(inspector.count(place) for place in places) and not [*inspector.groups()]

    def end_waiting(self) -> None:
        """People end the jobs that wait, or their time passes."""
        inspector = self.app.inspector
        if self.ending == "expiry":
            time.sleep(max(0.0, self.expires_at + 0.01 - time.time()))
            for entry in [*inspector.groups()]:
                inspector.flush_group(entry.group)
        elif self.ending == "cancel":
            # Members of groups first: each cancel after them has no groups to search.
            for _, jobs in sorted(self.waiting().items(), key=lambda named: "group" not in named[0].split("+")):
                for job in jobs:
                    self.app.cancel(job.jid, timeout=0.0)
        else:
            change = inspector.delete if self.ending == "delete" else inspector.kill
            queues = [] if self.ending == "kill" else map(waiting_in, LEVELS)
            for place in [*queues, SCHEDULED, PARKED]:
                list(change(place, Filter()))
            for entry in [*inspector.groups()]:
                inspector.delete_group(entry.group)

    def cancel_begun(self) -> None:
        while not self.begun.empty():
            self.app.cancel(self.begun.get(), timeout=0.0)

    def retry_dead(self) -> None:
        """People retry the dead jobs."""
        for case in self.cases.values():
            case.gone = True
        list(self.app.inspector.retry(DEAD, Filter()))

    def strand(self) -> None:
        """A process fetches the jobs that wait in their queues, and is killed."""
        presence = Presence("elsewhere:1:aaaaaaaaaaaa", dict.fromkeys(LEVELS, 1))
        # With a long lease, which no pause of a busy machine ends, until it has fetched them all.
        with closing(open_broker(self.app.config)) as broker:
            broker.recoverable.beat(presence)
            while broker.transport.consume(presence.identity, [(level, 100) for level in LEVELS], 100, 0.01):
                pass
        self.app.broker.recoverable.beat(presence)  # its last, with a short lease

    def complaints(self) -> list[str]:
        dead = self.app.inspector.jobs(DEAD)
        self.dead = Counter(one.message.job_class for one in dead if one.message is not None)
        return [f"{name}: {told}" for name, case in self.cases.items() for told in case.complaints()]


class Case:
    """A class of jobs with these features."""

    def __init__(self, world: World, names: tuple[str, ...]) -> None:
        self.world, self.names, self.name = world, names, "+".join(names)
        self.runs: list[Message] = []
        self.wrong: list[str] = []
        self.taken: list[Any] = []
        self.called = Counter[str]()
        self.children = self.aggregated = 0
        self.jids: list[str] = []
        self.bids: list[str] = []
        self.cids: list[str] = []
        self.failed = set[str]()
        self.gone = False  # the first runs have failed, and the dead jobs were retried by hand
        self.number = len(world.cases)
        self._lock = threading.Lock()
        self._busy = 0
        app = world.app
        options: dict[str, Any] = {"queue": "q", "retry": 3}
        for name in names:
            options |= OPTIONS[name]
        if self.has("group") and world.ending in ("cancel", "delete", "expiry", "kill"):
            options["group_grace"] = 3600
        if world.ending == "expiry":
            options["expires_at"] = world.expires_at
        if world.ending == "no_failure":
            options["is_failure"] = lambda error: False
        self.limits = [name for name in names if name in LIMITS]
        if self.limits:
            options["limits"] = [app.limit(f"{self.name}-{name}", **LIMITS[name]) for name in self.limits]
        self.job = app.job(self.name, **options)(_function(self))
        if self.has("periodic"):
            name, kwargs = f"{self.name}", {"note": "noted"} if self.has("kwargs") else {}
            app.periodic(every=NEVER_S, name=name, args=[self.argument(0)], kwargs=kwargs)(self.job)
        if self.has("group"):
            self.job.aggregate(self._aggregate)
            self.job = self.job.set(group="g")

    @property
    def goes_on(self) -> bool:
        """Whether a run goes on until it is interrupted."""
        return self.world.ending == "cancel_running"

    def has(self, *names: str) -> bool:
        return any(name in self.names for name in names)

    def argument(self, number: int) -> Any:
        return DAY + datetime.timedelta(number) if self.has("typed") else number

    @property
    def unique(self) -> dict[str, Any] | None:
        return next((OPTIONS[name] for name in self.names if KIND[name] == "unique"), None)

    # --- pushing

    def push(self) -> None:
        if self.has("periodic"):
            assert eventually(lambda: _asked(self.world.app, self.name)), self.name
        elif self.has("batch", "nested"):
            self._push_in_batch()
        else:
            self._push_all()

    def _push_in_batch(self) -> None:
        app = self.world.app
        called = {f"on_{event}": self.world.called.s(self.name, event) for event in ("success", "complete", "death")}
        with app.batch(self.name, **called) as outer:  # type: ignore[arg-type]
            self.bids.append(outer.bid)
            if self.has("nested"):
                with app.batch("inner") as inner:
                    self.bids.append(inner.bid)
                    self._push_all()
            else:
                self._push_all()

    def _push_all(self) -> None:
        for number in range(self.world.each):
            if self.has("held"):
                self._check_refusal(number)
                self.world.carrier.enqueue(self.name, number)
            else:
                self.push_one(number)

    def _check_refusal(self, number: int) -> None:
        """Of a push that a job is to make: what is refused there is refused here."""
        if self.has(*LINKS):
            with self.world.app.atomic():
                self.push_one(number)

    def push_one(self, number: int) -> None:
        world, app = self.world, self.world.app
        job = self.job.set(at=time.time() + world.delay_s) if self.has("scheduled") else self.job
        kwargs = {"note": "noted"} if self.has("kwargs") else {}
        signature = job.s(self.argument(number), **kwargs)
        before = world.give.s(str(self.argument(number)) if self.has("typed") else number)
        after = job.s(PREVIOUS, **kwargs)
        take = world.take.s(self.name, PREVIOUS)
        if self.has("first"):
            self.cids.append(app.chain(signature, take).enqueue())
        elif self.has("middle"):
            self.cids.append(app.chain(before, after, take).enqueue())
        elif self.has("last"):
            self.cids.append(app.chain(before, after).enqueue())
        elif self.has("part"):
            self.cids.append(app.chain(before, app.parallel(after, world.give.s(PREVIOUS)), take).enqueue())
        elif self.has("callback"):
            with app.batch(self.name, on_success=signature):
                world.plain.enqueue()
        else:
            jid = job.enqueue(self.argument(number), **kwargs)
            if jid is None:
                self.wrong.append("was not pushed")
            elif not self.has("held"):
                self._check_second_push(job, jid, number, kwargs)

    def _check_second_push(self, job: Any, jid: str, number: int, kwargs: dict[str, Any]) -> None:
        if self.unique is None or self.has("reschedule") or self.world.at_once:
            return
        try:
            second = job.enqueue(self.argument(number), **kwargs)
        except DuplicateJob as error:
            second = None if self.has("raise") and error.jid == jid else "another"
        if second != (jid if self.has("replace") else None):
            self.wrong.append("a second push was not refused while the first job waits")

    # --- running

    @contextmanager
    def running(self, value: Any, note: str) -> Iterator[None]:
        message = current_message()
        assert message is not None
        with self._lock:
            self._busy += 1
            most = min([LIMITS[name].get("concurrent", 9) for name in self.limits], default=9)
            if self._busy > most:
                self.wrong.append(f"{self._busy} run at once")
            self.runs.append(message)
        if type(value) is not (datetime.date if self.has("typed") else int):
            self.wrong.append(f"got the value {value!r}")
        if note != ("noted" if self.has("kwargs") else ""):
            self.wrong.append(f"got the note {note!r}")
        wanted = next((f"q@{level}" for level in ("high", "low") if self.has(level)), "q")
        if message.queue != wanted:
            self.wrong.append(f"runs from queue {message.queue}")
        self._check_held(message)
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _check_held(self, message: Message) -> None:
        """What the job holds while it runs."""
        if self.unique and not self.gone and not self.has("group", "until_start"):
            held = [one.holder.jid for one in self.world.app.inspector.locks(f"{self.name}:")]
            if message.jid not in held:
                self.wrong.append("runs without its lock")

    def outcome(self, value: Any) -> Any:
        """Ends the run."""
        message, ending = current_message(), self.world.ending
        assert message is not None
        if self.has("atomic"):
            self.world.child.enqueue(self.name)
        if self.limits:
            time.sleep(0.003)
        if message.jid not in self.failed:
            self.failed.add(message.jid)
            _fail(ending)
        if ending == "cancel_running":
            self.world.begun.put(message.jid)
        return {"value": str(value)}

    def _aggregate(self, members: list[list[Any]]) -> list[Any]:
        self.aggregated += len(members)
        return members[0]

    # --- judging

    def complaints(self) -> Iterator[str]:
        yield from self.wrong
        state, way, why = ENDS[self.world.ending]
        if self.gone:
            state, way, why = ENDS["success"]
        yield from self._of_runs(state)
        yield from self._of_lock(state)
        yield from self._of_limits()
        yield from self._of_batch(way)
        yield from self._of_chain(state, why)
        yield from self._of_record(state)
        if self.has("group") and self.aggregated != (self.pushed if self.did_run else 0):
            yield f"{self.aggregated} members were aggregated"
        if self.has("atomic") and self.children != (self.ended if state == "completed" else 0):
            yield f"{self.children} children"

    @property
    def did_run(self) -> bool:
        return self.world.ending in ("success", "recovery", "retry", "death", "discard", "cancel_running", "no_failure")

    @property
    def pushed(self) -> int:
        return 1 if self.has("periodic") else self.world.each

    @property
    def ended(self) -> int:
        """How many jobs have run."""
        return 1 if self.has("group") else self.pushed

    def _of_runs(self, state: str) -> Iterator[str]:
        fails = self.world.ending in ("retry", "no_failure") or self.gone
        wanted = (2 if fails else 1) * self.ended if self.did_run or self.gone else 0
        if len(self.runs) != wanted:
            yield f"ran {len(self.runs)} times, not {wanted}"
        dead = self.world.dead[self.name]
        if dead != (self.ended if state == "dead" and self.world.ending != "discard" else 0):
            yield f"{dead} dead jobs"

    def _of_lock(self, state: str) -> Iterator[str]:
        held = [*self.world.app.inspector.locks(f"{self.name}:")]
        stays = self.has("until_expiry") and (state == "completed" or (self.has("group") and self.did_run))
        if self.gone:
            return
        if not stays and not (self.has("replace") and self.world.ending == "kill") and held:
            yield f"keeps its lock: {held}"
        if stays and not held:
            yield "has freed its lock"

    def _of_limits(self) -> Iterator[str]:
        for name in self.limits:
            for slot in self.world.app.inspector.slots(f"{self.name}-{name}"):
                if slot.holders or slot.waiting:
                    yield f"has places in {name}: {slot}"

    def _of_batch(self, way: str) -> Iterator[str]:
        for bid in self.bids:
            status = self.world.app.batches.status(bid)
            if status is None or status.pending or status.ended_at is None:
                yield f"its batch has not ended: {status}"
            elif bid == self.bids[-1] and getattr(status, way) != self.pushed + self._beside(way):
                yield f"its batch has counted {status}"
        wanted = Counter(complete=1, success=way == "succeeded", death=way == "failed" or self.gone)
        if self.bids and self.called != +wanted:
            yield f"callbacks {dict(self.called)}"

    def _beside(self, way: str) -> int:
        """Jobs of the batch beside those of the case that have succeeded."""
        if way != "succeeded":
            return 0
        # The links after one that was dead are in no batch: it had ended.
        links = {"first": 0, "middle": 1, "last": 1, "part": 2}
        if not self.gone:
            links |= {"first": 1, "middle": 2, "part": 3}
        return sum(links.get(name, 0) for name in self.names) * self.pushed + self.has("held") * self.pushed

    def _of_chain(self, state: str, why: str) -> Iterator[str]:
        for cid in self.cids:
            status = self.world.app.chains.status(cid)
            if status is None or (status.state, status.why) != (("stopped", why) if why else ("ended", "")):
                yield f"its chain is {status}"
        if self.has("first", "middle", "part"):
            wanted = self.pushed if state == "completed" else 0
            if len(self.taken) != wanted:
                yield f"the next link has run {len(self.taken)} times"
            given = [one[0] if self.has("part") else one for one in self.taken]
            results = [self.result(number) for number in range(wanted)]
            if sorted(map(str, given)) != sorted(map(str, results)):
                yield f"the next link has got {given}, not {results}"

    def result(self, number: int) -> Any:
        return None if self.has("async_iterable") else {"value": str(self.argument(number))}

    def _of_record(self, state: str) -> Iterator[str]:
        if not self.has("tracked", "retained", "status"):
            return
        app = self.world.app
        jids = {message.jid for message in self.runs} | set(self.jids)
        if not jids:
            yield "no job is known"
        for jid in jids:
            told = app.status(jid)
            if not self.runs and not told.tracked and self.has("status", "callback", *LINKS):
                continue  # its record begins with its first run
            wanted = "completed" if self.has("group") and self.did_run and jid in self.jids else state
            if (told.state, told.tracked) != (wanted, True):
                yield f"its record says {told.state}, {told.tracked}: {[move.state for move in told.timeline]}"
            elif self.has("retained") and wanted == state:
                yield from self._of_result(jid, state)

    def _of_result(self, jid: str, state: str) -> Iterator[str]:
        results = [self.result(number) for number in range(self.pushed)]
        try:
            found: Any = self.world.app.result(jid, timeout=0.1)
        except JobFailed:
            found = "dead"
        except JobCancelled:
            found = "dropped"
        except (NoResult, TimeoutError) as error:
            if self.has("group") and jid in self.jids:
                return
            found = error
        wanted: list[Any] = {"completed": results, "dead": ["dead"]}.get(state, ["dropped"])
        if found not in wanted:
            yield f"its result is {found!r}"


ENDS = {
    "success": ("completed", "succeeded", ""),
    "recovery": ("completed", "succeeded", ""),
    "retry": ("completed", "succeeded", ""),
    "no_failure": ("completed", "succeeded", ""),
    "death": ("dead", "failed", "dead"),
    "discard": ("dead", "failed", "discarded"),
    "cancel_running": ("cancelled", "cancelled", "cancelled"),
    "cancel": ("cancelled", "cancelled", "cancelled"),
    "delete": ("cancelled", "cancelled", "cancelled"),
    "kill": ("dead", "failed", "dead"),
    "expiry": ("expired", "expired", "expired"),
}


def _asked(app: App, name: str) -> bool:
    with suppress(ArgumentError):
        return app.inspector.run_periodic(name)
    return False


def _fail(ending: str) -> None:
    if ending in ("retry", "no_failure"):
        raise RetryJob(delay=0.01)
    if ending == "death":
        raise KillJob("dead")
    if ending == "discard":
        raise DiscardJob("discarded")


def _plain(case: Case) -> Callable[..., Any]:
    def plain(value: Any, *, note: str = "") -> Any:
        with case.running(value, note):
            result = case.outcome(value)
            while case.goes_on:
                time.sleep(0.01)
            return result

    return plain


def _async(case: Case) -> Callable[..., Any]:
    async def coroutine(value: Any, *, note: str = "") -> Any:
        with case.running(value, note):
            result = case.outcome(value)
            await asyncio.sleep(600 if case.goes_on else 0)
            return result

    return coroutine


def _iterable(case: Case) -> Callable[..., Any]:
    def iterable(value: Any, *, note: str = "", cursor: int = 0) -> Any:
        for step in range(cursor, 3):
            time.sleep(0.002)
            yield step + 1
        with case.running(value, note):
            result = case.outcome(value)
            while case.goes_on:
                time.sleep(0.01)
                yield
            return result

    return iterable


def _async_iterable(case: Case) -> Callable[..., Any]:
    async def async_iterable(value: Any, *, note: str = "", cursor: int = 0) -> Any:
        for step in range(cursor, 3):
            yield step + 1
        with case.running(value, note):
            case.outcome(value)
            while case.goes_on:
                await asyncio.sleep(0.01)
                yield

    return async_iterable


FORMS = {"async": _async, "iterable": _iterable, "sliced": _iterable, "async_iterable": _async_iterable}


def _function(case: Case) -> Callable[..., Any]:
    function = next((FORMS[name] for name in case.names if name in FORMS), _plain)(case)
    function.__annotations__["value"] = datetime.date if case.has("typed") else Any
    return function
