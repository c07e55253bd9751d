"""Reads the executions that Sidekiq 7, Sidekiq 8 and pyworkers write for Sidekiq's Metrics page.

Each minute is read in both layouts, see `sidekiq_metrics`. A Sidekiq process writes its own layout. A pyworkers process
writes every run into the layouts that run, which may be both. So both layouts may have the same runs, and their sum may
count runs twice. For each class and minute, the layout with more runs is taken.

The counts are exact where all processes that have run a class in a minute wrote the same layouts. They are too low
where they did not, because only one layout counts:
- Sidekiq 7 and Sidekiq 8 have both run the class in this minute, as during an upgrade of Ruby.
- pyworkers processes with different values of `metrics` have both run it; or with `auto`, in the minute in which the
  first process of another Sidekiq version has come or the last one has gone.

For the same reason steps of ten minutes may be lower than the sum of their minutes. Sidekiq 8 alone writes them, for
three days. The counts of Sidekiq 7 alone are added up from its minutes, of the last eight hours.

All programs count a run some seconds after its end, at their next beat, in the minute of the beat. A process that is
killed takes the counts of its last seconds with it. A bucket of a histogram holds up to 65,535 runs in a minute.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from goworkers_py.brokers.contracts.metrics import CountedSpan, DeployMark, Metrics, RunCounts
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.fleet.sidekiq_metrics import MINUTE_LIFE_S, TEN_MINUTES_LIFE_S
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.neighbours import MARK_LIFE_S
from goworkers_py.brokers.redis.server.damage import count_in
from goworkers_py.observe.executions import BOUNDS_S
from goworkers_py.wire.payload import encodable

MINUTE_S, TEN_MINUTES_S, DAY_S = 60, 600, 86_400

# Of one hash, so many fields are read in one command. The spans have fewer keys, so one exchange asks for all of them.
MOST_AT_ONCE = 1_000
# About so many fields of several hashes come in one exchange: some milliseconds of the server.
FIELDS_AT_ONCE = 10_000

# Steps of ten minutes whose minutes are all still there.
_STEPS_OF_SEVEN = MINUTE_LIFE_S // TEN_MINUTES_S

_FIELDS = {"p": "runs", "f": "failures", "ms": "total_ms"}
_BUCKETS = struct.Struct(f">{len(BOUNDS_S) + 1}H")

Classes = dict[str, RunCounts]


class MetricReader(Metrics):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        starts = _starts(since, until, MINUTE_S, MINUTE_LIFE_S)
        seven = [self._keys.minute_of_seven(at) for at in starts]
        eight = [self._keys.minute_of_eight(at) for at in starts]
        counts = self._counts([*seven, *eight], job_class)
        return [
            CountedSpan(at.timestamp(), _larger(counts.get(key_of_seven, {}), counts.get(key_of_eight, {})))
            for at, key_of_seven, key_of_eight in zip(starts, seven, eight, strict=True)
        ]

    def ten_minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        starts = _starts(since, until, TEN_MINUTES_S, TEN_MINUTES_LIFE_S)
        eight = [self._keys.ten_minutes_of_eight(at) for at in starts]
        seven = {at: self._minutes_of_seven(at) for at in starts[-_STEPS_OF_SEVEN:]}
        counts = self._counts([*eight, *(key for keys in seven.values() for key in keys)], job_class)
        sums = {at: _sum(counts.get(key, {}) for key in keys) for at, keys in seven.items()}
        return [
            CountedSpan(at.timestamp(), _larger(sums.get(at, {}), counts.get(key, {})))
            for at, key in zip(starts, eight, strict=True)
        ]

    def _minutes_of_seven(self, at: datetime) -> list[str]:
        """The ten from `at` on."""
        return [self._keys.minute_of_seven(at + timedelta(minutes=number)) for number in range(10)]

    def histogram(self, job_class: str, since: float, until: float) -> Sequence[int]:
        total = [0] * (len(BOUNDS_S) + 1)
        if not encodable(job_class):
            return total
        starts = _starts(since, until, MINUTE_S, MINUTE_LIFE_S)
        asked = [
            ("GET", key)
            for at in starts
            for key in (self._keys.histogram_of_seven(job_class, at), self._keys.histogram_of_eight(job_class, at))
        ]
        replies = iter(self._connections.answers(asked))
        for seven, eight in zip(replies, replies, strict=True):
            more = max(_buckets(seven), _buckets(eight), key=sum)
            total = [count + new for count, new in zip(total, more, strict=True)]
        return total

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        days = _starts(since, until, DAY_S, MARK_LIFE_S + DAY_S)
        first = since // MINUTE_S * MINUTE_S
        found = [
            DeployMark(at.timestamp(), text(label))
            for _, fields in self._hashes([self._keys.marks(day) for day in days])
            for stamp, label in fields.items()
            if (at := _minute(text(stamp))) is not None and first <= at.timestamp() <= until
        ]
        return sorted(found)

    def _counts(self, keys: Sequence[str], job_class: str | None) -> Mapping[str, Classes]:
        """The counts in these keys; those without a run may be missing."""
        if job_class is None:
            return {key: _classes(key, fields) for key, fields in self._hashes(keys)}
        if not encodable(job_class):
            return {}
        names = [f"{job_class}|{what}" for what in _FIELDS]
        replies = self._connections.answers([("HMGET", key, *names) for key in keys])
        return {
            key: _classes(key, dict(zip(map(str.encode, names), counts, strict=True)))
            for key, counts in zip(keys, replies, strict=True)
            if counts is not None and any(counts)
        }

    def _hashes(self, keys: Sequence[str]) -> Iterator[tuple[str, Mapping[bytes, bytes]]]:
        """The hashes that exist, with all their fields. A key of another type counts as missing."""
        sizes = zip(keys, self._connections.answers([("HLEN", key) for key in keys]), strict=True)
        there = [(key, size) for key, size in sizes if size]
        for some in _in_steps((key, size) for key, size in there if size <= MOST_AT_ONCE):
            replies = self._connections.answers([("HGETALL", key) for key in some])
            yield from ((key, _pairs(reply or ())) for key, reply in zip(some, replies, strict=True))
        yield from ((key, self._scanned(key)) for key, size in there if size > MOST_AT_ONCE)

    def _scanned(self, key: str) -> Mapping[bytes, bytes]:
        fields: dict[bytes, bytes] = {}
        cursor = b"0"
        while True:
            cursor, flat = self._connections.call("HSCAN", key, cursor, "COUNT", MOST_AT_ONCE)
            fields |= _pairs(flat)
            if cursor == b"0":
                return fields


def _starts(since: float, until: float, step_s: int, life_s: int) -> list[datetime]:
    """Where the steps from `since` to `until` begin; of more than the server keeps, the newest."""
    last = int(until // step_s) * step_s
    first = max(int(since // step_s) * step_s, last - life_s + step_s)
    return [datetime.fromtimestamp(at, timezone.utc) for at in range(first, last + 1, step_s)]


def _minute(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _in_steps(sizes: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """The keys, as many in a step as may be read in one exchange."""
    step: list[str] = []
    fields = 0
    for key, size in sizes:
        if step and fields + size > FIELDS_AT_ONCE:
            yield step
            step, fields = [], 0
        step.append(key)
        fields += size
    if step:
        yield step


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _classes(key: str, fields: Mapping[bytes, bytes | None]) -> Classes:
    found: Classes = {}
    for field, raw in fields.items():
        name, _, what = text(field).rpartition("|")
        if what in _FIELDS:
            count = count_in(f"{key} {text(field)}", raw)
            found[name] = found.get(name, RunCounts())._replace(**{_FIELDS[what]: count})
    return found


def _sum(several: Iterable[Classes]) -> Classes:
    sums: Classes = {}
    for classes in several:
        for name, counts in classes.items():
            sums[name] = sums.get(name, RunCounts()).plus(counts)
    return sums


def _larger(seven: Classes, eight: Classes) -> Classes:
    """For each class, the counts of the layout that has more runs."""
    return {name: max(seven.get(name, RunCounts()), eight.get(name, RunCounts())) for name in {**seven, **eight}}


def _buckets(bits: bytes | None) -> tuple[int, ...]:
    """The server ends the string behind the last bucket that was ever counted in."""
    return _BUCKETS.unpack((bits or b"")[: _BUCKETS.size].ljust(_BUCKETS.size, b"\0"))
