"""Real processes and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, job, queue
from daemon import Daemon, environment
from servers import RedisServer
from waiting import eventually

from goworkers_py.system.lifecycle import SAME_REQUEST_S

TERM, INT, TSTP, TTIN = signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGTTIN

JOBS = """
    import os, time
    import goworkers_py as workers

    @workers.job("Quick", queue="q")
    def quick(*args): ...

    @workers.job("Wait", queue="q")
    def wait(name, seconds=60):
        # Waits until a file of that name is there.
        open(f"{name}.runs", "w").close()
        until = time.monotonic() + seconds
        while not os.path.exists(name) and time.monotonic() < until:
            time.sleep(0.01)
        open(f"{name}.ended", "w").close()
"""

# With it, signals are one request however long the machine pauses between them.
ONE_REQUEST = """
from goworkers_py.system.lifecycle import Lifecycle

Lifecycle.__init__.__defaults__ = (60.0,)
"""


class Waiting:
    """The `Wait` jobs that run in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def runs(self, name: str) -> bool:
        return eventually((self._directory / f"{name}.runs").exists)

    def let(self, name: str) -> None:
        (self._directory / name).touch()

    def ended(self, name: str) -> bool:
        return (self._directory / f"{name}.ended").exists()


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


def push(redis: redis_py.Redis, *raws: bytes) -> None:
    redis.lpush("queue:q", *raws)


@pytest.fixture
def daemon(tmp_path: Path, redis_url: str) -> Iterator[Daemon]:
    """One worker, ready, with time enough to finish."""
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-t", "20") as daemon:
        yield daemon.ready()


def hurried(tmp_path: Path, redis_url: str, *flags: str) -> Daemon:
    return Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-t", "0.3", *flags)


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_running_job_is_finished_and_unstarted_ones_go_back_in_order(
    number: signal.Signals, tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting
) -> None:
    conf = tmp_path / "conf.ini"
    conf.write_text("[pyworkers]\ntimeout = 20\n[queue:q]\nconcurrency = 1\nprefetch = 2\n")
    push(redis, job("Wait", "a", jid="1"), *(job("Quick", jid=str(jid)) for jid in range(2, 7)))
    with Daemon(tmp_path, redis_url, JOBS, "-c", str(conf)) as daemon:
        assert waiting.runs("a")
        assert eventually(lambda: len(in_progress(redis)) == 3)
        daemon.signal(number)
        assert eventually(lambda: fields(queue(redis), "jid") == list("23456"))
        assert daemon.process.poll() is None
        waiting.let("a")
        assert daemon.wait() == 0
    assert waiting.ended("a")
    assert fields(queue(redis), "jid") == list("23456")
    assert redis.get("stat:processed") == b"1"
    assert not in_progress(redis)
    assert f"got SIG{number.name[3:]}" in daemon.output
    assert daemon.output.splitlines()[-1].endswith("MainThread INFO: stopped")
    assert "Traceback" not in daemon.output


def test_a_job_longer_than_the_timeout_goes_back_and_is_named_and_the_process_ends_in_time(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting
) -> None:
    push(redis, job("Wait", "a", jid="long"))
    with hurried(tmp_path, redis_url) as daemon:
        assert waiting.runs("a")
        daemon.signal(TERM)
        assert daemon.wait(15) == 0
    assert not waiting.ended("a")
    assert fields(queue(redis), "jid") == ["long"]
    assert not in_progress(redis)
    assert "WARNING: not finished in time, requeued: class=Wait jid=long queue=q" in daemon.output
    assert not redis.exists("stat:processed", "retry", "dead")


