"""A delay queue: a program runs something later by itself, without a daemon, and a restart loses nothing.

See docs/delay-queue.md.
`python reminders.py` pushes three reminders, cancels one, and ends when the others have run.
"""

from __future__ import annotations

import threading
from typing import Any

import goworkers_py as workers

left = threading.Semaphore(0)


def remind(params: Any) -> None:
    print(f"reminding {params['user']}: {params['text']}", flush=True)
    left.release()


if __name__ == "__main__":
    queue = workers.DelayQueue({"remind": remind}, tick=0.1)
    queue.start()  # runs what an earlier run of this program has left
    queue.push(1, "remind", {"user": "ada", "text": "tea is ready"}, "tea")
    queue.push(2, "remind", {"user": "bob", "text": "call ada"}, "call")
    queue.push(600, "remind", {"user": "cy", "text": "never mind"}, "cancelled")
    queue.cancel("cancelled")
    for _ in ("tea", "call"):
        left.acquire()
    queue.stop()
