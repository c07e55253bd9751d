"""A redis-server whose wall clock a test sets forward and back while it runs, see stepped_clock.c."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from servers import RedisServer

_SOURCE = Path(__file__).with_name("stepped_clock.c")


class SteppedServer(RedisServer):
    def __init__(self) -> None:
        if shutil.which("cc") is None:
            told = "there is no C compiler: install the package build-essential"
            pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
        self._place = Path(tempfile.mkdtemp(prefix="pyworkers-clock-"))
        self._offset, library = self._place / "offset", self._place / "stepped_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE], check=True)
        self._offset.write_bytes(struct.pack("l", 0))
        self.variables = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._offset)}
        # The thread of its allocator waits by this machine's clock until a time of the set one. That has long passed
        # when the set one is behind, and the thread would take a processor.
        super().__init__(jemalloc_bg_thread="no")

    def step_to(self, offset_s: int) -> None:
        """From now on its clock shows so much more than this machine's."""
        with self._offset.open("r+b") as file:  # in the place of the old one, which the server has mapped
            file.write(struct.pack("l", offset_s))

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._place, ignore_errors=True)
