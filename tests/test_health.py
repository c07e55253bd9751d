"""`pyworkers health`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import redis as redis_py
from daemon import Daemon, pyworkers
from waiting import eventually

JOBS = "import threading\nfrom goworkers_py import heartbeat\nheartbeat.BEAT_EVERY_S = 0.2\n"


def told(redis_url: str, *flags: str) -> tuple[int, str]:
    done = pyworkers("health", "--redis", redis_url, *flags)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "conf.ini"
    path.write_text("[queue:q]\nconcurrency = 1\n")
    return str(path)


def test_it_says_whether_a_process_fetches(redis_url: str, redis: redis_py.Redis, tmp_path: Path, conf: str) -> None:
    nobody = (1, "pyworkers: no process of this machine works these queues\n")
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q").ready() as daemon:
        assert eventually(lambda: told(redis_url, "-c", conf)[0] == 0)
        code, text = told(redis_url)
        assert (code, text.split(" ", 1)[1]) == (0, "fetches jobs\n")
        ((one, *more),) = [json.loads(told(redis_url, "--json")[1])]
        assert (one["queues"], one["trouble"], more) == (["q"], "", [])
        (tmp_path / "other.ini").write_text("[queue:other]\n")
        assert told(redis_url, "-c", str(tmp_path / "other.ini")) == nobody
        daemon.signal(signal.SIGTSTP)
        assert eventually(lambda: told(redis_url)[1].endswith(" quiet\n"))
        assert told(redis_url)[0] == 1
        daemon.kill()
    assert told(redis_url, "-c", conf) == nobody  # its lease runs on


def test_a_fetch_loop_that_stands_still_is_named(redis_url: str, tmp_path: Path) -> None:
    hang = """
from goworkers_py import fetcher, launcher
launcher.STALE_AFTER_S = 0.5
fetcher.Fetcher.run_once = lambda self: threading.Event().wait(None)
"""
    with Daemon(tmp_path, redis_url, JOBS + hang, "-q", "q").ready() as daemon:
        assert eventually(lambda: "fetcher:q stands still for " in told(redis_url)[1]), daemon.output
        assert told(redis_url)[0] == 1


def test_without_a_server_it_is_temporary(redis_url: str) -> None:
    code, text = told("redis://127.0.0.1:1")
    assert code == 75
    assert text.startswith("pyworkers: no server: ")
