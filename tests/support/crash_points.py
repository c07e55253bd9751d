"""Daemons that run one atomic job each, and kill themselves at the n-th step of its end.

    python crash_points.py ADDRESS STRIDE OFFSET

A step is a line of goworkers_py or of the Redis driver, in the thread of the worker or of the settler, after the job's
code has returned. Lines that compose a script of Lua are no steps: there are thousands, and all of them are before the
script is sent. The daemon of step n consumes from queue `parents-n`, and its job pushes CHILDREN jobs into queue
`children-n`. Prints `n killed` for each, until one survives, which prints `n survived`.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType, ModuleType
from typing import Any

import redis

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig

CHILDREN = 3
TRACED_FILES = ("/goworkers_py/", "/redis/connection.py")
UNTRACED_FILES = ("/brokers/redis/driver/composition.py", "/brokers/redis/parts.py")
TRACED_THREADS = ("worker:", "settler:")
LONGEST_LIFE_S = 30.0


class Killer:
    """Kills its process at the line with this number, counted from `begin` on."""

    def __init__(self, step: int) -> None:
        self._left = step
        self._counts = False

    def begin(self) -> None:
        self._counts = True

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Called by the interpreter for each new frame of a thread, see `sys.settrace`."""
        if not threading.current_thread().name.startswith(TRACED_THREADS):
            return None
        return self.of_main(frame)

    def of_main(self, frame: FrameType) -> Any:
        """For a program without other threads."""
        file = frame.f_code.co_filename
        return self._line if any(one in file for one in TRACED_FILES) and not file.endswith(UNTRACED_FILES) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self._counts and event == "line":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


def live(address: str, step: int) -> None:
    """The life of one daemon. It returns when its job is settled."""
    app, killer, queue = App(), Killer(step), f"parents-{step}"
    app.configure(broker=address)
    app.use(dataclasses.replace(app.config, queues=(QueueConfig(queue, concurrency=1),)))

    @app.job("Parent", queue=queue, atomic=True)
    def parent() -> None:
        app.enqueue_bulk(f"children-{step}", "Child", [[number] for number in range(CHILDREN)])
        killer.begin()

    parent.enqueue()
    threading.settrace(killer)
    app.start()
    await_settled(address, queue)


def await_settled(
    address: str, *queues: str, has_run: Callable[[], bool] = lambda: True, within_s: float = LONGEST_LIFE_S
) -> None:
    """Returns when what is to run `has_run`, and no job of these queues waits or is in progress.

    It looks in one step of the server: between two, a fetcher may give back a job that no worker takes, unseen by both.
    """
    deadline = time.monotonic() + within_s
    with redis.Redis.from_url(address, decode_responses=True) as client:
        while not has_run() or any(key.split(":")[1] in queues for key in client.keys("queue:*")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the jobs of {queues} were not settled")
            time.sleep(0.005)


def survives(step: int, life: Callable[[], None]) -> bool:
    """Calls `life` in a forked child."""
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"step {step}: exit code {os.WEXITSTATUS(status)}")
        return os.WIFEXITED(status)
    code = 1
    try:
        life()
        code = 0
    finally:
        os._exit(code)


def live_until_one_survives(life: Callable[[int], None], stride: str, offset: str = "0") -> None:
    """Calls `life` for one step after another, each in a forked child. Prints `n killed` for step n, until one
    survives, which prints `n survived`."""
    for step in count(1 + int(offset), int(stride)):
        alive = survives(step, partial(life, step))
        print(step, "survived" if alive else "killed", flush=True)
        if alive:
            return


def lives(program: ModuleType, *arguments: object) -> list[tuple[int, bool]]:
    """Runs such a program. Each step, and whether its process survived."""
    command = [sys.executable, str(program.__file__), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [(int(step), word == "survived") for step, word in map(str.split, done.stdout.splitlines())]


def main(address: str, stride: str, offset: str) -> None:
    live_until_one_survives(partial(live, address), stride, offset)


if __name__ == "__main__":
    main(*sys.argv[1:])
