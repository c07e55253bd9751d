"""The line of a simulated process to a real redis-server, command by command.

`FarConnection` stands in for a connection of redis-py. Before each command that it sends, and after the last reply, the
seed lets others step; MULTI to EXEC is one command here, as the server makes it. The troubles of the line are those of
`network`, but each is one of a single connection:

- the request is lost: it and whatever is sent after it never arrive;
- the request is late: the server does it when its time has come, and the connection may be closed by then;
- the reply is lost: the server has done it, and nothing more comes over this connection;
- the line is cut: what is sent waits, and so do the replies, until the line is whole again.
"""

from __future__ import annotations

import itertools
import select as real_select
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod, WeakValueDictionary

import hiredis
import redis

from goworkers_py.brokers.redis.fleet import leases, owner_list
from goworkers_py.brokers.redis.queues import pool_consumer
from goworkers_py.core import identity
from simulation.kernel import Kernel, Process, Task
from simulation.network import MOST_LATE_S, Line

if TYPE_CHECKING:
    from simulation.redis_server import SimulatedRedis, Unit, Wire


class WireLine(Line):
    def __init__(self, process: Process, server: SimulatedRedis) -> None:
        super().__init__(process, lambda: server.is_away)
        self.server = server
        self.connections: dict[int, FarConnection] = {}  # that are open
        process.at_death.append(self._close_all)

    def fails(self) -> bool:
        return bool(self.trouble) and self.kernel.random.random() < self.trouble

    def look_for_news(self) -> None:
        super().look_for_news()
        for connection in list(self.connections.values()):
            connection.arrive()

    def _close_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.disconnect()


_numbers = itertools.count(1)


class FarConnection:
    def __init__(
        self,
        line: Line,
        *,
        socket_timeout: float,
        socket_connect_timeout: float,
        client_name: str = "",
        host: str = "",
        port: int = 0,
        **others: Any,
    ) -> None:
        assert isinstance(line, WireLine)
        self.host, self.port = host, port
        self._line, self._kernel = line, line.kernel
        self._timeout_s, self._connect_timeout_s = socket_timeout, socket_connect_timeout
        self._client_name = client_name
        self._callbacks: list[WeakMethod[Callable[[Any], object]]] = []
        self._number = next(_numbers)
        self._waiting: list[Task] = []
        self._open: _Session | None = None
        _POLLED[self._number] = self

    # --- what the broker calls

    @property
    def _sock(self) -> FarConnection | None:
        return self if self._open is not None else None

    def fileno(self) -> int:
        return self._number

    def register_connect_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(WeakMethod(callback))

    def connect(self) -> None:
        if self._open is not None:
            return
        self._kernel.let_step()
        line = self._line
        if line.dead or line.fails():
            if self._kernel.random.random() < 0.5:
                raise redis.ConnectionError("Error 111 connecting to server")
            self._kernel.wait(self._connect_timeout_s)
            raise redis.TimeoutError("Timeout connecting to server")
        self._open = session = _Session(self._line)
        session.wire.told = self.arrive
        line.connections[self._number] = self
        if self._client_name:
            line.server.perform(session.wire, [(b"CLIENT", b"SETNAME", self._client_name)])
            session.wire.replies.clear()
        for callback in self._callbacks:
            if (call := callback()) is not None:
                call(self)

    def send_packed_command(self, packed: Iterable[bytes], check_health: bool = True) -> None:
        for unit in _units(packed):
            self._kernel.let_step()
            if self._open is None:
                raise redis.ConnectionError("the connection was closed while a command was written")
            self._open.send(unit)
            self._wake()

    def can_read(self, timeout: float = 0) -> bool:
        if self._open is None:
            self.connect()
        if not self.readable and timeout > 0:
            self._wait(timeout)
        return self.readable

    def read_response(self, **options: Any) -> Any:
        session, until = self._open, self._kernel.now + self._timeout_s
        while session is not None and session is self._open:
            if session.hears and session.wire.replies:
                reply = session.wire.replies.popleft()
                if not session.wire.replies:
                    self._kernel.let_step()
                if isinstance(reply, Exception):
                    raise reply
                return reply
            if self.readable:
                self.disconnect()
                raise redis.ConnectionError("the server closed the connection")
            if (left_s := until - self._kernel.now) <= 0:
                self.disconnect()
                raise redis.TimeoutError("Timeout reading from socket")
            self._wait(left_s)
        raise redis.ConnectionError("the connection was closed while a reply was read")

    def disconnect(self, *_: object) -> None:
        session, self._open = self._open, None
        if session is not None:
            self._line.connections.pop(self._number, None)
            session.close()
            self._wake()

    # --- what happens to it

    @property
    def readable(self) -> bool:
        session = self._open
        if session is None:
            return True
        return session.reset or (session.hears and bool(session.wire.replies or session.wire.ended))

    def arrive(self) -> None:
        """Between two steps: something has come, or may come again."""
        if self._open is not None:
            self._open.release()
        self._wake()

    def _wake(self) -> None:
        for task in list(self._waiting):
            self._kernel.wake(task)

    def _wait(self, seconds: float) -> None:
        _wait(self._kernel, [self], seconds)


