"""Exceptions thrown into threads at any moment, signals at any rate, and jobs that make processes of their own."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import random
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue
from daemon import Daemon
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.strikes import Lock, target_of
from goworkers_py.core.timing import Timing
from goworkers_py.observe.log_format import PlainFormatter
from goworkers_py.runtime import assembly, service
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.pool import Pool
from goworkers_py.system import logs

STRIKES = 10_000
SOON = Timing(beat_every_s=0.05, recover_every_s=0.05)

# Beside the fixture below: a socket may be left until the fixtures of a test have ended.
untidy = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

pytestmark = pytest.mark.usefixtures("untraced")


@pytest.fixture
def no_unraisable_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is struck in the middle of connecting leaves a socket to the garbage collector, and a strike may
    end a finalizer. Python calls a hook for these, in the thread that may be struck again: the one of pytest is written
    in Python, and fails the test when it is broken off."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)


class Struck(BaseException):
    """The exception that one thread throws into another."""


def throw(thread: threading.Thread) -> None:
    """As a stranger does: at any moment. From Python 3.14 on such an exception may leave any lock taken, also where a
    `with` takes it; so there it is thrown as this package throws."""
    if sys.version_info >= (3, 14):
        with (target := target_of(thread.ident or 0)).held_up():
            target.throw(Struck)
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Struck))


class Victim(threading.Thread):
    """A thread that repeats one step. An exception may strike it during the step."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__(name="victim")
        self._step = step
        self._lock = threading.Lock()
        self._open = False  # to a strike
        self.enough = threading.Event()
        self.struck = self.outages = 0

    def strike(self) -> bool:
        with self._lock:
            strikes, self._open = self._open, False
            if strikes:
                throw(self)
            return strikes

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                try:
                    self._open = True
                    self._step()
                finally:
                    with self._lock:
                        self._open = False
            except Struck:
                self.struck += 1
            except BrokerUnavailable:
                self.outages += 1


@contextmanager
def struck_at_random(victims: list[Victim]) -> Iterator[None]:
    """Strikes about half of the victims' steps until the end of the block. After it the victims have ended."""

    def strike() -> None:
        chance = random.Random(1)
        while not victims[0].enough.wait(chance.random() * 0.0005):
            chance.choice(victims).strike()

    thrower = threading.Thread(target=strike)
    for thread in (*victims, thrower):
        thread.start()
    try:
        yield
    finally:
        for victim in victims:
            victim.enough.set()
        for thread in (*victims, thrower):
            thread.join()


# --- connections


@pytest.mark.slow
@untidy
@pytest.mark.usefixtures("no_unraisable_hook")
@pytest.mark.timeout(180)
def test_no_command_is_given_the_reply_of_another_whatever_strikes_its_thread(
    redis_url: str, redis: redis_py.Redis
) -> None:
    """Read timeouts and exceptions from outside: those who share connections get their own answers or none."""
    redis.mset({f"key:{number}": f"value:{number}" * 20 for number in range(1_000)})
    wrong: list[object] = []

    def step(chance: random.Random) -> None:
        number = chance.randrange(1_000)
        if chance.random() < 0.6:
            # The server answers at about the moment at which the client gives up.
            commands = [("BLPOP", "nothing", chance.choice((0.001, 0.003))), ("GET", f"key:{number}")]
        else:
            commands = [("GET", f"key:{number}")]
        answer = connections.exchange(commands)[-1]
        if answer != f"value:{number}".encode() * 20:
            wrong.append((number, answer))

    with closing(Connections(f"{redis_url}?socket_timeout=0.002")) as connections:
        victims = [Victim(lambda seed=seed: step(random.Random(time.monotonic() + seed))) for seed in range(12)]
        with struck_at_random(victims):
            assert eventually(lambda: sum(victim.struck + victim.outages for victim in victims) >= STRIKES, 150)
        gc.collect()
        # None is left behind: each thread has given back what it borrowed, or it was closed.
        assert eventually(lambda: ours(redis) <= len(victims))
        assert len(connections._free) <= len(victims)
        assert connections.call("ECHO", "mine") == b"mine"
    assert not wrong
    assert sum(victim.struck for victim in victims) > STRIKES / 10
    assert sum(victim.outages for victim in victims) > STRIKES / 10


