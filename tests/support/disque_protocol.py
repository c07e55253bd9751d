"""A server that speaks Disque's protocol and keeps its rules, for machines without Disque. One node, in memory.

    python disque_protocol.py PORT

A job waits in its queue by the time of its push, until GETJOB delivers it. If it is not acknowledged within its RETRY,
it is in its queue again, and one additional delivery is counted; WORKING begins that time anew, in the first half of
its TTL; NACK puts it back at once, and is counted as such. DELAY holds it back. A job older than its TTL is dropped.
"""

from __future__ import annotations

import itertools
import os
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import BinaryIO

_ctimes = itertools.count(1)


class Refused(Exception):
    """The text of an error reply."""


@dataclass
class Job:
    queue: bytes
    body: bytes
    retry_s: int
    ttl_s: int
    waits_until: float  # in its queue from then on; the time of the push, of a DELAY, or of a RETRY
    id: bytes = field(default_factory=lambda: f"D-{token_hex(4)}-{token_hex(12)}-05a1".encode())
    ctime: int = field(default_factory=lambda: next(_ctimes))
    made_at: float = field(default_factory=time.monotonic)
    was_delivered: bool = False
    nacks: int = 0
    additional: int = 0

    def is_over(self, now: float) -> bool:
        return now > self.made_at + self.ttl_s

    def is_queued(self, now: float) -> bool:
        return self.waits_until <= now and not (self.was_delivered and self.retry_s == 0)


class Jobs:
    """All commands but those about connections. One lock; the clock of `monotonic`."""

    def __init__(self) -> None:
        self._jobs: dict[bytes, Job] = {}
        self._paused: set[bytes] = set()  # queues that take no jobs
        self._leaving = False
        self._changed = threading.Condition()

    def call(self, command: Sequence[bytes]) -> object:
        verb = getattr(self, command[0].decode().lower(), None)
        if verb is None or command[0].lower() == b"call":
            raise Refused(f"ERR unknown command '{command[0].decode()}'")
        with self._changed:
            answer = verb(*command[1:])
            self._changed.notify_all()
            return answer

    def addjob(self, queue: bytes, body: bytes, timeout: bytes, *options: bytes) -> bytes:
        said = {name.upper(): int(number) for name, number in zip(options[::2], options[1::2], strict=True)}
        ttl_s, delay_s = said.get(b"TTL", 86_400), said.get(b"DELAY", 0)
        retry_s = said.get(b"RETRY", max(1, min(300, ttl_s // 10)))
        if queue in self._paused:
            raise Refused("PAUSED Queue paused in input, try later")
        if delay_s >= ttl_s:
            raise Refused("ERR The specified DELAY is greater than TTL. Job refused since would never be delivered")
        if said.get(b"REPLICATE", 1) > 1:
            raise Refused("NOREPL Not enough reachable nodes for the requested replication level")
        job = Job(queue, body, retry_s, ttl_s, time.monotonic() + delay_s)
        self._jobs[job.id] = job
        return job.id

    def getjob(self, *words: bytes) -> list[list[object]] | None:
        options, queues = [word.upper() for word in words[: words.index(b"FROM")]], words[words.index(b"FROM") + 1 :]
        count = int(options[options.index(b"COUNT") + 1]) if b"COUNT" in options else 1
        timeout_s = int(options[options.index(b"TIMEOUT") + 1]) / 1000 if b"TIMEOUT" in options else 1e6
        deadline = time.monotonic() + (0 if b"NOHANG" in options else timeout_s)
        while not (found := list(itertools.islice(self._round(queues), count))) and time.monotonic() < deadline:
            if self._leaving:
                break
            self._changed.wait(max(0.0, min(0.01, deadline - time.monotonic())))
        if not found and self._leaving and b"NOHANG" not in options:
            raise Refused("LEAVING This node is leaving the cluster, please connect to a different one")
        counted = b"WITHCOUNTERS" in options
        return [self._delivered(job, counted) for job in found] or None

    def cluster(self, word: bytes, value: bytes) -> bytes:
        """LEAVING, which is all that it knows."""
        self._leaving = value == b"yes"
        return b"OK"

    def _round(self, queues: Sequence[bytes]) -> Iterator[Job]:
        """One job of each queue in turn."""
        now = time.monotonic()
        self._jobs = {job_id: job for job_id, job in self._jobs.items() if not job.is_over(now)}
        ready = sorted((job for job in self._jobs.values() if job.is_queued(now)), key=lambda job: job.ctime)
        lists = [[job for job in ready if job.queue == queue] for queue in queues]
        for row in itertools.zip_longest(*lists):
            yield from filter(None, row)

    def _delivered(self, job: Job, counted: bool) -> list[object]:
        if job.was_delivered and job.waits_until:
            job.additional += 1
        job.was_delivered = True
        job.waits_until = time.monotonic() + job.retry_s
        counters = [b"nacks", job.nacks, b"additional-deliveries", job.additional] if counted else []
        return [job.queue, job.id, job.body, *counters]

    def ackjob(self, *ids: bytes) -> int:
        return sum(self._jobs.pop(job_id, None) is not None for job_id in ids)

    fastack = ackjob

    def nack(self, *ids: bytes) -> int:
        active = [job for job in map(self._jobs.get, ids) if job and not job.is_queued(time.monotonic())]
        for job in active:
            job.nacks += 1
            job.waits_until = 0.0  # in its queue, and no delivery more
        return len(active)

    def working(self, job_id: bytes) -> int:
        job, now = self._jobs.get(job_id), time.monotonic()
        if job is None:
            raise Refused("NOJOB Job not known in the context of this node.")
        if now - job.made_at > job.ttl_s / 2:
            raise Refused("TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone it.")
        job.waits_until = now + job.retry_s
        return job.retry_s

    def pause(self, queue: bytes, way: bytes) -> bytes:
        (self._paused.add if way == b"in" else self._paused.discard)(queue)
        return way

    def qlen(self, queue: bytes) -> int:
        now = time.monotonic()
        return sum(job.queue == queue and job.is_queued(now) for job in self._jobs.values())

    def ping(self) -> bytes:
        return b"PONG"

    def info(self, *sections: bytes) -> bytes:
        return b"process_id:%d\r\n" % os.getpid()

    def client(self, *words: bytes) -> bytes:
        return b"OK"

    def debug(self, word: bytes) -> bytes:
        assert word == b"FLUSHALL"
        self._jobs.clear()
        return b"OK"


class Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while command := read_command(self.rfile):
            try:
                reply = encode(self.server.jobs.call(command))  # type: ignore[attr-defined]
            except Refused as error:
                reply = b"-%s\r\n" % str(error).encode()
            except Exception as error:
                reply = b"-ERR %s\r\n" % repr(error).encode()
            self.wfile.write(reply)


def read_command(stream: BinaryIO) -> list[bytes]:
    """Empty when the client has closed the connection."""
    line = stream.readline()
    words = []
    for _ in range(int(line[1:]) if line else 0):
        size = int(stream.readline()[1:])
        words.append(stream.read(size + 2)[:-2])
    return words


def encode(value: object) -> bytes:
    if value is None:
        return b"*-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    assert isinstance(value, list)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encode, value)))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def __init__(self, port: int) -> None:
        self.jobs = Jobs()
        super().__init__(("127.0.0.1", port), Connection)

    def handle_error(self, *_: object) -> None:
        """A client that was killed."""


if __name__ == "__main__":
    Server(int(sys.argv[1])).serve_forever()
