"""The harness of the contract suite for RabbitMQ: each test has a virtual host without queues."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from rabbit import RabbitServer

_numbers = itertools.count(1)
_unused: list[str] = []  # virtual hosts in which a test has made no queue


class RabbitHarness:
    def __init__(self, server: RabbitServer) -> None:
        self._server = server
        self._vhost = _unused.pop() if _unused else f"test-{os.getpid()}-{next(_numbers)}"
        self.address = server.new_vhost(self._vhost)

    def expire_lease(self, identity: str) -> None:
        raise NotImplementedError("RabbitMQ has no leases")

    def close(self) -> None:
        if self._server.has_queues(self._vhost):
            self._server.delete_vhost(self._vhost)
        else:
            _unused.append(self._vhost)


def let_the_node_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lets a node stand still for seconds, also while it declares the queue of a retry or a dead job."""
    longer = {"consuming_link.CONSUME_S": 8.0, "publisher.REFUSED_FOR_S": 10.0, "settlement.PATIENCE_S": 10.0}
    for name, seconds in longer.items():
        monkeypatch.setattr(f"goworkers_py.brokers.rabbitmq.{name}", seconds)


def of_server(server: RabbitServer, folder: Path) -> RabbitHarness:
    return RabbitHarness(server)
