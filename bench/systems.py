"""The systems that are measured: how each is had, started, filled and looked at. The order is that of the tables."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

import goworkers_py
from bench import environments
from bench.machine import commit
from bench.places import PEERS, ROOT
from goworkers_py.brokers.redis.keys import Keys

QUEUE = "default"
KEYS = Keys()


class System(ABC):
    name: str
    language: str
    about: str  # how its workers are set up
    typical: int  # jobs a second, roughly: how many to fill its queue with
    speaks_wire: bool = False  # reads jobs in Sidekiq's format, so its queue is filled by the benchmark
    version: str = ""

    @abstractmethod
    def install(self) -> None:
        """Raises Unavailable. Sets `version`."""

    @abstractmethod
    def worker(self, url: str, threads: int) -> list[str]: ...

    @abstractmethod
    def client(self) -> list[str]: ...

    @abstractmethod
    def left(self, server: redis.Redis) -> int:
        """Jobs that are not done, those in progress included where the system keeps them on the server."""

    def environment(self, threads: int) -> dict[str, str]:
        return {"PYTHONPATH": str(PEERS), "BENCH_THREADS": str(threads)}


class Ours(System):
    name = "goworkers-py"
    language = "Python"
    about = "`pyworkers run`, one process"
    typical = 40_000
    speaks_wire = True
    jobs = "pyworkers_app"

    def install(self) -> None:
        self.version = f"{goworkers_py.__version__} {commit()}".strip()

    def worker(self, url: str, threads: int, *flags: str) -> list[str]:
        return self.run(url, "-q", f"{QUEUE}={threads}", *flags)

    def run(self, url: str, *flags: str) -> list[str]:
        run = [sys.executable, "-m", "goworkers_py.cli", "run", "--broker", url]
        return [*run, "-r", self.jobs, "--log-level", "warning", *flags]

    def client(self) -> list[str]:
        return [sys.executable, str(PEERS / "pyworkers_app.py")]

    def environment(self, threads: int) -> dict[str, str]:
        return {**super().environment(threads), "PYTHONPATH": os.pathsep.join([str(PEERS), str(ROOT)])}

    def left(self, server: redis.Redis, queues: Sequence[str] = (QUEUE,)) -> int:
        owners = [_text(owner) for owner in server.hkeys(KEYS.owners)]
        with server.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.llen(KEYS.queue(queue))
                for owner in owners:
                    pipe.llen(KEYS.inprogress(queue, owner))
            return sum(pipe.execute())


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode()


@dataclass
class Lengths:
    """How many jobs are left, as the sum of the lengths of lists, hashes and sorted sets."""

    commands: tuple[tuple[str, str], ...]

    def __call__(self, server: redis.Redis) -> int:
        with server.pipeline(transaction=False) as pipe:
            for command in self.commands:
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            return sum(pipe.execute())


class Probe(System):
    """A small program of the benchmark's own, which shows what the server allows."""

    language = "Python"
    speaks_wire = True

    def __init__(self, name: str, typical: int, program: str, owner: str, about: str) -> None:
        self.name, self.typical, self.about = name, typical, about
        self._program, *self._words = program.split()
        self._left = Lengths((("LLEN", KEYS.queue(QUEUE)), ("LLEN", KEYS.inprogress(QUEUE, owner))))

    def install(self) -> None:
        self.version = ""

    def worker(self, url: str, threads: int) -> list[str]:
        return [sys.executable, str(PEERS / self._program), *self._words]

    def client(self) -> list[str]:
        return [sys.executable, str(PEERS / self._program)]

    def left(self, server: redis.Redis) -> int:
        return self._left(server)


class Sidekiq(System):
    name = "sidekiq"
    language = "Ruby"
    about = "one process"
    typical = 5_000
    speaks_wire = True
    _left = Lengths((("LLEN", KEYS.queue(QUEUE)),))

    def install(self) -> None:
        self.version = environments.sidekiq_version()

    def worker(self, url: str, threads: int) -> list[str]:
        return ["sidekiq", "-r", str(PEERS / "sidekiq.rb"), "-q", QUEUE, "-c", str(threads), "-t", "2"]

    def client(self) -> list[str]:
        return ["ruby", str(PEERS / "sidekiq.rb")]

    def left(self, server: redis.Redis) -> int:
        return self._left(server)


class GoProgram(System):
    language = "Go"
    about = "one process"

    def __init__(self, name: str, module: str, typical: int, speaks_wire: bool, *lengths: tuple[str, str]) -> None:
        self.name, self.typical, self.speaks_wire = name, typical, speaks_wire
        self._module = module
        self._left = Lengths(lengths)

    def install(self) -> None:
        self._program = environments.go_programs() / self._module.rpartition("/")[2].replace("go-workers", "goworkers")
        self.version = environments.go_version(self._module)

    def worker(self, url: str, threads: int) -> list[str]:
        return [str(self._program), "work"]

    def client(self) -> list[str]:
        return [str(self._program)]

    def left(self, server: redis.Redis) -> int:
        return self._left(server)


