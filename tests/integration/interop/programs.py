"""The real programs as tests drive them: Sidekiq, go-workers, and our own daemon as a process of its own."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import forked_ruby
import pytest
import redis as redis_py
from daemon import Daemon
from waiting import eventually

HERE = Path(__file__).parent
RUBY, GO = HERE / "ruby", HERE / "go"
JOBS = HERE / "python" / "jobs.py"
CALL_S = 30.0
STOP_S = 30.0
SIDEKIQ_BEGINS = "Running in ruby"  # every version logs that when it heeds TERM

# What every program must hand on unchanged: text beyond ASCII and what Go escapes, numbers that a double cannot hold,
# a float without a fraction (an epoch to Sidekiq 8, milliseconds without its .0), and empty containers.
EXACT: list[Any] = [
    {"name": "Zoë 🚀", "html": "<a href='/'>&</a>", "big": 12345678901234567890123, "at": 1700000000.0},
    [[], {}, None, True, -0.5, ""],
]


def compact(value: Any) -> str:
    """As Ruby and our client write JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def do_without(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def third_party(archive: str) -> Path:
    """Sources of others that are no part of the project: in a folder `shared/third_party` beside it, or further up."""
    for folder in HERE.parents:
        if (found := folder / "shared" / "third_party" / archive).exists():
            return found
    pytest.skip(f"no shared/third_party/{archive} in any folder above")


def call(*command: str | Path) -> list[dict[str, Any]]:
    """Runs a program to its end; returns the JSON lines that it printed."""
    done = forked_ruby.run(command, CALL_S)
    if done is None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S)
    assert done.returncode == 0, f"{command} failed: {done.stdout}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@functools.lru_cache
def sidekiq_version() -> tuple[int, ...]:
    """Empty where Ruby cannot load it."""
    told = subprocess.run(["ruby", "-rsidekiq", "-e", "print Sidekiq::VERSION"], capture_output=True, text=True)
    return tuple(map(int, told.stdout.split("."))) if told.returncode == 0 else ()


def skip_before_sidekiq(major: int, reason: str) -> None:
    if sidekiq_version() < (major,):
        pytest.skip(f"Sidekiq {'.'.join(map(str, sidekiq_version()))} {reason}")


