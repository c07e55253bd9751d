"""Messages that are published together, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.rabbitmq.names import RabbitMessage
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerRefused


class TooLarge(BrokerRefused):
    """RabbitMQ takes no message of this size, by any try."""


class RabbitRequest:
    """Messages that are published together, and what the thread that waits for them is told: an error, or None.

    One that is refused holds up the answer until the others are confirmed, so that nobody publishes those again."""

    def __init__(
        self, messages: Sequence[RabbitMessage], over: machine.SimpleQueue[RabbitRequest] | None = None
    ) -> None:
        """`over` gets this request when the answer is there."""
        self.messages, self._over = messages, over
        self.is_over = False  # set after `error`
        self.unconfirmed = {*range(len(messages))}  # by their places; changed by the link's thread, as the next four
        self.heard = 0  # answers to its messages
        self.undecided = len(messages)  # neither confirmed nor refused for good
        self.error: BrokerError | None = None
        self.refused_at = 0.0  # monotonic: when the first of them was refused
        self.answer: machine.SimpleQueue[BrokerError | None] = machine.SimpleQueue()

    def decide(self, place: int, error: BrokerError | None = None) -> None:
        """The message at this place is confirmed, or refused with an error."""
        if error is None:
            self.unconfirmed.discard(place)
        self.error = self.error or error
        self.undecided -= 1
        if self.undecided == 0:
            self.end(self.error)

    def end(self, error: BrokerError | None) -> None:
        self.error = self.error or error
        self.is_over = True
        self.answer.put(error)
        if self._over is not None:
            self._over.put(self)
