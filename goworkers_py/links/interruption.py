"""Interrupts a job that is cancelled while it runs, or was given to another process: throws JobCancelled or LeaseLost
into its thread, or cancels its asyncio task.

No job takes a lock for this, and the exception strikes no other job. The thread that cancels sets `message.cancel`,
then reads `message.held`. The job's thread sets `message.held` to None when the job's code has ended, then reads
`message.cancel`. So at least one of the two sees what the other one has set: either nothing is thrown any more, or the
job's thread waits here until it is thrown, and meets the exception before it goes on.
"""

from __future__ import annotations

import ctypes
import threading

from goworkers_py.core.cancel import CancelRequest
from goworkers_py.wire.message import Message

_LOCK = threading.Lock()


def cancel(message: Message, request: CancelRequest, interruptible: bool) -> None:
    """From any thread. Once for each run."""
    with _LOCK:
        if message.cancel is not None:
            message.cancel.lost = message.cancel.lost or request.lost
            return
        message.cancel = request
        if message.held is None or not interruptible:
            return
        if message.interrupt is not None:
            message.interrupt()
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(message.thread), ctypes.py_object(request.error))


def meet_interruption() -> None:
    """In the job's thread, after the job's code. An exception that was thrown into it is raised here at the latest."""
    with _LOCK:
        pass
    for _ in range(2):  # the interpreter raises it at a jump back, see `Watched.end`
        pass
