"""Interrupts a job that is cancelled while it runs, or was given to another process: throws JobCancelled or LeaseLost
into its thread, or cancels its asyncio task.

The exception strikes no other job. The thread that cancels sets `message.cancel`, holds up the job's thread, then reads
`message.held`. The job's thread sets `message.held` to None when the job's code has ended, then reads `message.cancel`.
So at least one of the two sees what the other one has set: either nothing is thrown any more, or the job's thread waits
until it is thrown, and meets the exception before it goes on, see `core.strikes`.
"""

from __future__ import annotations

from collections.abc import Iterable

from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.strikes import Lock, target_of
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

_CANCELLING = Lock()


def lose(deliveries: Iterable[Delivery], registry: Registry) -> None:
    """From any thread: these jobs were given to another process."""
    for delivery in deliveries:
        if (message := delivery.message) is not None:
            cancel(message, CancelRequest(retry=False, lost=True), registry.is_interrupted_by_cancel(message))


def cancel(message: Message, request: CancelRequest, interruptible: bool) -> None:
    """From any thread. Once for each run."""
    with _CANCELLING:
        if message.cancel is not None:
            message.cancel.lost = message.cancel.lost or request.lost
            return
        message.cancel = request
        thread = message.thread
        if not thread or not interruptible:
            return  # a run that has not begun looks at `message.cancel` when it begins
        target = target_of(thread)
        with target.held_up():
            if message.held is None:
                return
            if message.interrupt is not None:
                message.interrupt()
            else:
                target.throw(request.error)
