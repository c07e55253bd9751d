"""The ledger of a run: one file to which the harness and every job append lines.

A line is one write() to a file that is opened for appending: the kernel has it then, however its process ends.

    push    TIME ID DUE             the producer is about to push this job, to run at DUE (0: at once)
    pushed  TIME ID                 ... and the push was acknowledged
    unsure  TIME ID                 ... or failed: nobody knows whether the job was stored
    begin   TIME ID WORKER PID      a run of the job began
    fail    TIME ID WORKER PID      ... and raised, as it was told to
    end     TIME ID WORKER PID      ... or ended well
    up      TIME WORKER             a process of this worker was started
    down    TIME WORKER WHY         ... and ended: killed, asked to, or by itself
    fault   TIME KIND TARGET        a fault of this kind began on a worker, the producer or the server
    mended  TIME KIND TARGET        ... and was over
    calm    TIME                    the last fault was over; jobs are still pushed
    quiet   TIME                    the last job was pushed

TIME is the clock of the machine in seconds since 1970. All processes of a run, Redis too, are on one machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    word: str
    at: float
    details: tuple[str, ...]


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, word: str, *details: object) -> None:
        os.write(self._file, f"{' '.join([word, f'{time.time():.6f}', *map(str, details)])}\n".encode())

    def read(self) -> list[Entry]:
        return list(entries(self.path.read_text("utf-8")))

    def close(self) -> None:
        os.close(self._file)


def entries(text: str) -> Iterator[Entry]:
    for line in text.splitlines():
        word, at, *details = line.split(" ")
        yield Entry(word, float(at), tuple(details))
