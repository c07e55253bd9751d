"""A question to RabbitMQ about a queue, on a channel of its own: RabbitMQ closes it when there is no such queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core.errors import BrokerError

_NOT_FOUND = 404


class Question:
    """The thread of a link asks it; `answer` gets a number or an error. It gets nothing when the connection ends."""

    def __init__(self, step: Callable[[Any, Callable[[Any], None]], None], number: Callable[[Any], int]) -> None:
        self._step, self._number = step, number
        self.answer: SimpleQueue[int | BrokerError] = SimpleQueue()

    def begin(self, connection: Any) -> None:
        if connection.is_open:
            connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_closed)
        self._step(channel, partial(self._on_answer, channel))

    def _on_answer(self, channel: Any, frame: Any) -> None:
        self.answer.put(self._number(frame.method))
        channel.close()

    def _on_closed(self, channel: Any, reason: Any) -> None:
        """Also after an answer, when nobody waits any more."""
        self.answer.put(0 if getattr(reason, "reply_code", 0) == _NOT_FOUND else translated(reason))


def count(queue: str) -> Question:
    """How many messages wait in the queue; 0 when there is no such queue."""
    return Question(
        lambda channel, then: channel.queue_declare(queue, passive=True, callback=then),
        lambda method: int(method.message_count),
    )


def delete(queue: str) -> Question:
    return Question(lambda channel, then: channel.queue_delete(queue, callback=then), lambda method: 0)
