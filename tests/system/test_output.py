"""Log lines that nobody reads, or for which there is no space: a thread that logs never waits long."""

from __future__ import annotations

import fcntl
import os
import re
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from daemon import STOP_S, command, environment
from forks import ended_well, in_child
from waiting import eventually

from goworkers_py.system import output
from goworkers_py.system.output import MOST_KEPT, PATIENCE_S, Output


def dropped(count: int) -> bytes:
    return b"dropped: %d\n" % count


class Pipe:
    """A pipe that is read when the test says so."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.read = b""

    def take(self) -> bytes:
        """All that is there now."""
        while select.select([self.reader], [], [], 0)[0] and (some := os.read(self.reader, 1 << 16)):
            self.read += some
        return self.read

    def takes(self, text: bytes) -> bool:
        return eventually(lambda: text in self.take())

    def close(self) -> None:
        os.close(self.reader)
        with suppress(OSError):
            os.close(self.writer)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@contextmanager
def output_to(descriptor: int, patience_s: float = PATIENCE_S) -> Iterator[Output]:
    out = Output(descriptor, dropped, patience_s)
    try:
        yield out
    finally:
        out.close()


def numbered(number: int) -> bytes:
    return b"%08d %s\n" % (number, b"x" * 100)


def check_account(read: bytes, written: int) -> int:
    """Every line is there or counted, in order. How many are counted."""
    expected = missing = 0
    for line in read.splitlines():
        if line.startswith(b"dropped"):
            expected += int(line.split()[1])
            missing += int(line.split()[1])
        else:
            assert int(line[:8]) == expected
            expected += 1
    assert expected == written
    return missing


def test_a_line_is_written_when_the_call_returns(pipe: Pipe) -> None:
    with output_to(pipe.writer) as out:
        out.write(b"a\n")
        assert pipe.take() == b"a\n"
        assert os.get_blocking(pipe.writer)  # others write there too


def test_lines_that_nobody_reads_are_kept_and_dropped_with_a_count(pipe: Pipe) -> None:
    count = 2 * MOST_KEPT // len(numbered(0))
    with output_to(pipe.writer) as out:
        for number in range(count):
            out.write(numbered(number))
        assert eventually(lambda: pipe.take() and not out._kept)
        out.write(numbered(count))
        assert pipe.takes(numbered(count))
    assert check_account(pipe.read, count + 1) > 0
    assert pipe.read.count(b"dropped") == 1


def test_the_count_of_dropped_lines_does_not_wait_for_a_later_line(pipe: Pipe) -> None:
    count = 2 * MOST_KEPT // len(numbered(0))
    with output_to(pipe.writer) as out:
        for number in range(count):
            out.write(numbered(number))
        assert eventually(lambda: b"dropped" in pipe.take())
    assert check_account(pipe.read, count) > 0


def test_a_slow_reader_gets_all_lines_of_all_threads(pipe: Pipe) -> None:
    def write(name: int) -> None:
        for number in range(10_000):
            out.write(b"%d %d %s\n" % (name, number, b"x" * 100))

    with output_to(pipe.writer, patience_s=60) as out:  # the machine may be slow too
        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: pipe.take().count(b"\n") == 40_000)
        for thread in threads:
            thread.join()
    lines = [tuple(map(int, line.split()[:2])) for line in pipe.read.splitlines()]
    for name in range(4):
        assert [number for of, number in lines if of == name] == list(range(10_000))


def test_a_long_line_is_written_whole(pipe: Pipe) -> None:
    lines = [b"a" * 300_000 + b"\n", b"b\n"]
    with output_to(pipe.writer) as out:
        for line in lines:
            out.write(line)
        assert eventually(lambda: pipe.take() == b"".join(lines))


def test_no_line_of_another_thread_comes_into_a_long_one(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    long, other = b"a" * 300_000 + b"\n", b"b\n"
    parts: list[int] = []
    met = threading.Event()
    with output_to(pipe.writer) as out:
        put = out._put

        def put_and_meet_another(line: bytes) -> int:
            written = put(line)
            if written < len(long) and not parts:
                parts.append(written)
                pipe.take()  # there is room again
                out.write(other)
                met.set()
            return written

        monkeypatch.setattr(out, "_put", put_and_meet_another)
        out.write(long)
        assert met.wait(10)
        assert eventually(lambda: pipe.take() == long + other)


def test_a_default_timeout_of_sockets_changes_nothing_about_a_shared_one() -> None:
    ours, theirs = socket.socketpair()
    socket.setdefaulttimeout(5)
    try:
        with ours, theirs, output_to(theirs.fileno()):
            assert os.get_blocking(theirs.fileno())
            os.set_blocking(theirs.fileno(), False)
            with output_to(theirs.fileno()):
                assert not os.get_blocking(theirs.fileno())
    finally:
        socket.setdefaulttimeout(None)


def test_a_socket_that_nobody_reads_holds_up_nobody() -> None:
    """As systemd's journal is one."""
    ours, theirs = socket.socketpair()
    read = bytearray()

    def take() -> bytearray:
        while select.select([ours], [], [], 0)[0]:
            read.extend(ours.recv(1 << 16))
        return read

    with ours, theirs, output_to(theirs.fileno()) as out:
        for number in range(20_000):
            out.write(numbered(number))
        assert eventually(lambda: take() and not out._kept)
        out.write(numbered(20_000))
        assert eventually(lambda: numbered(20_000) in take())
        assert check_account(bytes(read), 20_001) > 0
        assert theirs.getblocking()


