"""`pyworkers health`."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import redis as redis_py
from apps import started
from calls import Call
from daemon import Daemon, pyworkers
from servers import RedisServer
from test_acl import PASSWORD, RULES
from test_watchdog import gated
from waiting import eventually

from goworkers_py.admin import owners
from goworkers_py.core.proc import origin
from goworkers_py.observe.health_report import OF_SUSPECT, not_ready
from goworkers_py.runtime import heartbeat

JOBS = "import threading\nfrom goworkers_py.runtime import heartbeat\nheartbeat.BEAT_EVERY_S = 0.2\n"


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
from goworkers_py.runtime import fetcher, launcher
launcher.STALE_AFTER_S = 0.5
fetcher.Fetcher.run_once = lambda self: threading.Event().wait(None)
"""
    with Daemon(tmp_path, redis_url, JOBS + hang, "-q", "q").ready() as daemon:
        assert eventually(lambda: "fetcher:q stands still for " in told(redis_url)[1]), daemon.output
        assert told(redis_url)[0] == 1


def test_a_process_that_is_stopped_is_told_before_and_after_its_lease_ends(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "SILENT_AFTER_S", 1.5)

    def health() -> tuple[int, str]:
        done = call("health", "--redis", redis_url)
        return done.returncode, done.stdout

    folder = tmp_path / "daemon"
    folder.mkdir()
    with Daemon(folder, redis_url, JOBS, "-q", "q").ready() as daemon:
        assert eventually(lambda: health()[0] == 0)
        daemon.signal(signal.SIGSTOP)
        assert eventually(lambda: health()[0] == 1)
        assert re.search(r" was not heard of for \d+ s: it is stopped \(SIGSTOP\)\n$", health()[1])
        assert " was not heard of for " in call("doctor", "--redis", redis_url).stdout
        [lease] = redis.keys("pyworkers:lease:*")
        redis.delete(lease)
        assert health()[0] == 1
        assert health()[1].endswith(" is stopped (SIGSTOP), and its lease has expired\n")
        daemon.signal(signal.SIGCONT)
        assert eventually(lambda: health()[0] == 0), daemon.output
        assert daemon.stop() == 0


@pytest.mark.usefixtures("untraced")  # an exception waits for threads in C code
def test_threads_that_are_all_held_by_stuck_jobs_are_told(
    redis_url: str, redis: redis_py.Redis, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.05)
    with gated(redis_url, concurrency=2, stuck_spares=1) as (app, gates), started(app) as launcher:
        for name in "ab":
            gates.stuck.enqueue(name)
        # One of the two is replaced, so that there is a thread for others.
        assert eventually(lambda: launcher.report()["queues"]["q"]["stuck"] == 1)
        assert not_ready(launcher.report()) == ""
        gates.stuck.enqueue("c")
        told = "stuck jobs hold all threads of queue q"
        assert eventually(lambda: not_ready(launcher.report()) == told)
        assert eventually(lambda: call("health", "--redis", redis_url).stdout.endswith(f" {told}\n"))
        assert call("health", "--redis", redis_url).returncode == 1
        assert told in call("doctor", "--redis", redis_url, "--skip", "persistence").stdout
        gates.let_out("c")
        assert eventually(lambda: call("health", "--redis", redis_url).returncode == 0)


def test_a_process_that_waits_for_a_suspect_is_not_to_be_restarted(redis_url: str, redis: redis_py.Redis) -> None:
    trouble = f"has begun no other jobs for 30 s, {OF_SUSPECT} class=J jid=1"
    entry = {"queues": {"q": 1}, "trial": "", "trouble": trouble, "origin": origin()}
    redis.hset("pyworkers:owners", "host:1:x", json.dumps(entry))
    redis.set("pyworkers:lease:host:1:x", 1)
    assert told(redis_url) == (0, f"host:1:x {trouble}\n")


def test_the_daemons_own_user_may_ask_for_it(own_redis: RedisServer, tmp_path: Path) -> None:
    own_redis.client().execute_command("ACL", "SETUSER", *RULES)
    url = own_redis.url.replace("//", f"//{RULES[0]}:{PASSWORD}@")
    with Daemon(tmp_path, url, JOBS, "-q", "q").ready() as daemon:
        assert eventually(lambda: told(url)[0] == 0), (daemon.output, told(url))


def test_without_a_server_it_is_temporary(redis_url: str) -> None:
    code, text = told("redis://127.0.0.1:1")
    assert code == 75
    assert text.startswith("pyworkers: no server: ")
