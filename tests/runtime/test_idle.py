"""Threads that have nothing to do wait, and those that cannot reach the server do too: no loop spins."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from apps import own_app
from delaying import Queues
from servers import RedisServer

import goworkers_py as workers
from goworkers_py.config.options import QueueConfig, Timing

WATCHED_S = 2.0
# In this time. A loop that spins sends thousands of commands to a server that runs, and connects thousands of times to
# one that does not. Ours are the commands of all threads with their usual pauses, and attempts with growing pauses.
MOST_COMMANDS, MOST_ATTEMPTS = 100, 40
# Of all threads, for a loop that spins without a command. On a busy machine too it gets more than this.
MOST_CPU_S = 0.2


@contextmanager
def receiver(url: str, **options: Any) -> Iterator[None]:
    with own_app(url, QueueConfig("mail", **options), timing=Timing()) as app:

        class Mail(workers.TypedMessage, channel="mail", app=app):
            to: str

            def resolve(self) -> None: ...

        with app.receive(Mail, consumers=1):
            yield


@contextmanager
def daemon(url: str) -> Iterator[None]:
    with own_app(url, QueueConfig("mail", concurrency=2), QueueConfig("bills"), timing=Timing()) as app:
        app.start()
        yield


@contextmanager
def delay_queue(url: str) -> Iterator[None]:
    with closing(Queues()) as queues:
        queue = queues.started({"remind": print}, workers.RedisPersistence(url))
        queue.push(3_600, "remind", "later")
        queue.push(0.6, "remind", "in the outage")
        yield


PROGRAMS = [
    pytest.param(receiver, id="receiver"),
    pytest.param(lambda url: receiver(url, mode="serial", concurrency=1), id="serial"),
    pytest.param(lambda url: receiver(url, bare_list="mail.prepare", in_progress="mail.doing{n}"), id="plain list"),
    pytest.param(daemon, id="daemon"),
    pytest.param(delay_queue, id="delay queue"),
]


class Closer:
    """A server at this port that closes each connection at once, and counts them."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.close()
                self.connections += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_without_work_waits(own_redis: RedisServer, program: Callable[[str], Any]) -> None:
    """The original asked an empty queue again at once."""
    with program(own_redis.url), own_redis.client() as client:
        time.sleep(0.5)  # its start
        before, cpu_s = client.info("commandstats"), time.process_time()
        time.sleep(WATCHED_S)
        cpu_s = time.process_time() - cpu_s
        after = client.info("commandstats")
    sent = {name: told["calls"] - before.get(name, {"calls": 0})["calls"] for name, told in after.items()}
    assert sum(sent.values()) < MOST_COMMANDS, sent
    assert cpu_s < MOST_CPU_S


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_whose_server_is_away_waits_between_its_attempts(
    own_redis: RedisServer, program: Callable[[str], Any]
) -> None:
    """The original asked again at once after a failed read, too."""
    with program(own_redis.url):
        time.sleep(0.5)
        own_redis.kill()
        with closing(Closer(own_redis.port)) as closer:
            time.sleep(WATCHED_S)
            attempts = closer.connections
        own_redis.start()
    assert attempts < MOST_ATTEMPTS