def ours(redis: redis_py.Redis) -> int:
    return [client["name"] for client in redis.client_list()].count("pyworkers")


@untidy
@pytest.mark.usefixtures("no_unraisable_hook")
def test_a_blocking_connection_works_again_after_its_thread_was_struck(redis_url: str, redis: redis_py.Redis) -> None:
    counted = iter(range(10**9))
    wrong: list[object] = []

    def step() -> None:
        word = f"word {next(counted)}".encode()
        if line.call("ECHO", word) != word:
            wrong.append(word)

    with closing(Connections(redis_url)) as connections, closing(connections.blocking_line(5)) as line:
        victim = Victim(step)
        with struck_at_random([victim]):
            assert eventually(lambda: victim.struck >= 1_000, 50)
        assert line.call("ECHO", "mine") == b"mine"
    assert not wrong


# --- logging


@pytest.mark.slow
@pytest.mark.parametrize("read", [True, False], ids=["read", "stalled"])
def test_a_thread_that_is_struck_while_it_logs_does_not_silence_the_others(read: bool) -> None:
    ours, theirs = os.pipe()
    handler = logs.Handler(theirs)
    handler.setFormatter(PlainFormatter())
    over = threading.Event()

    def follow() -> None:
        while not over.is_set():
            if (read or over.wait(0.5)) and select.select([ours], [], [], 0.1)[0]:
                os.read(ours, 1 << 16)

    reader, others = threading.Thread(target=follow), threading.Thread(target=lambda: handler.handle(line()))
    reader.start()
    victim = Victim(lambda: handler.handle(line()))
    with struck_at_random([victim]):
        assert eventually(lambda: victim.struck >= 5_000, 50)
    others.start()
    others.join(20)
    assert not others.is_alive()
    read = True
    assert eventually(lambda: not handler._output._kept)
    over.set()
    reader.join()
    handler.close()
    os.close(ours)
    os.close(theirs)


def line() -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "a line " * 100})


# --- workers


@pytest.fixture
def no_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of threads that end by an exception."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)


