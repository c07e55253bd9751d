"""The records of tracked jobs, see `features.tracking.record`, and those who wait for the end of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.core.effect import Push
from goworkers_py.core.group import GroupMembership
from goworkers_py.core.job_state import ENDED, INDEXED, StateWord
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.memory_ended import EndedTable
from goworkers_py.features.tracking.record import MOST_MOVES, V, live_s
from goworkers_py.features.tracking.tie import RecordTie

Fields = dict[str, bytes]


class JobRecords:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._records: Expiring[str, Fields] = Expiring(clock)
        self._born: Expiring[str, int] = Expiring(clock)  # the number of the push that made the record
        self.ended = EndedTable()
        self.listeners: dict[str, set[Callable[[], None]]] = {}  # by jid; they must not block

    def get(self, jid: str) -> Fields | None:
        fields = self._records.get(jid)
        return None if fields is None else dict(fields)

    def is_live(self, jid: str, or_dead: bool = False) -> bool:
        """Whether there is a record, of a job that goes on."""
        fields = self._records.get(jid)
        state = "" if fields is None else fields["state"].decode()
        return fields is not None and (state not in ENDED or (or_dead and state == "dead"))

    def is_known(self, number: int, push: Push) -> bool:
        """Whether another push has made a record for this tracked job, which this one does not replace."""
        tie = push.tie(RecordTie)
        if tie is None or self._records.get(tie.job.jid) is None:
            return False
        if self._born.get(tie.job.jid) == number:
            return False
        return not tie.instead_of or tie.instead_of != self._version(tie.job.jid)

    def bear(self, number: int, push: Push) -> None:
        """Makes the record of a tracked push, with this number."""
        tie = push.tie(RecordTie)
        if tie is None:
            return
        self.forget(tie.job.jid)
        life_s, waiting = live_s(push.at, self._clock()), push.at is None
        self._born.put(tie.job.jid, number, life_s)
        places: tuple[tuple[str, str], ...] = (("queue", push.queue) if waiting else ("due", repr(push.at)),)
        state: StateWord = "waiting" if waiting else "scheduled"
        if waiting and (membership := push.tie(GroupMembership)) is not None:
            state, places = "grouped", (*places, ("group", membership.group.name))
        self.note(NoteState(tie.job, state, "pushed", life_s, places))

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

    def forget(self, jid: str) -> None:
        self._records.put(jid, {}, 0)

    def tell(self, jid: str) -> None:
        for listener in self.listeners.get(jid, ()):
            listener()