@pytest.fixture
def of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that cannot be opened once more, as a descriptor that does not wait."""

    def opened(descriptor: int) -> None:
        raise PermissionError

    monkeypatch.setattr(output, "_Opened", opened)


@pytest.mark.usefixtures("of_another_user")
def test_a_pipe_of_another_user_takes_lines_at_once_while_it_has_room(pipe: Pipe) -> None:
    with output_to(pipe.writer) as out:
        for number in range(20):
            out.write(numbered(number))
        assert check_account(pipe.take(), 20) == 0
        assert not out._has_writer.locked()


@pytest.mark.usefixtures("of_another_user")
def test_a_full_pipe_of_another_user_holds_up_nobody(pipe: Pipe) -> None:
    test_lines_that_nobody_reads_are_kept_and_dropped_with_a_count(pipe)


def test_a_disk_without_space_holds_up_nobody() -> None:
    with Path("/dev/full").open("wb") as full, output_to(full.fileno()) as out:
        for number in range(20_000):
            out.write(numbered(number))
        out.flush()
        assert len(out._kept) <= MOST_KEPT
        assert out._dropped


def test_a_forked_child_does_not_write_what_its_parent_keeps(pipe: Pipe) -> None:
    with output_to(pipe.writer) as out:
        for number in range(2_000):
            out.write(numbered(number))
        assert out._kept
        assert ended_well(in_child(lambda: out.write(b"of the child, and lost\n")))
        assert eventually(lambda: pipe.take() and not out._kept)
        assert ended_well(in_child(lambda: out.write(b"of the second\n")))
        assert pipe.takes(b"of the second\n")
        assert check_account(re.sub(rb"of the .*\n", b"", pipe.read), 2_000) == 0


# --- a daemon

JOBS = """
import logging
import goworkers_py as workers

log = logging.getLogger("jobs")

@workers.job(queue="q", retry_in=lambda *_: 3_600)  # none is due before the test has looked
def chatty(number):
    for _ in range(20):
        log.warning("line of job %d %s", number, "x" * 200)
    if number % 50 == 0:
        raise ValueError("one of fifty")

@workers.job(queue="q")
def last():
    log.warning("the last one")
