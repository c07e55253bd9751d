"""Knows which jobs were pushed and have not ended yet."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from pathlib import Path


class Ledger(threading.Thread):
    """Reads the tickets that `jobs.end` sends. Other threads tell it of pushes."""

    def __init__(self, address: Path) -> None:
        super().__init__(name="ledger", daemon=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(address))
        self._lock = threading.Lock()  # of all fields below
        self._open: dict[str, float] = {}  # ticket: when it was pushed
        self._pushed: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._again: Counter[str] = Counter()  # ends of jobs that had ended already, or were not pushed here
        self._late_s: list[float] = []  # since the last sample

    def run(self) -> None:
        while told := self._socket.recv(4096):
            ticket, late_s = told.decode().rsplit(" ", 1)
            self.end(ticket, float(late_s))

    def close(self) -> None:
        """Ends the thread, if it was started: no ticket is empty."""
        if self.is_alive():
            self._socket.sendto(b"", self._socket.getsockname())
            self.join()
        self._socket.close()

    def expect(self, ticket: str) -> None:
        with self._lock:
            if ticket not in self._open:
                self._pushed[kind_of(ticket)] += 1
            self._open[ticket] = time.monotonic()

    def forget(self, ticket: str) -> None:
        """It was not pushed, because of a lock."""
        with self._lock:
            if self._open.pop(ticket, None) is not None:
                self._pushed[kind_of(ticket)] -= 1

    def end(self, ticket: str, late_s: float = -1.0) -> None:
        with self._lock:
            ended = self._again if self._open.pop(ticket, None) is None else self._ended
            ended[kind_of(ticket)] += 1
            if late_s >= 0:
                self._late_s.append(late_s)

    def open(self) -> list[str]:
        with self._lock:
            return sorted(self._open, key=lambda ticket: self._open[ticket])

    def counts(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {"pushed": dict(self._pushed), "ended": dict(self._ended), "again": dict(self._again)}

    def take_latencies(self) -> list[float]:
        with self._lock:
            taken, self._late_s = self._late_s, []
        return sorted(taken)


def kind_of(ticket: str) -> str:
    return ticket.partition(":")[0]
