"""A real redis-server in a simulated fleet. Its clocks are those of the simulation, and each exchange is one step."""

from __future__ import annotations

import mmap
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hiredis
from redis._parsers.base import BaseParser

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.embedded_server import find_server
from goworkers_py.config.options import Config
from goworkers_py.features.groups.redis_part import set_key
from goworkers_py.features.limits.redis_part import places_key
from simulation.kernel import Kernel, Process
from simulation.network import Line
from simulation.server import Contents, Server
from simulation.wire_line import FarConnection, WireLine

Command = Sequence[Any]
Unit = Sequence[Command]  # what the server does in one step: a command, or MULTI to EXEC

_START_S = 20.0
_BOOTED = 1_000.0
_OPTIONS = "--port 0 --unixsocket socket --appendonly no --databases 1 --jemalloc-bg-thread no"
_SUBSCRIBES = {b"SUBSCRIBE", b"UNSUBSCRIBE", b"PING"}  # PING while subscribed
# After any other command, the server sends nothing to those who wait.
_HEARD = {b"EVALSHA", b"EVAL", b"MULTI", b"LPUSH", b"RPUSH", b"RPOPLPUSH", b"PUBLISH", b"CLIENT"}
_BLOCKS = {b"BRPOPLPUSH", b"BLMOVE", b"BLPOP", b"BRPOP"}


class Wire:
    """A connection of the real server, and the replies that have come over it."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error)
        self.replies: deque[Any] = deque()
        self.ended = False  # by the server
        self.subscribed = False
        self.blocked = False  # its last command may get its reply later
        self.told: Callable[[], None] = lambda: None  # called when replies came, or the end

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, unit: Unit) -> None:
        try:
            self._socket.sendall(b"".join(hiredis.pack_command(tuple(command)) for command in unit))
        except OSError:
            self.ended = True

    def read(self, count: int) -> list[Any]:
        """Waits for so many replies."""
        while len(self.replies) < count and not self.ended:
            self.receive()
        return [self.replies.popleft() for _ in range(min(count, len(self.replies)))]

    def receive(self) -> None:
        try:
            received = self._socket.recv(1 << 20)
        except OSError:
            received = b""
        self.ended = not received
        self._reader.feed(received)
        while (reply := self._reader.gets()) is not False:
            self.replies.append(reply)

    def close(self) -> None:
        """Waits until the server has closed its end: what it does afterwards must not depend on chance."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(1 << 20):
                pass
        except OSError:
            pass
        self._socket.close()


