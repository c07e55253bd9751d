"""Those who break things: one for each process, one for each process's network, one for the server.

Each is a thread that breaks one thing after the other, mends each before the next, and notes from when to when. What
they choose comes from the seed; when exactly it strikes does not.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import redis as redis_py
from proxy import Direction, Proxy
from servers import RedisServer, free_port

from chaos.nodes import SHORT, Node

LEASE_S = SHORT["timing.lease_s"]
LOOK_EVERY_S = 0.2
STANDSTILL_S = 0.5  # a look that is so late was no monkey's doing

SHORTLY, LONG = "SIGSTOP, shorter than the lease", "SIGSTOP, longer than the lease"
OUTAGE = "outage of the server for all"  # see `outage`
STANDSTILL = "the machine stood still"  # see `Standstills`
DENIED = "a command denied"
# What keeps a process from renewing its lease for as long as it lasts.
SILENT = (
    SHORTLY, LONG, "connections refused", "packets swallowed", "replies slow", "commands late", "Redis restarted",
    "Redis killed", "Redis stopped by SIGSTOP", "Redis read-only", DENIED, OUTAGE,
)  # fmt: skip
# Those that fetch or write, in our scripts and outside of them.
COMMANDS = (
    "brpoplpush", "del", "expire", "hset", "hsetnx", "incrby", "lpush", "lrem", "lset", "ltrim", "rpoplpush", "rpush",
    "sadd", "set", "zadd", "zrem", "zremrangebyrank", "zremrangebyscore",
)  # fmt: skip


@dataclass
class Window:
    """Something was broken. `node` is empty when it concerns all of them."""

    kind: str
    node: str
    began: float
    ended: float = float("inf")
    woken: float = float("inf")  # when a process that was stopped was about to be let go on


class Chronicle:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.windows: list[Window] = []

    @contextmanager
    def note(self, kind: str, node: str = "") -> Iterator[Window]:
        window = Window(kind, node, time.monotonic())
        with self._lock:
            self.windows.append(window)
        try:
            yield window
        finally:
            window.ended = time.monotonic()

    def add(self, window: Window) -> None:
        with self._lock:
            self.windows.append(window)

    def count(self) -> Counter[str]:
        with self._lock:
            return Counter(window.kind for window in self.windows)


class Standstills(threading.Thread):
    """Notes when the machine stood still, or was so busy that a thread got no processor. The end of a job may have been
    settled by nobody then, and whatever was due meanwhile strikes at once when the machine goes on."""

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(name="standstills", daemon=True)
        self._chronicle = chronicle
        self._stopping = threading.Event()

    def run(self) -> None:
        looked = time.monotonic()
        while not self._stopping.wait(LOOK_EVERY_S):
            before, looked = looked, time.monotonic()
            if looked - before > LOOK_EVERY_S + STANDSTILL_S:
                self._chronicle.add(Window(STANDSTILL, "", before, looked))

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Monkey(threading.Thread):
    """`tricks` are its methods, with how much each is liked."""

    tricks: dict[str, int]

    def __init__(self, name: str, seed: int, chronicle: Chronicle, pause_s: tuple[float, float]) -> None:
        super().__init__(name=f"monkey:{name}", daemon=True)
        self.random = random.Random(f"{seed}:{name}")
        self.chronicle = chronicle
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.turn = threading.Lock()  # held by a trick; who holds it has all in peace that this monkey breaks
        self._pause_s = pause_s

    def run(self) -> None:
        try:
            while not self.rest(self.random.uniform(*self._pause_s)):
                trick = self.random.choices(list(self.tricks), list(self.tricks.values()))[0]
                with self.turn:
                    getattr(self, trick)()
        except BaseException as error:
            self.error = error

    def rest(self, seconds: float) -> bool:
        """True when it is to stop."""
        return self.stopping.wait(seconds)

    def last(self, longest_s: float = 2.0) -> None:
        """Leaves it broken for a while, for less than a lease."""
        self.stopping.wait(self.random.uniform(0.1, longest_s))

    def outlast_the_lease(self) -> None:
        self.stopping.wait(LEASE_S * self.random.uniform(1.3, 2.0))

    def short_or_long(self) -> None:
        self.outlast_the_lease() if self.random.random() < 0.2 else self.last()


class ProcessMonkey(Monkey):
    tricks = {"kill": 4, "freeze_shortly": 3, "freeze_for_long": 2, "restart": 2}  # noqa: RUF012

    def __init__(self, node: Node, seed: int, chronicle: Chronicle, pause_s: tuple[float, float]) -> None:
        super().__init__(f"process {node.name}", seed, chronicle, pause_s)
        self.node = node

    def rest(self, seconds: float) -> bool:
        """Meanwhile it brings back a process that a killer has ended."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stopping.wait(min(left, LOOK_EVERY_S)):
            self.node.revive()
        return self.stopping.is_set()

    def kill(self) -> None:
        with self.chronicle.note("kill -9", self.node.name):
            self.node.kill()
        self.revive()

    def restart(self) -> None:
        with self.chronicle.note("stopped by TERM", self.node.name):
            self.node.stop()
        self.revive()

    def revive(self) -> None:
        self.last(1.0)
        self.node.start()

    def freeze_shortly(self) -> None:
        self._freeze(SHORTLY, self.last)

    def freeze_for_long(self) -> None:
        self._freeze(LONG, self.outlast_the_lease)

    def _freeze(self, kind: str, wait: Callable[[], None]) -> None:
        self.node.revive()
        with self.chronicle.note(kind, self.node.name) as window:
            self.node.freeze()
            wait()
            window.woken = time.monotonic()
            self.node.thaw()


