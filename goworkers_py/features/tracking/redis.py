"""The records of tracked jobs in Redis: reads them, and writes which jobs run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goworkers_py.brokers.contracts.store import RunningMark
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, Script, text
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.features.tracking.record import LIVE_S, JobRecord, read
from goworkers_py.wire import sidekiq_status

_MARK_RUNNING = Script(LUA / "mark_running.lua", list_of(int))
_PIECE = 64  # bytes; see note.lua


class JobRecords:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def read(self, jid: str) -> JobRecord | None:
        flat = self._connections.call("HGETALL", self._keys.record(jid))
        return read(jid, _whole({text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}))

    def of_list(self, jids: Sequence[str]) -> list[tuple[bool, JobRecord | None]]:
        """For each jid whether a record is there, and the record, if this release can read it. A result may be large:
        it is not read, and `result` is b"" where there is one."""
        keys = [self._keys.record(jid) for jid in jids]
        told = self._connections.answers([("HKEYS", key) for key in keys])
        wanted = [[name for name in names or () if not _is_of_result(name)] for names in told]
        asked = [("HMGET", key, *names) for key, names in zip(keys, wanted, strict=True) if names]
        values = iter(self._connections.answers(asked))
        found: list[tuple[bool, JobRecord | None]] = []
        for jid, all_names, names in zip(jids, told, wanted, strict=True):
            fields = _fields(names, next(values) or ()) if names else {}
            if fields and b"result" in all_names:
                fields["result"] = b""
            found.append((all_names != [], read(jid, _whole(fields))))
        return found

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        numbers: dict[str, int] = {}

        def number_of(key: str) -> int:
            return numbers.setdefault(key, len(numbers) + 1)

        arguments: list[Argument] = [LIVE_S, sidekiq_status.LIFE_S, self._keys.prefix + sidekiq_status.CHANNEL]
        for job, delivery, progress, first, shown in marks:
            of_list = number_of(self._keys.inprogress(delivery.queue, delivery.identity)) if first else 0
            arguments += (number_of(self._keys.record(job.jid)), of_list, delivery.payload if first else "")
            arguments += (delivery.identity, delivery.queue, job.job_class, progress or "")
            told = sidekiq_status.fields("working" if first else None, progress, machine.time()) if shown else ()
            arguments += (job.jid, number_of(self._keys.status(job.jid)) if shown else 0, len(told), *told)
        return [told == 1 for told in self._connections.script(_MARK_RUNNING, list(numbers), arguments)]


def _is_of_result(name: bytes) -> bool:
    return name == b"result" or name.startswith(b"result:")


def _fields(names: Sequence[bytes], values: Sequence[bytes | None]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(names, values, strict=True) if value is not None}


def _whole(pieces: Mapping[str, bytes]) -> dict[str, bytes]:
    """The fields of a record. A value goes on in the next field after a piece of exactly 64 bytes."""
    fields = {name: piece for name, piece in pieces.items() if ":" not in name}
    for name, piece in fields.items():
        number = 0
        while len(piece) == _PIECE:
            number += 1
            piece = pieces.get(f"{name}:{number}", b"")
            fields[name] += piece
    return fields