class SimulatedRedis(Server):
    address = "redis://simulation/0"
    cannot = frozenset({"killed at a call", "paused at a call", "a late call"})  # its lines know commands, not verbs

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._place = Path(tempfile.mkdtemp(prefix="pyworkers-simulated-"))
        try:
            self._clocks, self._process = self._started()
        except BaseException:
            shutil.rmtree(self._place, ignore_errors=True)
            raise
        self._wires: list[Wire] = []
        self._full = False
        self._control = self.connect()

    def _started(self) -> tuple[mmap.mmap, subprocess.Popen[bytes]]:
        clocks = self._place / "clocks"
        clocks.write_bytes(bytes(16))
        with clocks.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), 16)
        self._set_clocks(mapped)
        environment = {"LD_PRELOAD": str(_library()), "SIMULATED_CLOCKS": str(clocks)}
        with (self._place / "log").open("wb") as log:
            process = subprocess.Popen(
                [find_server(), *_OPTIONS.split(), "--save", ""],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._place,
                env={**os.environ, **environment},
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                process.wait()
                raise RuntimeError(f"redis-server did not start: {(self._place / 'log').read_text('utf-8', 'replace')}")
            time.sleep(0.005)
        return mapped, process

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as attempt:
            try:
                attempt.connect(str(self._place / "socket"))
                attempt.sendall(b"PING\r\n")
                return attempt.recv(100) == b"+PONG\r\n"
            except OSError:
                return False

    def _set_clocks(self, clocks: mmap.mmap) -> None:
        monotonic = _BOOTED + self.kernel.now
        struct.pack_into("ll", clocks, 0, round(self.time() * 1e6), round(monotonic * 1e6))

    # --- steps

    def connect(self) -> Wire:
        wire = Wire(str(self._place / "socket"))
        self._wires.append(wire)
        return wire

    def perform(self, wire: Wire, unit: Unit) -> None:
        """The replies are in the wire afterwards, but those that come later."""
        self._set_clocks(self._clocks)
        name = unit[0][0]
        before = len(wire.replies)
        wire.send(unit)
        if name in _BLOCKS or wire.subscribed or name in _SUBSCRIBES - {b"PING"}:
            wire.blocked = name in _BLOCKS
            wire.subscribed = wire.subscribed or name == b"SUBSCRIBE"
            self._meet()
            if wire.blocked:
                self.kernel.after(float(unit[0][-1]) + 0.01, self.look)
        else:
            wire.replies.extendleft(reversed(wire.read(before + len(unit))))
            if name not in _HEARD:
                return
        self._look()

    def look(self) -> None:
        """Between two steps: what the server does at its own time."""
        self._set_clocks(self._clocks)
        self._meet()
        self._look()

    def _meet(self) -> None:
        """Whatever was sent to the server before has been read by it."""
        self._control.send([(b"PING",)])
        self._control.read(1)

    def _look(self) -> None:
        """Receives what the server has sent by itself, over connections that wait for it."""
        waiting = {wire.fileno(): wire for wire in self._wires if wire.blocked or wire.subscribed}
        if not waiting:
            return
        self._meet()  # replies are written after all commands of one turn have been read
        poll = select.poll()
        for number in waiting:
            poll.register(number, select.POLLIN)
        ready = {number for number, _ in poll.poll(0)}
        for number, wire in waiting.items():
            if number in ready:
                wire.receive()
                wire.blocked = False
                wire.told()

    def disconnect(self, wire: Wire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)
            self._set_clocks(self._clocks)
            wire.close()

    # --- a part of the fleet

    def line(self, process: Process) -> WireLine:
        return WireLine(process, self)

    def broker(self, config: Config, line: Line) -> Broker:
        class FarConnections(Connections):
            """Connections at the end of the line."""

            def __init__(self, url: str, client_name: str = "pyworkers", timeout_s: float = 5.0) -> None:
                super().__init__(url, client_name, timeout_s)
                self._make = lambda **command: FarConnection(line, **command)

        class FarBroker(RedisBroker):
            _connect = FarConnections

        return FarBroker.open(config)

    def fill(self, full: bool) -> None:
        self._full = full
        self._limit_memory(full)

    def _limit_memory(self, full: bool) -> None:
        self.ask((b"CONFIG", b"SET", b"maxmemory", int(full)))

    def damage(self, limit: str, key: str) -> bool:
        places = places_key(Keys(), f"{limit}:{key}")
        return bool(self.ask((b"SET", places, b"of another program", b"NX"))[0])

    def repair(self, limit: str, key: str) -> None:
        self.ask((b"DEL", places_key(Keys(), f"{limit}:{key}")))

    def push_raw(self, queue: str, payload: bytes, copies: int) -> None:
        """Also on a full server: its own push would be tried again until there is room."""
        self._limit_memory(False)
        self.ask((b"SADD", b"queues", queue), (b"LPUSH", f"queue:{queue}", *[payload] * copies))
        self._limit_memory(self._full)
        self._look()

    def ask(self, *commands: Command) -> list[Any]:
        """By the judge, between two steps."""
        self._set_clocks(self._clocks)
        self._control.send(commands)
        return self._control.read(len(commands))

    def contents(self) -> Contents:
        keys = Keys()
        [names] = self.ask((b"KEYS", b"*"))
        names = sorted(names)

        def begin(key: str) -> list[bytes]:
            return [name for name in names if name.startswith(key.encode())]

        queued = begin(keys.queue(""))
        lines, outboxes = begin(keys.line("")), begin(keys.outbox(""))
        retries, scheduled, dead = self.ask(
            *((b"ZRANGE", key, 0, -1) for key in (keys.retry, keys.schedule, keys.dead))
        )
        jobs = dict(zip(queued, self.ask(*((b"LRANGE", name, 0, -1) for name in queued)), strict=True))
        lengths = dict(zip(lines + outboxes, self.ask(*((b"LLEN", name) for name in lines + outboxes)), strict=True))
        held = b":inprogress"
        return Contents(
            {name.decode(): found for name, found in jobs.items() if not name.endswith(held)},
            {name.decode(): found for name, found in jobs.items() if name.endswith(held)},
            retries,
            scheduled,
            dead,
            {name.decode(): lengths[name] for name in lines},
            {name.decode(): lengths[name] for name in outboxes},
            len(begin(f"{keys.prefix}pyworkers:group:")) + len(begin(set_key(keys, ""))),
        )

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self._process.kill()
        self._process.wait()
        self._clocks.close()
        shutil.rmtree(self._place, ignore_errors=True)


def _library() -> Path:
    """The library that gives the server its machine, compiled once on this computer."""
    source = Path(__file__).with_name("server_machine.c")
    made = Path(tempfile.gettempdir()) / f"pyworkers-machine-{zlib.crc32(source.read_bytes()):08x}.so"
    if not made.exists():
        mine = made.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", mine, source, "-ldl"], check=True)
        mine.replace(made)
    return made