class NetworkMonkey(Monkey):
    tricks = {  # noqa: RUF012
        "cut": 2, "refuse": 2, "swallow": 3, "hush": 2, "slow_down": 2, "lose_replies": 4, "lose_commands": 2,
        "delay_commands": 1,
    }  # fmt: skip

    def __init__(self, name: str, proxy: Proxy, seed: int, chronicle: Chronicle, pause_s: tuple[float, float]) -> None:
        super().__init__(f"network {name}", seed, chronicle, pause_s)
        self.node = name
        self.proxy = proxy

    def cut(self) -> None:
        with self.chronicle.note("connections cut", self.node):
            self.proxy.cut()

    def refuse(self) -> None:
        with self._broken("connections refused"):
            self.proxy.refuse()
            self.short_or_long()

    def swallow(self) -> None:
        with self._broken("packets swallowed"):
            self.proxy.swallow()
            self.short_or_long()

    def hush(self) -> None:
        with self._broken("connections half open"):
            self.proxy.swallow(self._some_command(), self.random.choice([None, *Direction]), self.random.randint(1, 4))
            self.last(4.0)

    def slow_down(self) -> None:
        with self._broken("replies slow"):
            self.proxy.delay(self.random.uniform(0.02, 1.2), self._some_command())
            self.last(4.0)

    def lose_replies(self) -> None:
        with self._broken("replies lost"):
            self.proxy.drop_reply_of(self._some_command(), self.random.randint(1, 5), self.random.choice([0, 0, 3]))
            self.last()

    def lose_commands(self) -> None:
        with self._broken("commands lost"):
            self.proxy.drop_command(self._some_command(), self.random.randint(1, 5))
            self.last()

    def delay_commands(self) -> None:
        """For longer than anybody waits for the reply."""
        with self._broken("commands late"):
            self.proxy.delay(self.random.uniform(1.0, 4.0), self._some_command(), Direction.COMMAND, 2)
            self.last(4.0)

    def _some_command(self) -> bytes:
        return self.random.choice([b"BRPOPLPUSH", b"EVALSHA", b"EVALSHA", b"EXEC", b""])

    @contextmanager
    def _broken(self, kind: str) -> Iterator[None]:
        with self.chronicle.note(kind, self.node):
            yield
            self.proxy.pass_through()


class ServerMonkey(Monkey):
    tricks = {  # noqa: RUF012
        "restart": 2, "kill": 2, "pause": 2, "kill_clients": 4, "make_read_only": 1, "fill": 1, "flush_scripts": 1,
        "deny": 3,
    }  # fmt: skip

    def __init__(self, server: RedisServer, seed: int, chronicle: Chronicle, pause_s: tuple[float, float]) -> None:
        super().__init__("server", seed, chronicle, pause_s)
        self.server = server
        self.client = server.client()

    def restart(self) -> None:
        with self.chronicle.note("Redis restarted"):
            self.server.stop()
            self.short_or_long()
            self.server.start()

    def kill(self) -> None:
        with self.chronicle.note("Redis killed"):
            self.server.kill()
            self.short_or_long()
            self.server.start()

    def pause(self) -> None:
        with self.chronicle.note("Redis stopped by SIGSTOP"):
            self.server.pause()
            self.short_or_long()
            self.server.resume()

    def kill_clients(self) -> None:
        with self.chronicle.note("CLIENT KILL"):
            clients: Sequence[dict[str, str]] = self.client.client_list()
            for client in self.random.sample(clients, min(len(clients), self.random.randint(1, 12))):
                with suppress(redis_py.ResponseError):  # it has gone by itself
                    self.client.client_kill_filter(_id=client["id"])

    def make_read_only(self) -> None:
        with self.chronicle.note("Redis read-only"):
            self.client.replicaof("127.0.0.1", free_port())
            self.last()
            self.client.replicaof("NO", "ONE")

    def fill(self) -> None:
        with self.chronicle.note("Redis out of memory"):
            self.client.config_set("maxmemory", "1")
            self.short_or_long()
            self.client.config_set("maxmemory", "0")

    def deny(self) -> None:
        with self.chronicle.note(DENIED):
            command = self.random.choice(COMMANDS)
            self.client.acl_setuser("default", enabled=True, commands=[f"-{command}"])
            self.stopping.wait(self.random.uniform(1.0, 3.0))
            self.client.acl_setuser("default", enabled=True, commands=[f"+{command}"])

    def flush_scripts(self) -> None:
        with self.chronicle.note("SCRIPT FLUSH"):
            self.client.script_flush()
