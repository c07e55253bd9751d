"""The harness of the contract suite for Disque, and the servers that its tests share."""

from __future__ import annotations

from disque_server import DisqueServer


class DisqueHarness:
    def __init__(self, server: DisqueServer) -> None:
        self._server = server
        self.address = server.url
        server.forget_jobs()

    def expire_lease(self, identity: str) -> None:
        raise NotImplementedError("Disque has no leases")

    def close(self) -> None:
        self._server.forget_jobs()
