"""`pyworkers health`."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
import redis as redis_py
from access_rules import PASSWORD, RULES
from apps import started
from calls import Call
from daemon import Daemon, pyworkers
from gates import gated
from servers import RedisServer
from waiting import eventually

from goworkers_py.core.proc import origin
from goworkers_py.core.timing import Timing
from goworkers_py.observe.health_report import OF_SUSPECT, not_ready

JOBS = """
import threading
import goworkers_py as workers
from goworkers_py.core.timing import Timing

workers.app.timing = Timing(beat_every_s=0.2)
"""


def told(redis_url: str, *flags: str) -> tuple[int, str]:
    done = pyworkers("health", "--redis", redis_url, *flags)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "conf.ini"
    path.write_text("[queue:q]\nconcurrency = 1\n")
    return str(path)


def test_health_says_whether_a_process_fetches_jobs(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path, conf: str
) -> None:
    nobody = (1, "pyworkers: no process on this machine fetches from these queues\n")
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
    assert told(redis_url, "-c", conf) == nobody  # although its lease has not expired


def test_a_fetch_loop_that_stands_still_is_named(redis_url: str, tmp_path: Path) -> None:
    hang = """
from goworkers_py.runtime.alive import health
from goworkers_py.runtime.fetching import fetcher
health.Health.stale_after_s = 0.5
fetcher.Fetcher.run_once = lambda self: threading.Event().wait(None)
"""
    with Daemon(tmp_path, redis_url, JOBS + hang, "-q", "q").ready() as daemon:
        assert eventually(lambda: "fetcher:q stands still for " in told(redis_url)[1]), daemon.output
        assert told(redis_url)[0] == 1


def test_a_process_stopped_by_sigstop_is_reported_before_and_after_its_lease_expires(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path, call: Call
) -> None:
    def health() -> tuple[int, str]:
        done = call("health", "--redis", redis_url)
        return done.returncode, done.stdout

    folder = tmp_path / "daemon"
    folder.mkdir()
    with Daemon(folder, redis_url, JOBS, "-q", "q").ready() as daemon:
        assert eventually(lambda: health()[0] == 0)
        daemon.signal(signal.SIGSTOP)
        [member] = redis.smembers("processes")

        def is_silent() -> bool:  # a last beat may still have been on its way
            redis.hset(member, "beat", int(time.time()) - 30)
            return health()[0] == 1

        assert eventually(is_silent)
        assert re.search(r" sent no beat for \d\d s: it is suspended \(SIGSTOP\)\n$", health()[1])
        assert " sent no beat for " in call("doctor", "--redis", redis_url).stdout
        [lease] = redis.keys("pyworkers:lease:*")
        redis.delete(lease)
        assert health()[0] == 1
        assert health()[1].endswith(" is suspended (SIGSTOP), and its lease has expired\n")
        daemon.signal(signal.SIGCONT)
        assert eventually(lambda: health()[0] == 0), daemon.output
        assert daemon.stop() == 0


@pytest.mark.usefixtures("untraced")  # an exception waits for threads in C code
def test_health_fails_while_stuck_jobs_hold_all_threads_of_a_queue(
    redis_url: str, redis: redis_py.Redis, call: Call
) -> None:
    timing = Timing(beat_every_s=0.05)
    with gated(redis_url, concurrency=2, timing=timing, stuck_spares=1) as (app, gates), started(app) as launcher:
        for name in "ab":
            gates.stuck.enqueue(name)
        # One of the two stuck workers is replaced, so that one thread is free.
        assert eventually(lambda: launcher.health.report()["queues"]["q"]["stuck"] == 1)
        assert not_ready(launcher.health.report()) == ""
        gates.stuck.enqueue("c")
        told = "stuck jobs hold all threads of queue q"
        assert eventually(lambda: not_ready(launcher.health.report()) == told)
        assert eventually(lambda: call("health", "--redis", redis_url).stdout.endswith(f" {told}\n"))
        assert call("health", "--redis", redis_url).returncode == 1
        assert told in call("doctor", "--redis", redis_url, "--skip", "persistence").stdout
        gates.let_out("c")
        assert eventually(lambda: call("health", "--redis", redis_url).returncode == 0)


def test_health_does_not_fail_while_a_suspect_is_in_quarantine(redis_url: str, redis: redis_py.Redis) -> None:
    trouble = f"has begun no other jobs for 30 s, {OF_SUSPECT} class=J jid=1"
    entry = {"queues": {"q": 1}, "trial": "", "trouble": trouble, "origin": origin()}
    redis.hset("pyworkers:owners", "host:1:x", json.dumps(entry))
    redis.set("pyworkers:lease:host:1:x", 1)
    assert told(redis_url) == (0, f"host:1:x {trouble}\n")


def test_a_process_of_another_machine_does_not_count(redis_url: str, redis: redis_py.Redis) -> None:
    for machine, answer in (
        ("elsewhere", (1, "pyworkers: no process on this machine fetches from these queues\n")),
        (origin()["machine"], (0, "host:1:x fetches jobs\n")),
    ):
        entry = {"queues": {"q": 1}, "trial": "", "origin": origin() | {"machine": machine}}
        redis.hset("pyworkers:owners", "host:1:x", json.dumps(entry))
        redis.set("pyworkers:lease:host:1:x", 1)
        assert told(redis_url) == answer


def test_health_needs_no_more_permissions_than_the_daemon(own_redis: RedisServer, tmp_path: Path) -> None:
    own_redis.client().execute_command("ACL", "SETUSER", *RULES)
    url = own_redis.url.replace("//", f"//{RULES[0]}:{PASSWORD}@")
    with Daemon(tmp_path, url, JOBS, "-q", "q").ready() as daemon:
        assert eventually(lambda: told(url)[0] == 0), (daemon.output, told(url))


def test_without_a_server_the_exit_code_is_75(redis_url: str) -> None:
    code, text = told("redis://127.0.0.1:1")
    assert code == 75
    assert text.startswith("pyworkers: no server: ")