def test_a_job_that_cannot_be_interrupted_does_not_keep_the_process_from_ending(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    """Such as one that waits for a thread of its own, or for a pool that the interpreter would wait for at exit."""
    stubborn = """
        import concurrent.futures, threading, time
        import goworkers_py as workers

        @workers.job("Stubborn", queue="q")
        def stubborn():
            with concurrent.futures.ThreadPoolExecutor() as pool:
                pool.submit(open("stubborn.runs", "w").close)
                while True:
                    try:
                        pool.submit(time.sleep, 3600).result()
                    except BaseException:
                        pass
    """
    push(redis, job("Stubborn", jid="stubborn"))
    with Daemon(tmp_path, redis_url, stubborn, "-q", "q=1", "-t", "0.2") as daemon:
        assert Waiting(tmp_path).runs("stubborn")
        daemon.signal(TERM)
        assert daemon.wait(15) == 0
    assert fields(queue(redis), "jid") == ["stubborn"]
    assert daemon.output.splitlines()[-1].endswith("INFO: stopped")


def test_after_a_second_term_a_stop_waits_for_no_job(daemon: Daemon, redis: redis_py.Redis, waiting: Waiting) -> None:
    push(redis, job("Wait", "a", jid="long"))
    assert waiting.runs("a")
    daemon.signal(TERM)
    daemon.says("stopping: running jobs have 20 s to finish")
    time.sleep(SAME_REQUEST_S + 0.1)
    assert daemon.process.poll() is None
    began = time.monotonic()
    daemon.signal(TERM)
    assert daemon.wait() == 0
    assert time.monotonic() - began < 15
    assert fields(queue(redis), "jid") == ["long"]
    daemon.says("asked again to stop: not waiting for running jobs")


@pytest.mark.parametrize("flags", [(), ("--processes", "2")])
def test_ctrl_c_says_once_what_a_second_one_does(flags: tuple[str, ...], tmp_path: Path, redis_url: str) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", *flags) as daemon:
        daemon.ready()
        daemon.signal(INT)
        assert daemon.wait() == 0
    assert daemon.output.count("a second Ctrl-C stops at once, and running jobs go back to their queues") == 1


def test_running_as_root_is_said_once(tmp_path: Path, redis_url: str) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "--processes", "2") as daemon:
        daemon.ready()
        assert daemon.stop() == 0
    assert daemon.output.count("INFO: running as root, and the jobs too: set `user`") == (os.geteuid() == 0)


def test_two_requests_at_once_are_one(tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting) -> None:
    """Terminals, shells and `timeout` signal the process and then its group."""
    push(redis, job("Wait", "a", jid="1"))
    with Daemon(tmp_path, redis_url, textwrap.dedent(JOBS) + ONE_REQUEST, "-q", "q=1", "-t", "20") as daemon:
        daemon.ready()
        assert waiting.runs("a")
        daemon.signal(TERM)
        daemon.signal(INT)
        daemon.says("got SIGTERM")
        daemon.says("got SIGINT")
        daemon.says("stopping: running jobs have 20 s to finish")
        time.sleep(0.3)
        waiting.let("a")
        assert daemon.wait() == 0
    assert waiting.ended("a")
    assert redis.get("stat:processed") == b"1"
    assert "asked again" not in daemon.output


