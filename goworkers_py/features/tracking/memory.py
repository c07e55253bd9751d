"""The records of tracked jobs in the state of a memory broker, see `features.tracking.record`; the index of those that
have ended; and those who wait for the end of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.parts import Decision, MemoryMoved, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PublishedPush
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.job_state import ENDED, INDEXED, StateWord
from goworkers_py.features.tracking.contract import EndedPage, EndedPlace, Records, RunningMark
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.record import ENDED_MOST, ENDED_S, MOST_MOVES, V, job_in, live_s, read
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.wire.job_record import JobRecord


class EndedTable:
    """Used under the lock of the state."""

    def __init__(self) -> None:
        # By the jid, those that have ended last at the end.
        self._times: dict[StateWord, dict[str, float]] = {state: {} for state in INDEXED}

    def add(self, state: StateWord, jid: str, at: float) -> None:
        times = self._times[state]
        times.pop(jid, None)
        times[jid] = at
        if len(times) > ENDED_MOST:
            del times[next(iter(times))]

    def remove(self, state: StateWord, place: EndedPlace) -> None:
        """Unless the job has ended again."""
        if self._times[state].get(place.jid) == place.at:
            del self._times[state][place.jid]

    def behind(self, state: StateWord, after: EndedPlace | None) -> list[EndedPlace]:
        """The newest first."""
        places = [EndedPlace(at, jid) for jid, at in self._times[state].items()]
        behind = [place for place in places if after is None or place.order < after.order]
        return sorted(behind, key=lambda place: place.order, reverse=True)

    def count(self, state: StateWord) -> int:
        return len(self._times[state])


Fields = dict[str, bytes]


class RecordTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._records: Expiring[str, Fields] = Expiring(clock)
        self._born: Expiring[str, int] = Expiring(clock)  # the number of the push that made the record
        self.ended = EndedTable()
        self.listeners: dict[str, set[Callable[[], None]]] = {}  # by jid; they must not block
        self.ties = {RecordTie: TieInMemory(self._decide, self._bear)}
        self.effects = {NoteState: self.note}

    def get(self, jid: str) -> Fields | None:
        fields = self._records.get(jid)
        return None if fields is None else dict(fields)

    def _is_live(self, jid: str, or_dead: bool) -> bool:
        """Whether there is a record, of a job that goes on."""
        fields = self._records.get(jid)
        state = "" if fields is None else fields["state"].decode()
        return fields is not None and (state not in ENDED or (or_dead and state == "dead"))

    def _decide(self, tie: RecordTie, published: PublishedPush) -> Decision | None:
        """A duplicate, where another push has made a record for this job, which this push does not replace."""
        jid = tie.job.jid
        if self._records.get(jid) is None or self._born.get(jid) == published.number:
            return None
        return None if tie.instead_of and tie.instead_of == self._version(jid) else Decision(Published.DUPLICATE)

    def _bear(self, tie: RecordTie, published: PublishedPush) -> None:
        push = published.push
        self._records.put(tie.job.jid, {}, 0)
        life_s, waiting = live_s(push.at, self._clock()), push.at is None
        self._born.put(tie.job.jid, published.number, life_s)
        places: tuple[tuple[str, str], ...] = (("queue", push.queue) if waiting else ("due", repr(push.at)),)
        state: StateWord = "waiting" if waiting else "scheduled"
        if published.group:
            state, places = "grouped", (*places, ("group", published.group))
        self.note(NoteState(tie.job, state, "pushed", life_s, places))

    def moved(self, move: MemoryMoved) -> None:
        job = job_in(move.payload)
        if job is None or (move.may_be_dead is not None and not self._is_live(job.jid, move.may_be_dead)):
            return
        life_s = ENDED_S if move.state == "cancelled" else KEPT_S if move.life_s is None else move.life_s
        fields = [("queue", move.queue)] if move.queue else []
        if move.due is not None:
            fields.append(("due", repr(move.due)))
            life_s = live_s(move.due, self._clock())
        self.note(NoteState(job, move.state, move.reason, life_s, tuple(fields), only_known=True))

    def _version(self, jid: str) -> str:
        fields = self._records.get(jid)
        return "" if fields is None else f"{fields['n'].decode()} {fields['at'].decode()}"

    def note(self, move: NoteState) -> None:
        fields = self._records.get(move.jid)
        if fields is None and move.only_known:
            return
        fields, now = fields or {}, self._clock()
        number = int(fields.get("n", b"0")) + 1
        texts = {
            "v": V,
            "state": move.state,
            "at": f"{now:.6f}",
            "n": str(number),
            "due": repr(now) if move.state == "dead" else "",
            "owner": "",
            f"t{number}": f"{move.state} {now:.6f} {move.reason}",
            **({"class": move.job.job_class} if move.job.job_class else {}),
            **dict(move.fields),
        }
        fields |= {name: text.encode() if isinstance(text, str) else text for name, text in texts.items()}
        fields.pop(f"t{number - MOST_MOVES}", None)
        self._records.put(move.jid, fields, move.life_s)
        if move.state in INDEXED and move.life_s > 0:
            self.ended.add(move.state, move.jid, float(texts["at"]))
        if move.state in ENDED:
            self.tell(move.jid)

    def set(self, jid: str, texts: Mapping[str, str]) -> None:
        """Sets fields of a record that is there."""
        if (fields := self._records.get(jid)) is not None:
            fields |= {name: text.encode() for name, text in texts.items()}

    def tell(self, jid: str) -> None:
        for listener in self.listeners.get(jid, ()):
            listener()


class MemoryRecords(Records):
    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._table = state.part(RecordTable)

    def record(self, jid: str) -> JobRecord | None:
        with self._state.lock:
            fields = self._table.get(jid)
        return None if fields is None else read(jid, fields)

    def ended(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        found: list[JobRecord] = []
        with self._state.lock:
            records = self._table
            places = records.ended.behind(state, after)
            for place in places[:limit]:
                fields = records.get(place.jid)
                record = None if fields is None else read(place.jid, fields)
                if record is not None and record.state == state:
                    found.append(replace(record, result=None if record.result is None else b""))
                else:
                    records.ended.remove(state, place)
            more = len(places) > limit
            return EndedPage(found, places[limit - 1] if more else None, records.ended.count(state))

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        self._state.begin_wait(jid)
        with self._state.lock:
            listeners = self._table.listeners.setdefault(jid, set())
            listeners.add(changed)
        changed()
        return lambda: self._end_watch(jid, changed)

    def _end_watch(self, jid: str, changed: Callable[[], None]) -> None:
        with self._state.lock:
            listeners = self._table.listeners.get(jid, set())
            listeners.discard(changed)
            if not listeners:
                self._table.listeners.pop(jid, None)

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        with self._state.lock:
            return [self._mark_running(mark) for mark in marks]

    def _mark_running(self, mark: RunningMark) -> bool:
        """Under the lock."""
        job, delivery, records = mark.job, mark.delivery, self._table
        if mark.first:
            if not self._state.is_in_progress(delivery.identity, delivery.queue, delivery.receipt):
                return False
            fields = (("owner", delivery.identity), ("queue", delivery.queue))
            records.note(NoteState(job, "running", f"in {delivery.identity}", KEPT_S, fields))
        stored = records.get(job.jid) or {}
        runs = stored.get("state") == b"running" and stored["owner"] == delivery.identity.encode()
        if runs and mark.progress is not None:
            records.set(job.jid, {"progress": mark.progress})
        if runs:
            self._endings.apply(mark.also)
        return runs
