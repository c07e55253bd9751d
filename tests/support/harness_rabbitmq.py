"""The harness of the contract suite for RabbitMQ: each test has a virtual host without queues."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

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


def of_server(server: RabbitServer, folder: Path) -> RabbitHarness:
    return RabbitHarness(server)
