"""Dramatiq on Redis."""

from __future__ import annotations

from bench.torture.systems.python_peer import PythonPeer
from bench.torture.systems.system import THREADS, Place


class Dramatiq(PythonPeer):
    name = "dramatiq"
    requirement = "dramatiq[redis]==2.2.1"
    settings = "`maintenance_chance` 100,000"
    notes = """\
It acknowledges a message after its run by default (its page "Motivation", reliability). Another worker takes over the
messages of one without a heartbeat for 60 s (`heartbeat_timeout`, its reference of `RedisBroker`), in a command that is
drawn by `maintenance_chance`: one in a thousand by default. An idle system would find nothing in the time of a run, so
it is one in ten here. The back-off of retries is a second, not 15.
"""
    losses = """\
Redis holds each lost job still. Delayed messages and retries wait in the memory of a worker. When that loses its
connection, it forgets them, but they stay noted as its own for as long as it lives. They come back a minute after it is
started again.
"""
    settle_s = 120.0  # its heartbeat, and some commands of an idle worker

    def worker(self, place: Place) -> list[str]:
        return [self.program("dramatiq"), "dramatiq_app", "--processes", "1", "--threads", str(THREADS)]