@pytest.fixture
def own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Collects the log lines, through the handler of the daemon. A strike could leave the handlers of pytest locked:
    here these take their lock in one step."""

    spared = Lock()

    def handle(self: logging.Handler, record: logging.LogRecord) -> bool:
        assert self.lock is not None
        with spared if sys.version_info >= (3, 14) else self.lock:  # see `throw`
            self.emit(record)
        return True

    monkeypatch.setattr(logging.Handler, "handle", handle)
    monkeypatch.setattr(logging.StreamHandler, "flush", lambda handler: handler.stream.flush())
    logger = logging.getLogger("goworkers_py")
    with (tmp_path / "log").open("w") as stream:
        handler = logs.Handler(stream.fileno())
        handler.setFormatter(PlainFormatter())
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield (tmp_path / "log").read_text
        finally:
            logger.propagate = True
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def daemon_of(app: App) -> Iterator[Launcher]:
    """A daemon that goes on soon after a thread of it was struck."""
    launcher = app.runner.launcher()
    services = launcher._services
    services.watchdog.look_every_s = 0.05
    for manager in launcher.managers:
        for one in (*services, services.heartbeat, manager.fetcher, manager._settler, *manager._workers):
            one.pause_after_fault_s = 0.001
    launcher.start(threading.Event())
    try:
        yield launcher
    finally:
        launcher.stop()


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("worker:") and thread.is_alive()]


@untidy
@pytest.mark.usefixtures("no_unraisable_hook", "no_tracebacks")
@pytest.mark.parametrize("jobs", [1_000, pytest.param(3_000, marks=pytest.mark.slow)])
def test_workers_that_are_struck_at_any_moment_go_on_lose_no_job_and_are_as_many_as_before(
    redis_url: str, redis: redis_py.Redis, own_log: Callable[[], str], monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    size = 4
    config = QueueConfig("q", concurrency=size, prefetch=20)
    pool = Pool(PoolConfig.of_one(config))
    monkeypatch.setattr(assembly, "Pool", lambda config, partition: pool)
    ran: list[int] = []
    meeting = threading.Barrier(size)

    def run(message) -> None:
        if message.job_class == "Meeting":
            meeting.wait(30)
        else:
            ran.append(message.args[0])

    with own_app(redis_url, config, timing=SOON, log_level="error") as app:
        app.registry.handle("q", run)
        with daemon_of(app) as launcher:
            chance, struck = random.Random(1), 0
            known: list[threading.Thread] = []
            for number in range(jobs):
                app.enqueue("q", "J", [number])
                # One that is struck while it starts leaves whoever started it waiting, in Python's own code.
                if number % 2 and (alive := [thread for thread in workers() if thread in known]):
                    throw(chance.choice(alive))
                    struck += 1
                known = workers()
                time.sleep(chance.random() * 0.002)

            def told() -> set[int]:
                """The jobs that ran, and those that an exception struck: these wait for their retry."""
                return {*ran, *(args[0] for args in fields(redis.zrange("retry", 0, -1), "args"))}

            def at_rest() -> bool:
                """On a busy machine the first retries are due meanwhile: each leaves this state for a moment."""
                left = queue(redis) or in_progress(redis) or pool.unsettled.snapshot()
                return len(told()) == jobs and not left and pool.buffer.out == 0

            assert eventually(at_rest, 30), (len(told()), queue(redis), in_progress(redis), pool.buffer.out)
            assert eventually(lambda: len(workers()) == size)
            for _ in range(size):
                app.enqueue("q", "Meeting", [])
            assert eventually(lambda: not pool.unsettled.snapshot() and not redis.llen("queue:q"), 30)
            assert not meeting.broken
            assert eventually(lambda: not launcher.health.running)
    assert struck > jobs / 3
    assert len(ran) > jobs / 2


@untidy
@pytest.mark.usefixtures("no_unraisable_hook", "no_tracebacks")
@pytest.mark.parametrize("role", ["worker:q:1", "settler:q", "fetcher:q", "scheduler", "heartbeat", "recoverer"])
def test_a_thread_that_dies_is_replaced(
    redis_url: str, redis: redis_py.Redis, own_log: Callable[[], str], role: str
) -> None:
    """A thread dies when a second exception strikes it while it logs the first one."""

    class Second(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            if record.getMessage() == f"thread {role} failed; starting it again":
                raise Struck
            return True

    def of_role() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == role]

    again, seen = Second(), []
    with own_app(redis_url, QueueConfig("q", concurrency=1), timing=SOON, poll_interval=0.05) as app:
        app.registry.handle("q", lambda message: seen.append(message.args[0]))
        service.log.addFilter(again)
        try:
            with daemon_of(app):
                [first] = of_role()

                def dies() -> bool:
                    throw(first)
                    for number in range(5):  # a thread that waits is struck when it goes on
                        app.enqueue("q", "J", [number])
                    return eventually(lambda: f"thread {role} died; starting a replacement" in own_log(), within_s=10)

                assert any(dies() for _ in range(3))  # what strikes inside of a finalizer is lost
                assert eventually(lambda: set(seen) == set(range(5)))
                assert eventually(lambda: [thread for thread in of_role() if thread is not first])
        finally:
            service.log.removeFilter(again)
    assert not in_progress(redis)


# --- signals


CHATTY = """
import logging, threading, time
import goworkers_py as workers

log = logging.getLogger("chatty")