class PythonPeer(System):
    """`command` holds {threads} and {url}; its first word is a program of the environment."""

    language = "Python"

    def __init__(
        self,
        name: str,
        requirements: tuple[str, ...],
        typical: int,
        command: str,
        *lengths: tuple[str, str],
        about: str = "one process",
    ) -> None:
        self.name, self.typical, self.about = name, typical, about
        self._requirements = requirements
        self._command = command
        self._left = Lengths(lengths)
        self._programs = Path()

    def install(self) -> None:
        # The fast parser for everyone.
        self._programs = environments.python_environment(self.name, (*self._requirements, "hiredis"))
        self.version = environments.python_version(self._programs, self.name)

    def worker(self, url: str, threads: int) -> list[str]:
        program, *rest = self._command.format(threads=threads, url=url).split()
        return [str(self._programs / program), *rest]

    def client(self) -> list[str]:
        return [str(self._programs / "python"), str(PEERS / f"{self.name}_app.py")]

    def left(self, server: redis.Redis) -> int:
        return self._left(server)


class Taskiq(PythonPeer):
    def left(self, server: redis.Redis) -> int:
        return sum(group["pending"] + (group["lag"] or 0) for group in server.xinfo_groups("taskiq"))


OURS, SIDEKIQ = Ours(), Sidekiq()
TRANSPORT = Probe(
    "transport", 100_000, "transport.py scripts", "transport",
    "runs nothing: one Python process that moves payloads to an in-progress list and out again, by one script call for "
    "each hundred, each way",
)  # fmt: skip
COMMANDS = Probe(
    "transport-commands", 50_000, "transport.py commands", "transport",
    "the same by pipelines of a hundred single commands",
)  # fmt: skip
BARE = Probe("bare-loop", 4_000, "bare.py work", "bare", "BRPOPLPUSH, run, LREM, one job at a time; one LPUSH to push")
GO_WORKERS = GoProgram(
    "go-workers", "github.com/jrallison/go-workers", 3_000, True,
    ("LLEN", KEYS.queue(QUEUE)), ("LLEN", KEYS.inprogress(QUEUE, "bench")),
)  # fmt: skip
ASYNQ = GoProgram(
    "asynq", "github.com/hibiken/asynq", 5_000, False,
    ("LLEN", "asynq:{default}:pending"), ("LLEN", "asynq:{default}:active"),
)  # fmt: skip
DRAMATIQ = PythonPeer(
    "dramatiq", ("dramatiq[redis]",), 1_400, "dramatiq dramatiq_app --processes 1 --threads {threads}",
    ("HLEN", "dramatiq:default.msgs"),
    about="one process with {threads} threads, and its parent",
)  # fmt: skip
HUEY = PythonPeer(
    "huey", ("huey", "redis"), 1_200, "huey_consumer huey_app.huey -k thread -w {threads} -q",
    ("LLEN", "huey.redis.bench"),
)  # fmt: skip
CELERY = PythonPeer(
    "celery", ("celery[redis]",), 400, "celery -A celery_app worker -P threads -c {threads} -l WARNING",
    ("LLEN", "celery"), ("HLEN", "unacked"),
)  # fmt: skip
RQ = PythonPeer(
    "rq", ("rq",), 80, "rq worker-pool -u {url} -n {threads} -l WARNING default",
    ("LLEN", "rq:queue:default"), ("ZCARD", "rq:wip:default"),
    about="it has no threads: {threads} processes, each of which forks for each job",
)  # fmt: skip
ARQ = PythonPeer(
    "arq", ("arq",), 500, "arq arq_app.WorkerSettings",
    ("ZCARD", "arq:queue"),
    about="coroutines: {threads} at once in one process (its default)",
)  # fmt: skip
TASKIQ = Taskiq(
    "taskiq", ("taskiq", "taskiq-redis"), 1_000,
    "taskiq worker taskiq_app:broker --workers 1 --max-threadpool-threads {threads} --log-level WARNING",
    about="one process with {threads} threads, and its parent; stream broker",
)  # fmt: skip

PEERS_OF_OURS: tuple[System, ...] = (SIDEKIQ, GO_WORKERS, ASYNQ, DRAMATIQ, HUEY, TASKIQ, ARQ, CELERY, RQ)
ALL: tuple[System, ...] = (OURS, TRANSPORT, COMMANDS, BARE, *PEERS_OF_OURS)
