"""Declares the queues that are not there, on channels of its own: RabbitMQ closes a channel on which it refuses one.

First it asks whether there is a queue of that name. A queue that exists is never declared again: somebody else may have
declared it with other arguments, which RabbitMQ would refuse.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from goworkers_py.brokers.rabbitmq.names import DELAY, Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.translation import is_own_close, translated
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.wire import payload

log = logging.getLogger(__name__)

Then = Callable[[], None]
Fail = Callable[[BrokerError], None]
_NOT_FOUND = 404
# A connection has 2047 channels, and many servers allow fewer.
MOST_CHANNELS = 16
# Long for an answer, and less than a push waits, see `publisher.ANSWER_S`.
ANSWER_S = 15.0


class Declarer:
    """Used by the thread of one connection."""

    def __init__(self, pika_connection: Any, names: Names, version: tuple[int, ...], end: Fail) -> None:
        """`end` ends the connection, when the server does not answer."""
        self._pika, self._names, self._version, self._end = pika_connection, names, version, end
        self._known: set[str] = set()
        self._waiting: dict[str, list[tuple[Then, Fail]]] = {}  # by the name of what is being declared
        self._channels: list[Any] = []  # that are open, but for those that were given up
        self._later: deque[Callable[[], None]] = deque()  # steps that wait for a channel

    def declare(self, message: RabbitMessage, then: Then, fail: Fail) -> None:
        """Calls `then` when the queue of the message is there, and the queues through which it comes there."""
        step: Then = then
        if message.delay_ms:
            for declare in (partial(self._delay, message.delay_ms), partial(self._due, message.queue)):
                step = partial(declare, step, fail)
            step = partial(self.queue, self._names.dead, step, fail)
        self.queue(message.queue, step, fail)

    def forget(self, message: RabbitMessage) -> None:
        """The message has found no queue: it was deleted."""
        names = self._names
        self._known -= {message.queue, names.dead, names.due_of(message.queue), names.delay(message.delay_ms)}

    def queue(self, name: str, then: Then, fail: Fail) -> None:
        def ask(channel: Any) -> None:
            channel.queue_declare(name, passive=True, callback=lambda frame: self._done(name, channel))

        def make(channel: Any) -> None:
            arguments = self._names.arguments(name, self._version)
            if self._names.is_foreign(name):
                log.warning(
                    "queue %s of other programs is not there: declaring it as a durable quorum queue with the "
                    "arguments %s; a program that declares it with others is refused (PRECONDITION_FAILED)",
                    name, payload.encode(arguments),
                )  # fmt: skip
            channel.queue_declare(
                name, durable=True, arguments=arguments, callback=lambda frame: self._done(name, channel)
            )

        # With `standby`, a queue that several processes may consume from at once is refused.
        checks = self._names.one_consumer and self._names.holds_jobs(name)
        self._begin(name, make if checks else ask, make, then, fail)

    def _delay(self, delay_ms: int, then: Then, fail: Fail) -> None:
        name, exchange = self._names.delay(delay_ms), self._names.delays

        def ask(channel: Any) -> None:
            channel.queue_bind(name, exchange, "", {DELAY: delay_ms}, callback=lambda frame: self._done(name, channel))

        def make(channel: Any) -> None:
            channel.exchange_declare(exchange, "headers", durable=True)
            channel.queue_declare(
                name, durable=True, arguments=self._names.delay_arguments(delay_ms), callback=lambda frame: ask(channel)
            )

        self._begin(name, ask, make, then, fail)

    def _due(self, queue: str, then: Then, fail: Fail) -> None:
        name, exchange, elsewhere = self._names.due_of(queue), self._names.due, self._names.undeliverable

        def ask(channel: Any) -> None:
            channel.queue_bind(name, exchange, queue, callback=lambda frame: self._done(name, channel))

        def make(channel: Any) -> None:
            channel.exchange_declare(elsewhere, "fanout", durable=True)
            channel.queue_bind(self._names.dead, elsewhere, "", callback=lambda frame: None)
            channel.exchange_declare(exchange, "direct", durable=True, arguments={"alternate-exchange": elsewhere})
            channel.queue_declare(
                name, durable=True, arguments=self._names.due_arguments(), callback=lambda frame: ask(channel)
            )

        self._begin(name, ask, make, then, fail)

    def _begin(
        self, name: str, ask: Callable[[Any], None], make: Callable[[Any], None], then: Then, fail: Fail
    ) -> None:
        if name in self._known:
            then()
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append((then, fail))
        if len(waiting) == 1:
            self._open(name, ask, partial(self._open, name, make, None))

    def _open(self, name: str, step: Callable[[Any], None], on_missing: Callable[[], None] | None) -> None:
        def closed(channel: Any, reason: Any) -> None:
            self._count_out(channel)
            if getattr(reason, "reply_code", 0) == _NOT_FOUND and on_missing is not None:
                on_missing()
            elif name in self._waiting and not is_own_close(reason):
                self._fail(name, translated(reason))  # not for our own close: somebody asks for this name again

        def opened(channel: Any) -> None:
            channel.add_on_close_callback(closed)
            step(channel)

        if len(self._channels) >= MOST_CHANNELS:
            self._later.append(partial(self._open, name, step, on_missing))
            return
        channel = self._pika.channel(on_open_callback=opened)
        self._channels.append(channel)
        self._pika.ioloop.call_later(ANSWER_S, partial(self._check_answer, name, channel))

    def _check_answer(self, name: str, channel: Any) -> None:
        """Each channel is closed after its answer. Without one, nobody could use the queue over this connection."""
        if channel in self._channels:
            self._count_out(channel)
            self._end(BrokerUnavailable(f"the server does not answer whether there is a queue {name}"))

    def _count_out(self, channel: Any) -> None:
        if channel in self._channels:
            self._channels.remove(channel)
            if self._later and self._pika.is_open:
                self._later.popleft()()

    def _done(self, name: str, channel: Any) -> None:
        self._known.add(name)
        channel.close()
        for then, _ in self._waiting.pop(name, []):
            then()

    def _fail(self, name: str, error: BrokerError) -> None:
        for _, fail in self._waiting.pop(name, []):
            fail(error)

    def fail_all(self, error: BrokerError) -> None:
        for name in list(self._waiting):
            self._fail(name, error)