def test_two_requests_at_once_are_one_also_when_the_second_is_noticed_late(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    """It comes as the main thread falls asleep again after the first."""
    jobs = """
        import _thread, logging, os, signal, threading, time
        import goworkers_py as workers

        heard = threading.Semaphore(0)

        class Heard(logging.Filter):
            def filter(self, record):
                if record.getMessage() == "got SIGTERM":
                    heard.release()
                return True

        logging.getLogger("goworkers_py.system.main_loop").addFilter(Heard())

        @workers.job("Twice", queue="q")
        def twice():
            os.kill(os.getpid(), signal.SIGTERM)
            heard.acquire(timeout=10)  # for Python, the second one before that is the same as the first
            time.sleep(0.05)
            _thread.interrupt_main(signal.SIGTERM)
            heard.acquire(timeout=10)
            time.sleep(0.3)
    """
    with Daemon(tmp_path, redis_url, textwrap.dedent(jobs) + ONE_REQUEST, "-q", "q=1", "-t", "20") as daemon:
        daemon.ready()
        time.sleep(0.2)
        push(redis, job("Twice"))
        assert daemon.wait() == 0
    assert daemon.output.count("got SIGTERM") == 2
    assert redis.get("stat:processed") == b"1"
    assert "asked again" not in daemon.output


def test_tstp_quiets_and_term_then_ends(daemon: Daemon, redis: redis_py.Redis, waiting: Waiting) -> None:
    push(redis, job("Wait", "a", jid="1"))
    assert waiting.runs("a")
    daemon.signal(TSTP)
    daemon.says("quiet: no new jobs are fetched")
    push(redis, job("Quick", jid="2"))
    waiting.let("a")
    assert eventually(lambda: redis.get("stat:processed") == b"1")
    time.sleep(0.3)
    assert daemon.process.poll() is None
    assert eventually(lambda: fields(queue(redis), "jid") == ["2"])  # a last fetch may have given it back
    assert daemon.stop() == 0
    assert fields(queue(redis), "jid") == ["2"]
    assert redis.get("stat:processed") == b"1"


def test_ttin_prints_every_threads_stack_with_the_job_that_it_runs(
    daemon: Daemon, redis: redis_py.Redis, waiting: Waiting
) -> None:
    push(redis, job("Wait", "a", jid="abc"))
    assert waiting.runs("a")
    daemon.signal(TTIN)
    daemon.says("thread worker:q:1 runs class=Wait jid=abc queue=q")
    for name in ("fetcher:q", "settler:q", "scheduler", "heartbeat", "recoverer", "watchdog", "launcher", "MainThread"):
        daemon.says(f"thread {name}\n".strip())
    assert ", in wait\n" in daemon.output  # the job's own function
    waiting.let("a")
    assert daemon.stop() == 0
    assert waiting.ended("a")


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_while_it_waits_for_a_server_ends_it(
    number: signal.Signals, tmp_path: Path, own_redis: RedisServer
) -> None:
    own_redis.kill()
    with hurried(tmp_path, own_redis.url) as daemon:
        daemon.says("Redis cannot serve")
        daemon.signal(number)
        assert daemon.wait() == 0
    assert "Traceback" not in daemon.output


@pytest.mark.timeout(180)  # seven starts
def test_a_signal_at_any_moment_of_the_start_ends_it_in_order(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    """Before Python has our handlers in place, SIGTERM ends the process as it ends any."""
    codes = set()
    for delay_ms in range(0, 901, 150):
        push(redis, job("Quick"))
        with hurried(tmp_path, redis_url) as daemon:
            time.sleep(delay_ms / 1000)
            daemon.signal(TERM)
            codes.add(daemon.wait())
        assert not in_progress(redis)
        assert redis.llen("queue:q") + int(redis.get("stat:processed") or 0) == delay_ms // 150 + 1
        assert "Traceback" not in daemon.output
    assert codes <= {0, -TERM}


def test_signals_that_come_while_the_modules_of_jobs_are_imported_are_obeyed_afterwards(
    tmp_path: Path, redis_url: str
) -> None:
    slow = """
    import pathlib, time
    pathlib.Path("importing").touch()
    while not pathlib.Path("gate").exists():
        time.sleep(0.01)
    """
    with Daemon(tmp_path, redis_url, slow, "-q", "q=1", "--logfile", "log") as daemon:
        assert eventually((tmp_path / "importing").exists, 20)
        for number in (signal.SIGUSR2, TTIN, signal.SIGHUP, TSTP, signal.SIGUSR1):
            daemon.signal(number)
        (tmp_path / "gate").touch()
        log = tmp_path / "log"
        assert eventually(lambda: log.exists() and "quiet: no new jobs are fetched" in log.read_text(), 20)
        assert daemon.stop() == 0
    assert "USR2 ignored: there is one process only" in log.read_text()


def test_a_burst_of_signals_is_survived_and_obeyed(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting
) -> None:
    """Equal ones that come too fast are one for the kernel, so it may well be that only one TERM was heard."""
    push(redis, job("Wait", "a", jid="long"))
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-t", "20") as daemon:
        assert waiting.runs("a")
        for number in range(50):
            if daemon.process.poll() is None:
                daemon.signal(TERM if number % 2 else TTIN)
        daemon.says("stopping: ")
        time.sleep(SAME_REQUEST_S + 0.1)
        if daemon.process.poll() is None:  # else the burst itself took so long
            daemon.signal(TERM)
        code = daemon.wait()
        # After a burst that took so long, the last TERM may meet the interpreter at its end, which has no handlers.
        assert code == 0 or (code == -TERM and daemon.says("INFO: stopped"))
    assert fields(queue(redis), "jid") == ["long"]
    assert not in_progress(redis)
    assert "Traceback" not in daemon.output


def test_a_signal_that_comes_as_the_main_thread_falls_asleep_is_not_forgotten(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    """It does not wake that thread. `interrupt_main` does to a sleeping one what the signal does to it then."""
    jobs = """
        import _thread, signal
        import goworkers_py as workers

        @workers.job("Late", queue="q")
        def late():
            _thread.interrupt_main(signal.SIGTERM)
    """
    with Daemon(tmp_path, redis_url, jobs) as daemon:
        daemon.ready()
        time.sleep(0.2)
        push(redis, job("Late"))
        assert daemon.wait() == 0
    daemon.says("got SIGTERM")


def test_a_start_hook_that_fails_ends_the_process_with_its_traceback(tmp_path: Path, redis_url: str) -> None:
    hook = """
        import goworkers_py as workers

        @workers.before_start
        def connect():
            raise LookupError("no model")
    """
    with Daemon(tmp_path, redis_url, hook) as daemon:
        assert daemon.wait() == 1
    daemon.says("CRITICAL: the daemon failed")
    assert "LookupError: no model\n" in daemon.output


def test_what_a_killed_process_had_is_recovered_by_the_next_one_on_this_machine(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting
) -> None:
    push(redis, job("Wait", "a", jid="1"), job("Quick", jid="2"))
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as killed:
        assert waiting.runs("a")
        killed.kill()
    assert "1" in fields(in_progress(redis), "jid")
    waiting.let("a")
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as daemon:
        assert "class=Wait jid=1 queue=q" in daemon.says("recovered from dead process ")
        assert eventually(lambda: redis.get("stat:processed") == b"2")
        assert not in_progress(redis)
        assert daemon.stop() == 0
    assert not queue(redis)


def test_the_name_of_a_killed_process_is_free_at_once_for_the_next_one_on_this_machine(
    tmp_path: Path, redis_url: str
) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "--process", "one") as killed:
        killed.ready().kill()
    with Daemon(tmp_path, redis_url, JOBS, "--process", "one") as daemon:
        assert daemon.ready().stop() == 0


def unshare() -> list[str]:
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=20)
    except OSError as error:
        pytest.skip(f"there is no unshare: {error}")
    if tried.returncode:
        pytest.skip(f"a pid namespace cannot be made here: {tried.stderr.strip()}")
    return prefix


def test_process_1_of_a_container_drains_and_ends(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis, waiting: Waiting
) -> None:
    prefix = unshare()
    push(redis, job("Wait", "a", jid="1"))
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-t", "20", prefix=prefix) as daemon:
        assert " pid=1 " in daemon.ready().says("; stop it with TERM")
        assert waiting.runs("a")
        (inner,) = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text().split()
        os.kill(int(inner), TERM)
        daemon.says("stopping: ")
        assert not waiting.ended("a")
        waiting.let("a")
        assert daemon.wait() == 0
    assert waiting.ended("a")
    assert redis.get("stat:processed") == b"1"
    assert not in_progress(redis)


def test_a_go_workers_program_runs_until_a_signal_and_then_goes_on(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, sys\n"
        "import goworkers_py as workers\n"
        "before = signal.getsignal(signal.SIGTERM)\n"
        f"workers.configure(redis={redis_url!r}, timeout=5)\n"
        "workers.process('q', lambda message: print('ran', message.jid, flush=True), 2)\n"
        "code = workers.run()\n"
        "workers.enqueue('q', 'J', [])\n"
        "print('over', code, signal.getsignal(signal.SIGTERM) == before)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(program)], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        push(redis, job("J", jid="abc"))
        assert process.stdout is not None
        assert process.stdout.readline() == "ran abc\n"
        process.send_signal(TERM)
        assert process.stdout.readline() == "over 0 True\n"
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert redis.llen("queue:q") == 1