@workers.job(queue="q")
def chat(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        log.info("a line of some length, of which there are very many")
"""


def test_500_signals_under_heavy_logging_do_not_stop_the_process(redis_url: str, tmp_path: Path) -> None:
    with own_app(redis_url) as app, Daemon(tmp_path, redis_url, CHATTY, "-q", "q=8").ready() as daemon:
        for _ in range(40):
            app.enqueue("q", "chat", [0.5])
        for number in range(250):
            daemon.signal(signal.SIGTTIN)
            daemon.signal(signal.SIGTSTP if number > 200 else signal.SIGTTIN)
            time.sleep(0.005)
        daemon.says("quiet: no new jobs are fetched")
        before = daemon.output.count(" INFO: done")
        daemon.signal(signal.SIGTTIN)
        assert eventually(lambda: daemon.output.count("thread MainThread") > 1)
        assert daemon.stop() == 0
        assert daemon.output.count(" INFO: done") >= before
        assert "INFO: stopped" in daemon.output


# --- processes of the jobs' own


MAKERS = """
import multiprocessing, os, signal, subprocess, sys, time
import goworkers_py as workers

def note(word):
    file = os.open("out", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word}\\n".encode())
    os.close(file)

def fork():
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)  # one that hangs dies of it
    return pid

def wait_for(pid):
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)

@workers.job(queue="q")
def fork_and_return():
    pid = fork()
    if pid == 0:
        workers.enqueue("q2", "FromChild", [])
        return
    assert wait_for(pid) == 0

@workers.job(queue="q")
def fork_and_print():
    pid = fork()
    if pid == 0:
        print("printed by a child")
        return
    assert wait_for(pid) == 0

@workers.job(queue="q")
def fork_and_raise():
    pid = fork()
    if pid == 0:
        raise RuntimeError("of the child")
    assert wait_for(pid) == 1

@workers.job(queue="q")
def fork_and_sys_exit():
    pid = fork()
    if pid == 0:
        sys.exit(7)
    assert wait_for(pid) == 7

@workers.job(queue="q")
def fork_and_exit():
    pid = fork()
    if pid == 0:
        os._exit(3)
    assert wait_for(pid) == 3

@workers.job(queue="q")
async def fork_in_async_code():
    pid = fork()
    if pid == 0:
        return
    assert wait_for(pid) == 0

@workers.job(queue="q")
def fork_between_yields(*, cursor=0):
    pid = fork()
    yield 1
    if pid == 0:
        workers.enqueue("q2", "RestOfRun", [])
        return
    assert wait_for(pid) == 0

@workers.job(queue="q")
def fork_and_terminate():
    pid = fork()
    if pid == 0:
        while True:
            signal.pause()
    os.kill(pid, signal.SIGTERM)
    assert wait_for(pid) == -signal.SIGTERM

@workers.job(queue="one")
def processes(method):
    process = multiprocessing.get_context(method).Process(target=note, args=(method,))
    process.start()
    process.join()
    assert process.exitcode == 0, process.exitcode

@workers.job(queue="q")
def program():
    assert subprocess.run(["echo", "hello"], capture_output=True, check=True).stdout == b"hello\\n"

@workers.job(queue="q")
def terminated_program():
    process = subprocess.Popen(["sleep", "600"])
    process.terminate()
    assert process.wait() == -signal.SIGTERM

@workers.job(queue="noise")
def noise(seconds):
    '''Is in the midst of a print as often as it can, and of a push the rest of the time.'''
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(50):
            print("noise")
            print("noise", file=sys.stderr)
        workers.enqueue("q2", "Noise", [])
