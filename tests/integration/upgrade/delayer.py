"""Shares a delay queue with programs of another release, by its public names only. It notes each run of a task.

When the file `more-NAME` is there, it pushes tasks that are due later, and says so by the file `pushed-NAME`: the test
kills it before they are.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import goworkers_py as workers

TASKS, LATE = 20, 10
LONGEST_DELAY_S, LATE_S = 2.0, 5.0


def main(directory: Path, redis_url: str, name: str) -> None:
    notes = os.open(directory / "tasks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    dice = random.Random(name)

    def note(params: list[object]) -> None:
        """`params`: the name of the task, and when it is due at the earliest."""
        os.write(notes, f"{name} {params[0]} {time.time() - float(str(params[1])):.6f}\n".encode())

    queue = workers.DelayQueue({"note": note}, workers.RedisPersistence(redis_url, name="mixed"), tick=0.2)
    queue.start()
    for number in range(TASKS):
        delay = dice.uniform(0.1, LONGEST_DELAY_S)
        queue.push(delay, "note", [f"{name}-{number}", time.time() + delay])
    moved = queue.push(3600, "note", [f"{name}-moved", time.time() + LONGEST_DELAY_S])
    assert queue.move(moved, LONGEST_DELAY_S)
    assert queue.cancel(queue.push(LONGEST_DELAY_S, "note", [f"{name}-cancelled", 0.0]))
    more, pushed = directory / f"more-{name}", directory / f"pushed-{name}"
    while not (directory / "enough").exists():
        if more.exists() and not pushed.exists():
            for number in range(TASKS, TASKS + LATE):
                queue.push(LATE_S, "note", [f"{name}-{number}", time.time() + LATE_S])
            pushed.touch()
        time.sleep(0.1)
    queue.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