class _Session:
    """From a connect to its end: the real connection, and what is on its way there."""

    def __init__(self, line: WireLine) -> None:
        self._line, self._kernel, self._server = line, line.kernel, line.server
        self.wire: Wire = line.server.connect()
        self.reset = False  # the process meets an error
        self._broken = False  # nothing gets through any more
        self._closed = False
        self._held: list[Unit] = []  # on its way
        self._held_until = 0.0

    @property
    def hears(self) -> bool:
        return not self._broken and not self._line.dead

    def send(self, unit: Unit) -> None:
        kernel, line = self._kernel, self._line
        if self._broken:
            return
        if self._held or line.dead:
            self._held.append(unit)
            return
        if not line.fails():
            self._perform(unit)
            return
        trouble = kernel.random.random()
        if trouble < 0.3:
            self._break()
        elif trouble < 0.7:
            self._held.append(unit)
            late_s = kernel.random.random() ** 2 * MOST_LATE_S
            self._held_until = kernel.now + late_s
            kernel.after(late_s, self.release)
        else:
            self._perform(unit)
            self._break()

    def _perform(self, unit: Unit) -> None:
        if self._kernel.trace is not None:
            self._kernel.trace(f"    {_shown(unit)} for {self._line.process}")
        self._server.perform(self.wire, unit)

    def _break(self) -> None:
        self._broken, self.reset = True, self._kernel.random.random() < 0.5

    def release(self) -> None:
        """Between two steps. What was on its way arrives, if it can."""
        if self._line.dead or not self._held or self._kernel.now < self._held_until:
            return
        held, self._held = self._held, []
        for unit in held:
            self._perform(unit)
        if self._closed:
            self._server.disconnect(self.wire)
        else:
            self.wire.told()

    def close(self) -> None:
        """What is on its way may arrive after that. The server may not hear of the end for a time."""
        self._closed = True
        self.wire.told = lambda: None
        if not (self._held or self._broken or self._line.dead):
            self._server.disconnect(self.wire)
            return
        if self._kernel.random.random() < 0.5:
            self._held.clear()
        self._kernel.after(self._kernel.random.random() * MOST_LATE_S, self._end)

    def _end(self) -> None:
        self._held_until = 0.0
        self.release()
        self._server.disconnect(self.wire)


def _units(packed: Iterable[bytes]) -> Iterator[Unit]:
    reader = hiredis.Reader()
    reader.feed(b"".join(packed))
    unit: list[Any] = []
    while (command := reader.gets()) is not False:
        unit.append(command)
        if unit[0][0] != b"MULTI" or command[0] == b"EXEC":
            yield unit
            unit = []
    if unit:
        yield unit


def _shown(unit: Unit) -> str:
    told = (" ".join(repr(argument)[1:60] for argument in command[:6]) for command in unit)
    return "; ".join(told)


# --- the machine of a process that speaks to Redis


_POLLED: WeakValueDictionary[int, Any] = WeakValueDictionary()


def _wait(kernel: Kernel, polled: list[Any], seconds: float) -> None:
    task = kernel.current
    assert task is not None
    for one in polled:
        one._waiting.append(task)
    try:
        kernel.wait(seconds)
    finally:
        for one in polled:
            one._waiting.remove(task)


class _Poll:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._polled: dict[int, Any] = {}

    def register(self, number: int, events: int) -> None:
        self._polled[number] = _POLLED[number]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        if not self._ready() and milliseconds > 0:
            _wait(self._kernel, list(self._polled.values()), milliseconds / 1000)
        return [(number, real_select.POLLIN) for number in self._ready()]

    def _ready(self) -> list[int]:
        return [number for number, one in self._polled.items() if one.readable]


class _Bell:
    """Stands in for `Bell`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._number = next(_numbers)
        self._waiting: list[Task] = []
        self.readable = False
        _POLLED[self._number] = self

    def ring(self) -> None:
        self._kernel.touch()
        self.readable = True
        for task in list(self._waiting):
            self._kernel.wake(task)

    def silence(self) -> None:
        self.readable = False

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._number = -1


@contextmanager
def on_wires(kernel: Kernel) -> Iterator[None]:
    """Until the end of the block, processes have sockets, hosts and pids of the simulation. Two hosts run them all."""

    def pid() -> int:
        return kernel.current.process.pid if kernel.current is not None else 0

    def host() -> str:
        return f"host-{pid() % 2}"

    def origin() -> dict[str, Any]:
        return {"machine": host(), "pid": pid(), "started": 1}

    def certainly_dead(origin: Any) -> bool:
        return origin.get("machine") == host() and not kernel.processes[origin["pid"] - 1].alive

    stand_ins: list[tuple[Any, str, Any]] = [
        (pool_consumer, "select", SimpleNamespace(poll=lambda: _Poll(kernel), POLLIN=real_select.POLLIN)),
        (pool_consumer, "Bell", lambda: _Bell(kernel)),
        (identity, "_hostname", host),
        (identity, "os", SimpleNamespace(getpid=pid)),
        *((module, "origin", origin) for module in (leases, owner_list)),
        *((module, "certainly_dead", certainly_dead) for module in (leases, owner_list)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in stand_ins]
    for module, name, stand_in in stand_ins:
        setattr(module, name, stand_in)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