class Background:
    """A Ruby or Go program that works until it is asked to stop, which it must do in time and with exit code 0."""

    def __init__(self, log: Path, command: Sequence[str | Path], begins: str = "", **environment: str) -> None:
        """`begins` is what it says when it has started, which may take long."""
        self._log = log
        self._command = command
        self._begins = begins
        self._environment = {**os.environ, **environment}
        self._wanted_code = 0

    def __enter__(self) -> Background:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        folder = self._log.parent  # has no config/sidekiq.yml
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=self._environment
            )
        eventually(lambda: self._begins in self.output or self._process.poll() is not None, CALL_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        code = self._end()
        if kind is not None or code != self._wanted_code:
            print(f"--- {self._command} ended with {code}:\n{self.output}")
        assert kind is not None or code == self._wanted_code

    def _end(self) -> int:
        try:
            self._process.terminate()
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def says(self, text: str) -> bool:
        return eventually(lambda: text in self.output)

    def wait(self) -> None:
        """For a program that ends by itself."""
        self._process.wait(CALL_S)

    def kill(self) -> None:
        self._process.kill()
        self._wanted_code = self._process.wait()


class Ruby:
    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def produce(self, how: str, *flags: str, **options: Any) -> list[str]:
        """The jids. `options` are Sidekiq's: retry=3, tags=["a"], ..."""
        answer = call("ruby", RUBY / "produce.rb", self._url, how, *flags, "--options", json.dumps(options))
        jids: list[str] = answer[0]["jids"]
        return jids

    def api(self, *words: str) -> list[dict[str, Any]]:
        return call("ruby", RUBY / "api.rb", self._url, *words)

    def sidekiq(self, *queues: str, program: str = "worker.rb") -> Background:
        """A worker process with one thread."""
        command = ["sidekiq", "-r", RUBY / program, "-c", "1", "-t", "2"]
        for queue in queues:
            command += ["-q", queue]
        return Background(self._folder / "sidekiq.log", command, SIDEKIQ_BEGINS, REDIS_URL=self._url)


class GoWorkers:
    def __init__(self, binary: Path, url: str, folder: Path) -> None:
        self.name = binary.name
        self._binary = binary
        self._url = url
        self._folder = folder

    def produce(self, *flags: str) -> list[str]:
        """The jids."""
        jids: list[str] = call(self._binary, self._url, "produce", *flags)[0]["jids"]
        return jids

    def consume(self, *flags: str) -> Background:
        """A worker process with one goroutine a queue."""
        return Background(self._folder / "go.log", [self._binary, self._url, "consume", *flags])

    def consume_to_the_end(self, *flags: str) -> None:
        """With -stop-after, the failed runs settled and the process ended."""
        with self.consume(*flags) as consumer:
            consumer.wait()


# The record of a job that raised, with its traceback, which is indented.
_FAILED = re.compile(r"^\S+ pid=.* ERROR: failed: .*\n(?:[ ].*\n|\n)*", re.MULTILINE)


class PyWorkers:
    """Starts our daemon with the jobs of python/jobs.py."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._terse = folder / "terse"

    @contextmanager
    def __call__(self, *queues: str, **options: Any) -> Iterator[Daemon]:
        """`queues` as the flag has them: "py" or "py=1"."""
        flags = [word for queue in queues for word in ("--queue", queue)]
        for name, value in {"poll_interval": 0.1, "log_level": "warning", **options}.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        places = {"INTEROP_REDIS": self._url, "INTEROP_TERSE": str(self._terse)}
        before = self._leases()
        with Daemon(self._folder, self._url, JOBS.read_text("utf-8"), *flags, changes=places) as daemon:
            try:
                # TERM before a process has begun ends it as it ends any program. It says nothing at this log level.
                assert eventually(lambda: bool(self._leases() - before), 60)
                yield daemon
            except BaseException:
                print(f"--- pyworkers {flags}:\n{daemon.output}")
                raise
            assert daemon.stop() == 0, daemon.output
            output = _FAILED.sub("", daemon.output)
            assert not re.search(r" (ERROR|CRITICAL): |Traceback", output), daemon.output

    def _leases(self) -> set[bytes]:
        with redis_py.Redis.from_url(self._url) as client:
            return set(client.scan_iter("*pyworkers:lease:*"))

    def terse_runs(self) -> list[str]:
        """The payloads that TerseJob ran."""
        return self._terse.read_text("utf-8").splitlines()


def seconds(at: float) -> float:
    """A time of a job, told from the milliseconds of Sidekiq 8 as Sidekiq 8 does."""
    return at / 1000 if isinstance(at, int) else at


def runs(redis: redis_py.Redis, name: str = "ran") -> list[dict[str, Any]]:
    """Returns the entries of `ran` or `raised`. Python's jobs write entries, Ruby and Go write payloads."""
    return [json.loads(line) for line in redis.lrange(name, 0, -1)]


def entries(redis: redis_py.Redis, name: str) -> list[dict[str, Any]]:
    """The jobs in a sorted set, the one that is due first in front."""
    return [json.loads(raw) for raw in redis.zrange(name, 0, -1)]


def make_due(redis: redis_py.Redis, *names: str) -> None:
    for name in names:
        due = dict.fromkeys(redis.zrange(name, 0, -1), 1.0)
        if due:
            redis.zadd(name, due, xx=True)  # what somebody has promoted meanwhile must not come back


def leftovers(redis: redis_py.Redis) -> list[bytes]:
    """Every list and sorted set, but for the records of the runs; what is empty does not exist."""
    keys = [*redis.scan_iter(_type="list"), *redis.scan_iter(_type="zset")]
    return sorted(set(keys) - {b"ran", b"raised"})