"""


@contextmanager
def daemon_to(stream: int, directory: Path, redis_url: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    (directory / "jobs.py").write_text(JOBS)
    process = subprocess.Popen(
        command("run", "--redis", redis_url, "-r", "jobs", "-q", "q=4", *flags),
        cwd=directory, env=environment(PYTHONUNBUFFERED=""), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def small(pipe: Pipe) -> Pipe:
    fcntl.fcntl(pipe.writer, 1031, 4096)  # F_SETPIPE_SZ: one page
    return pipe


def done(redis: redis_py.Redis) -> int:
    return int(redis.get("stat:processed") or 0)


@pytest.mark.parametrize("flags", [(), ("--processes", "2"), ("--log-format", "json")], ids=["plain", "two", "json"])
def test_jobs_run_and_the_daemon_stops_while_nobody_reads_its_lines(
    flags: tuple[str, ...], redis_url: str, redis: redis_py.Redis, pipe: Pipe, tmp_path: Path
) -> None:
    with own_app(redis_url) as app, daemon_to(small(pipe).writer, tmp_path, redis_url, *flags) as process:
        for number in range(1, 1_001):
            app.enqueue("q", "chatty", [number])
        assert eventually(lambda: done(redis) == 1_000, 60)
        assert redis.zcard("retry") == 20
        process.terminate()
        assert process.wait(STOP_S) == 0
    assert not redis.exists("queue:q")


def test_a_daemon_says_how_many_lines_were_dropped_once_somebody_reads(
    redis_url: str, redis: redis_py.Redis, pipe: Pipe, tmp_path: Path
) -> None:
    with own_app(redis_url) as app, daemon_to(small(pipe).writer, tmp_path, redis_url) as process:
        os.close(pipe.writer)
        for number in range(1, 1_001):
            app.enqueue("q", "chatty", [number])
        assert eventually(lambda: done(redis) == 1_000, 60)
        assert pipe.takes(b"were dropped here")
        app.enqueue("q", "last", [])
        assert pipe.takes(b"the last one")
        process.terminate()
        assert eventually(lambda: b" INFO: stopped\n" in pipe.take())
        assert process.wait(STOP_S) == 0
    counts = [int(count) for count in re.findall(rb"WARNING: log lines that were dropped here: (\d+);", pipe.read)]
    lines = len(re.findall(rb"line of job \d+ x+\n", pipe.read)) + sum(counts)
    assert counts
    # Of the other lines of jobs and of the daemon some were dropped too.
    assert 20_000 <= lines <= 20_000 + 2 * 1_000 + 20 + 100


def test_a_full_disk_stops_neither_jobs_nor_the_daemon(redis_url: str, redis: redis_py.Redis, tmp_path: Path) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        own_app(redis_url) as app,
        daemon_to(full.fileno(), tmp_path, redis_url) as process,
    ):
        for number in range(1, 101):
            app.enqueue("q", "chatty", [number])
        assert eventually(lambda: done(redis) == 100)
        process.terminate()
        assert process.wait(STOP_S) == 0


PRINTING = """
import goworkers_py as workers

@workers.job(queue="q")
def stuck():
    print("x" * 1_000_000, flush=True)

@workers.job(queue="q")
def tidy():
    print("a little")
"""


@pytest.mark.parametrize("job", ["stuck", "tidy"])
def test_what_jobs_have_printed_does_not_hold_a_stop(
    job: str, redis_url: str, redis: redis_py.Redis, pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "JOBS", PRINTING)
    os.write(small(pipe).writer, b"x" * 4_096)
    with own_app(redis_url) as app, daemon_to(pipe.writer, tmp_path, redis_url, "-t", "1") as process:
        app.enqueue("q", job, [])
        assert eventually(lambda: not redis.exists("queue:q"))
        assert job == "stuck" or eventually(lambda: done(redis) == 1)
        process.terminate()
        assert process.wait(STOP_S) == 0
