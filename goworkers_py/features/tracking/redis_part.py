"""The part of tracked jobs in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf, Script
from goworkers_py.brokers.redis.driver.packing import packed_numbers
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisMoved, RedisPart, RowsInRedis, TieInRedis
from goworkers_py.brokers.redis.queues.push_arguments import RESULT
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S, Push
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.record import ENDED_MOST, ENDED_S, MOST_MOVES, V, job_in, live_s, tracked_in
from goworkers_py.features.tracking.tie import RecordTie

LUA = Path(__file__).parent / "lua"
_PUSH = Script(LUA / "push_tracked.lua", RESULT, words=())
PIECE = 64  # bytes of a value in a record; see note.lua


# --- keys


def record_key(keys: Keys, jid: str) -> str:
    """Holds the record of a tracked job. Also the channel that tells its end."""
    return f"{keys.prefix}pyworkers:job:{jid}"


def ended_key(keys: Keys, state: StateWord) -> str:
    """The index of the tracked jobs that have ended so. See `lua/fragments/ended.lua`."""
    return f"{keys.prefix}pyworkers:ended:{state}"


def _every_key(keys: Keys) -> dict[str, str]:
    ended = ended_key(keys, "completed").removesuffix("completed")
    return {"record": record_key(keys, "JID"), "ended": f"{ended}STATE"}


def _types(keys: Keys) -> dict[str, str]:
    return {ended_key(keys, state): "zset" for state in INDEXED}


# --- ties and effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={RecordTie: TieInRedis("record", "record_tie", "record_check", _tie, alone=_alone)},
        effects={NoteState: _effect},
        rows={NoteState: RowsInRedis("notes", "record_effects", _rows, fits=lambda note: not note.only_known)},
        handlers={"record_effects": ("note", "renote", "moved")},
        every_key=_every_key,
        types=_types,
        moved=_moved,
        elsewhere={NoteState: _elsewhere},
        finishers=("record_effects",),
        constants={
            "NOTE_V": f"'{V}'",
            "NOTE_PIECE": PIECE,
            "NOTE_WHOLE": 1024,
            "NOTE_MOST": MOST_MOVES,
            "ENDED_MOST": ENDED_MOST,
        },
    )


def _tie(tie: RecordTie, push: Push, keys: Keys, number_of: NumberOf, now: float) -> tuple[int, Sequence[Argument]]:
    job, instead_of = tie
    return number_of(record_key(keys, job.jid)), (live_s(push.at, now), instead_of, job.job_class)


def _alone(pushes: Sequence[Push], keys: Keys) -> tuple[Script, Sequence[str], Sequence[Argument]] | None:
    """For the push of one job that has a record and no other tie."""
    push = pushes[0]
    if len(pushes) > 1 or push.id or len(push.ties) > 1 or type(tie := push.ties[0]) is not RecordTie:
        return None
    (jid, job_class), instead_of = tie
    goal, due = (keys.queue(push.queue), "") if push.at is None else (keys.schedule, push.at)
    life_s = live_s(push.at, machine.time())
    return (
        _PUSH,
        (keys.queues, goal, record_key(keys, jid)),
        (push.queue, due, push.payload, job_class, life_s, instead_of),
    )


def _effect(effect: NoteState, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    known = ("class", effect.job.job_class) if effect.job.job_class else ()
    index = number_of_index(effect.state, effect.life_s, keys, number_of)
    values = index, effect.state, effect.reason, *known, *chain.from_iterable(effect.fields)
    word = "renote" if effect.only_known else "note"
    yield from (word, number_of(record_key(keys, effect.jid)), effect.life_s, len(values), *values)


def _elsewhere(effect: NoteState, is_dead: bool, dead_life_s: int) -> NoteState:
    """The record says where the job is."""
    fields = tuple((name, value) for name, value in effect.fields if name != "due")
    life_s = max(effect.life_s, dead_life_s) if is_dead else effect.life_s
    return effect._replace(state="dead" if is_dead else "waiting", life_s=life_s, fields=fields)


def _moved(move: RedisMoved, keys: Keys, number_of: NumberOf) -> Iterator[Argument]:
    """The script asks whether the job has a record. Of a job that was due it is known from the payload."""
    job = (tracked_in if move.reason == "due" else job_in)(move.payload)
    if job is None:
        return
    state, fields = move.state, list[Argument]()
    which = "dead" if move.may_be_dead else "live" if state == "cancelled" else "tracked"
    life_s = ENDED_S if state == "cancelled" else KEPT_S
    if state == "dead":
        life_s = max(1, int(move.dead_life_s))
    elif state == "waiting":
        fields += ("queue", move.queue)
    elif move.due is not None:
        life_s, fields = live_s(move.due, move.now), ["due", repr(move.due)]
    values = which, number_of_index(state, life_s, keys, number_of), state, move.reason, *fields
    yield from ("moved", number_of(record_key(keys, job.jid)), life_s, len(values), *values)


def number_of_index(state: StateWord, life_s: int, keys: Keys, number_of: NumberOf) -> int:
    """The number of the index of tracked jobs that have ended so; 0 for a job that goes on, and for a dead one."""
    return number_of(ended_key(keys, state)) if state in INDEXED and life_s > 0 else 0


def _rows(
    notes: Sequence[tuple[int, NoteState]],
    keys: Keys,
    number_of: NumberOf,
    number_of_first: Callable[[Sequence[str]], int],
) -> Iterator[Argument]:
    """Notes that differ only in the job and in the values of their fields share one word."""
    groups: defaultdict[tuple[StateWord, int, str, str, tuple[str, ...]], _Alike] = defaultdict(_Alike)
    for number, ((jid, job_class), state, reason, life_s, fields, _) in notes:
        names = tuple([name for name, _ in fields]) if fields else ()
        group = groups[state, life_s, reason, job_class, names]
        group.numbers.append(number)
        group.records.append(record_key(keys, jid))
        if fields:
            group.values += [value for _, value in fields]
    for (state, life_s, reason, job_class, names), group in groups.items():
        first, index = number_of_first(group.records), number_of_index(state, life_s, keys, number_of)
        yield from ("notes", state, life_s, reason, job_class, index, packed_numbers(group.numbers), first)
        yield from (len(names), *names, *group.values)


class _Alike:
    """Notes that share a word: the numbers of their deliveries, the keys of their records, the values of the fields."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.records: list[str] = []
        self.values: list[Argument] = []
