"""Several real pyworkers processes on one server. Their jobs write into a file when they run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import redis as redis_py
from apps import job
from daemon import Daemon
from waiting import eventually

JOBS = '''
import ctypes, os, threading, time
from pathlib import Path
import goworkers_py as workers

HERE = Path(os.environ["FLEET"])
MEETINGS = {}
BEGUN = 0

def note(word):
    global BEGUN
    line = f"{word} {workers.current_message().jid} {os.getpid()} {time.monotonic()}\\n"
    file = os.open(HERE / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
    BEGUN += word == "began"

@workers.job("Short", queue="q")
def short(seconds=0):
    note("began")
    time.sleep(seconds)

@workers.job("Gated", queue="q", interrupt=False)
def gated(gate, ending=""):
    """Runs until its gate is opened for all processes or this one, even if it was given to another process. Then fails
    if `ending` is given."""
    note("began")
    while not ((HERE / gate).exists() or (HERE / f"{gate}-{os.getpid()}").exists()):
        time.sleep(0.01)
    note("ended")
    if ending:
        raise RuntimeError(ending)

@workers.job("Clinging", queue="q")
def clinging(seconds):
    """Runs C code that keeps the interpreter's lock (GIL)."""
    note("began")
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))

@workers.job("Meeting", queue="q")
def meeting(name, size):
    """Succeeds when `size` of these jobs run at the same time."""
    barrier = MEETINGS.setdefault(name, threading.Barrier(size))
    barrier.wait(30)
    note("met")

@workers.job("Fatal", queue="q")
def fatal(neighbours):
    """Kills its process once so many other jobs have begun in it; a suspect runs alone and kills at once."""
    note("began")
    suspect = workers.current_message().get("recovered", {}).get("count", 0) >= 2
    while not suspect and BEGUN < neighbours + 1:
        time.sleep(0.01)
    os.kill(os.getpid(), 9)

@workers.on_death
def dead(message, error):
    (HERE / f"death-{message.jid}").write_text(f"{type(error).__name__}: {error}")
'''


class Run(NamedTuple):
    word: str
    jid: str
    pid: int
    at: float  # monotonic time, the same for all processes of a machine


class Fleet(AbstractContextManager["Fleet"]):
    def __init__(self, directory: Path, redis_url: str, redis: redis_py.Redis) -> None:
        self.directory = directory
        self.url = redis_url
        self.redis = redis
        self.daemons: list[Daemon] = []
        self._stack = ExitStack()

    def start(self, *flags: str, prefix: Sequence[str] = (), url: str = "", more: str = "") -> Daemon:
        """Each process has its own folder, so that no process imports a file while it is written."""
        own = self.directory / f"process-{len(self.daemons)}"
        own.mkdir()
        changes = {"FLEET": str(self.directory)}
        daemon = Daemon(own, url or self.url, JOBS + more, *flags, prefix=prefix, changes=changes)
        self.daemons.append(self._stack.enter_context(daemon))
        return daemon

    def push(
        self, jid: str, job_class: str, *args: object, queue: str = "q", first: bool = False, **fields: object
    ) -> None:
        push = self.redis.rpush if first else self.redis.lpush
        push(f"queue:{queue}", job(job_class, *args, jid=jid, queue=queue, **fields))

    def open(self, gate: str) -> None:
        (self.directory / gate).touch()

    @property
    def runs(self) -> list[Run]:
        try:
            text = (self.directory / "runs").read_text()
        except FileNotFoundError:
            return []
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may still be on its way into the file
        return [Run(word, jid, int(pid), float(at)) for word, jid, pid, at in map(str.split, lines)]

    def of(self, word: str, jid: str = "") -> list[Run]:
        return [run for run in self.runs if run.word == word and jid in ("", run.jid)]

    def count(self, word: str) -> Counter[str]:
        """How often each jid has this word."""
        return Counter(run.jid for run in self.of(word))

    def await_run(self, word: str, jid: str, times: int = 1, within_s: float = 20.0) -> Run:
        assert eventually(lambda: len(self.of(word, jid)) >= times, within_s), self.told()
        return self.of(word, jid)[times - 1]

    def lists(self) -> dict[str, list[str]]:
        """Each in-progress list, with its jids."""
        found = {}
        for key in self.redis.keys("queue:*:inprogress"):
            found[key.decode()] = [json.loads(raw)["jid"] for raw in self.redis.lrange(key, 0, -1)]
        return found

    def told(self) -> str:
        return "\n".join([*map(str, self.runs), *(daemon.output for daemon in self.daemons)])

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, redis: redis_py.Redis) -> Iterator[Fleet]:
    """conftest.py imports it for every test."""
    with Fleet(tmp_path, redis_url, redis) as fleet:
        yield fleet
