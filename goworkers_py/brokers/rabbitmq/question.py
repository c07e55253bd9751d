"""A question to RabbitMQ about a queue, on a channel of its own: RabbitMQ closes it when there is no such queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import Any

from goworkers_py.brokers.rabbitmq.link import Link
from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable

LOOK_EVERY_S = 0.1
_NOT_FOUND = 404


class Question:
    """The thread of the link calls all but `wait`. No answer comes when its connection ends."""

    def __init__(self, step: Callable[[Any, Callable[[Any], None]], None], number: Callable[[Any], int]) -> None:
        self._step, self._number = step, number
        self._answer: machine.SimpleQueue[int | BrokerError] = machine.SimpleQueue()

    def wait(self, link: Link, timeout_s: float) -> int | BrokerError:
        """In the thread that asks."""
        give_up_at = machine.monotonic() + timeout_s
        while machine.monotonic() < give_up_at:
            try:
                return self._answer.get(timeout=LOOK_EVERY_S)
            except Empty:
                if link.error is not None:
                    return link.error
        return BrokerUnavailable("the server does not answer")

    def begin(self, connection: Any) -> None:
        if connection.is_open:
            connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_closed)
        self._step(channel, partial(self._on_answer, channel))

    def _on_answer(self, channel: Any, frame: Any) -> None:
        self._answer.put(self._number(frame.method))
        channel.close()

    def _on_closed(self, channel: Any, reason: Any) -> None:
        """Also after an answer, when nobody waits any more."""
        self._answer.put(0 if getattr(reason, "reply_code", 0) == _NOT_FOUND else translated(reason))


def count(queue: str) -> Question:
    """How many messages wait in the queue; 0 when there is no such queue."""
    return Question(
        lambda channel, then: channel.queue_declare(queue, passive=True, callback=then),
        lambda method: int(method.message_count),
    )


def delete(queue: str) -> Question:
    return Question(lambda channel, then: channel.queue_delete(queue, callback=then), lambda method: 0)