"""


def without_noise(output: str) -> str:
    """The output without the noise, and without the start and done lines of runs."""
    return "\n".join(
        line for line in output.splitlines() if not re.search("^noise|class=noise|INFO: (start|done)", line)
    )


@contextmanager
def with_children(directory: Path, redis_url: str, jobs: str, *flags: str) -> Iterator[Daemon]:
    """A daemon in a process group of its own. No process of the group outlives the block."""
    with Daemon(directory, redis_url, jobs, *flags, "-t", "5", prefix=["setsid"]) as daemon:
        try:
            yield daemon.ready()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(daemon.process.pid, signal.SIGKILL)


@pytest.fixture
def makers(redis_url: str, tmp_path: Path) -> Iterator[Daemon]:
    with with_children(tmp_path, redis_url, MAKERS, "-q", "q=4", "-q", "one=1", "-q", "noise=2") as daemon:
        yield daemon


@pytest.mark.timeout(120)
def test_a_job_may_make_processes(redis_url: str, redis: redis_py.Redis, makers: Daemon, tmp_path: Path) -> None:
    """Beside others that do the same. Each child that comes back out of the job's code ends there. multiprocessing is
    used by one thread only: two that use it at a time disturb each other, in any program."""
    kinds = [
        ("fork_and_return", 20),
        ("fork_and_print", 20),
        ("fork_and_raise", 20),
        ("fork_and_sys_exit", 20),
        ("fork_and_exit", 20),
        ("fork_in_async_code", 20),
        ("fork_between_yields", 20),
        ("fork_and_terminate", 20),
        ("program", 20),
        ("terminated_program", 20),
    ]
    jobs = [job_class for job_class, times in kinds for _ in range(times)]
    methods = ["fork"] * 5 + ["forkserver"] * 3 + ["spawn"] * 3
    with own_app(redis_url) as app:
        for _ in range(4):
            app.enqueue("noise", "noise", [1])
        for job_class in jobs:
            app.enqueue("q", job_class, [])
        for method in methods:
            app.enqueue("one", "processes", [method])
    done = str(len(jobs) + len(methods) + 4).encode()
    assert eventually(lambda: redis.get("stat:processed") == done, 100), without_noise(makers.output)
    assert redis.get("stat:failed") is None, without_noise(makers.output)
    assert makers.stop() == 0
    assert fields(queue(redis, "q2"), "class").count("FromChild") == 20
    assert "RestOfRun" not in fields(queue(redis, "q2"), "class")
    assert makers.output.count("printed by a child") == 20
    assert makers.output.count("a job forks, and its process has threads") == 1
    assert "outlive" not in makers.output
    assert sorted((tmp_path / "out").read_text().split()) == methods
    assert not in_progress(redis)


POOL = """
import multiprocessing, os, subprocess
from concurrent.futures import ProcessPoolExecutor
import goworkers_py as workers

@workers.before_start
def make_pool():
    global pool
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))

@workers.job(queue="q")
def double(number):
    assert pool.submit(int.__mul__, number, 2).result() == 2 * number

@workers.job(queue="q")
def leave():
    subprocess.Popen(["sleep", "600"])
"""


def test_a_process_pool_may_serve_all_jobs(redis_url: str, redis: redis_py.Redis, tmp_path: Path) -> None:
    with own_app(redis_url) as app, with_children(tmp_path, redis_url, POOL, "-q", "q=4") as daemon:
        app.enqueue_bulk("q", "double", [[number] for number in range(100)])
        assert eventually(lambda: redis.get("stat:processed") == b"100"), daemon.output
        assert redis.get("stat:failed") is None, daemon.output
        assert daemon.stop() == 0
        assert "forks" not in daemon.output
        assert "outlive" not in daemon.output


def test_child_processes_that_outlive_the_daemon_are_named(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    with own_app(redis_url) as app, with_children(tmp_path, redis_url, POOL, "-q", "q=1") as daemon:
        app.enqueue("q", "leave", [])
        assert eventually(lambda: redis.get("stat:processed") == b"1"), daemon.output
        assert daemon.stop() == 0
        assert re.search(r" WARNING: child processes outlive this process: \d+ \(sleep\);", daemon.output), (
            daemon.output
        )
