"""Disque servers that tests start for themselves: the real one, and one of our own that keeps its rules."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import archives
import disque_protocol
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import START_S, Killable, check_allowed, do_without, free_port

PROGRAM_VARIABLE = "PYWORKERS_TEST_DISQUE"
SOURCE_VARIABLE = "PYWORKERS_TEST_DISQUE_SOURCE"
BESIDE = Path(__file__).resolve().parents[3] / "shared/third_party/disque-source.tar.gz"
BUILD_S = 300


def find_disque() -> str:
    """The program: the one that PYWORKERS_TEST_DISQUE names, one on PATH, or one that is built from the source that
    PYWORKERS_TEST_DISQUE_SOURCE names or that lies beside the checkout."""
    named = os.environ.get(PROGRAM_VARIABLE) or shutil.which("disque-server")
    if named:
        return named
    source = Path(os.environ.get(SOURCE_VARIABLE) or BESIDE)
    if not source.exists():
        # Not `do_without`: Debian has no package of it, and the tests run against `disque_protocol` all the same.
        import pytest

        pytest.skip(f"no Disque: no disque-server on PATH, and neither {PROGRAM_VARIABLE} nor {SOURCE_VARIABLE} is set")
    if shutil.which("make") is None or shutil.which("cc") is None:
        do_without("building Disque needs make and cc")
    return str(_built(source))


def _built(source: Path) -> Path:
    """Builds it once for each source, in the folder for temporary files."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"pyworkers-disque-{digest}")
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of this test run wait for the build
        found = next(folder.glob("*/src/disque-server"), None)
        if found is None:
            archives.unpack(source, folder)
            [root] = [path.parent.parent for path in folder.glob("*/src/Makefile")]
            done = subprocess.run(
                ["make", "-j2", "MALLOC=libc"], cwd=root, capture_output=True, text=True, timeout=BUILD_S
            )
            assert done.returncode == 0, f"Disque cannot be built: {done.stderr[-2000:]}"
            found = root / "src/disque-server"
    return found


class DisqueServer(Killable):
    """A disque-server on 127.0.0.1 with its own directory. It keeps its port for life, and what it holds is gone when
    it is killed, unless `appendonly` is yes. `program` None: the server of our own."""

    def __init__(self, program: str | None, **options: str) -> None:
        check_allowed()
        self._program, self._options = program, options
        self._directory = Path(tempfile.mkdtemp(prefix="pyworkers-disque-server-"))
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"disque://127.0.0.1:{self.port}"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0), protocol=2)

    def start(self) -> None:
        """Returns when the server answers. It also listens at its port + 10,000, for the other nodes."""
        deadline = time.monotonic() + START_S
        while True:
            port = self.port or free_port()
            self._process = self._launch(port)
            if self._answers(port, deadline):
                self.port = port
                return
            self.kill()
            assert time.monotonic() < deadline, (self._directory / "log").read_text()

    def _launch(self, port: int) -> subprocess.Popen[bytes]:
        if self._program is None:
            command = [sys.executable, disque_protocol.__file__, str(port)]
        else:
            said = {"port": str(port), "bind": "127.0.0.1", "appendfsync": "no", **self._options}
            command = [self._program, *(word for name, value in said.items() for word in (f"--{name}", value))]
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _answers(self, port: int, deadline: float) -> bool:
        """False if the process ended or does not answer in time. Another server on its port does not count."""
        assert self._process is not None
        with redis.Redis(port=port, retry=Retry(NoBackoff(), 0), protocol=2) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    if client.info("server")["process_id"] == self._process.pid:
                        return True
                except redis.RedisError:
                    pass  # does not listen yet
                time.sleep(0.01)
        return False

    def forget_jobs(self) -> None:
        with self.client() as client:
            client.execute_command("DEBUG", "FLUSHALL")

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


if __name__ == "__main__":  # CI builds it before the tests, whose time is limited
    if BESIDE.exists():
        print(_built(BESIDE))
