"""Obstacles that keep a queue from taking jobs, on each broker: set and lifted while the tests run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pika  # type: ignore[import-untyped]
import redis as redis_py

from goworkers_py.brokers.redis.driver.redirects import ClusterConnections
from goworkers_py.brokers.redis.keys import Keys

Lift = Callable[[], None]


@contextmanager
def obstructed(address: str, queue: str) -> Iterator[Lift | None]:
    """The queue takes no jobs until the returned function is called. None: nothing can stand in the way there."""
    obstruct = OBSTACLES.get(urlsplit(address).scheme)
    yield None if obstruct is None else obstruct(address, queue)


def _by_type(address: str, queue: str) -> Lift:
    """On each Redis of the address the key of the queue is no list."""
    if address.startswith("redis+cluster:"):
        key = Keys(f"{{{address.rpartition('/')[2]}}}").queue(queue)

        def on_each(*command: str) -> None:
            # Not by redis-py: its client of a cluster leaves connections open when it is closed.
            with closing(ClusterConnections(address)) as connections:
                connections.call(*command)
    else:
        key, servers = Keys().queue(queue), [one.rpartition("=")[2] for one in address.split(",")]

        def on_each(*command: str) -> None:
            for server in servers:
                with redis_py.Redis.from_url(server) as client:
                    client.execute_command(*command)

    on_each("SET", key, "no list")
    return lambda: on_each("DEL", key)


def _by_file(address: str, queue: str) -> Lift:
    place = Path(address.removeprefix("dir://"), "queues", f"-{queue}")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"no folder")
    return place.unlink


def _by_pause(address: str, queue: str) -> Lift:
    def pause(way: str) -> None:
        with redis_py.Redis.from_url(address.replace("disque:", "redis:"), protocol=2) as client:
            client.execute_command("PAUSE", queue, way)

    pause("in")
    return lambda: pause("none")


def _by_length(address: str, queue: str) -> Lift:
    """The queue is full."""
    with _channel(address) as channel:
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        channel.queue_declare(queue, durable=True, arguments=full)

    def lift() -> None:
        with _channel(address) as channel:
            channel.queue_delete(queue)

    return lift


@contextmanager
def _channel(address: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(address))
    try:
        yield connection.channel()
    finally:
        connection.close()


OBSTACLES: Mapping[str, Callable[[str, str], Lift]] = {
    "redis": _by_type, "redis+cluster": _by_type, "dir": _by_file, "disque": _by_pause, "amqp": _by_length,
}  # fmt: skip
