"""Publishes messages, and waits until RabbitMQ has confirmed each: a quorum of the servers has it on disk then.

A message for a queue that is not there comes back before it is confirmed. Then the queue is declared, and the message
is published again. So a queue that exists is used as it is, whoever declared it, and costs no question.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import pika  # type: ignore[import-untyped]

from goworkers_py.brokers.rabbitmq.declarer import Declarer
from goworkers_py.brokers.rabbitmq.link import Link
from goworkers_py.brokers.rabbitmq.names import Message, Names
from goworkers_py.brokers.rabbitmq.question import Question
from goworkers_py.brokers.rabbitmq.request import Request
from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerUnavailable
from goworkers_py.core.strikes import Lock

CONFIRM_S = 10.0
# Longer than a connection takes to be made, or to fail.
ANSWER_S = CONFIRM_S + 10.0
REFUSED_S, REFUSED_FOR_S = 0.2, 2.0


class Publisher:
    """Threads share it. A worker's thread may be struck by an exception at any step: then its messages are with the
    thread of the link, all or none of them."""

    def __init__(self, parameters: Any, names: Names) -> None:
        self._parameters, self._names = parameters, names
        self._lock = Lock()  # for changes of `_link`
        self._link: PublishingLink | None = None

    def publish(self, messages: Sequence[Message]) -> None:
        """Returns when all are confirmed. Raises BrokerUnavailable when some may not be."""
        self.send(Request(messages))

    def send(self, request: Request) -> None:
        """As `publish`. When it raises, `unconfirmed` of the request says which messages may not be published."""
        if not request.messages:
            return
        link = self._serving()
        if link.blocked:
            raise BrokerFull(f"RabbitMQ takes no messages: {link.blocked}")
        began = time.monotonic()
        link.ask(request)
        try:
            error = request.answer.get(timeout=ANSWER_S)
        except Empty:
            error = BrokerUnavailable(f"no confirmation came within {ANSWER_S:g} s")
        if error is not None:
            fresh = again(error)
            fresh.began, fresh.places = began, frozenset(range(len(request.messages))) - request.unconfirmed
            raise fresh

    def begin(self, requests: Sequence[Request]) -> None:
        """Hands them over, and waits for nothing. While RabbitMQ takes no messages, none is handed over."""
        if not requests:
            return
        link = self._serving()
        for request in requests:
            if link.blocked:
                request.end(BrokerFull(f"RabbitMQ takes no messages: {link.blocked}"))
            else:
                link.ask(request)

    def unconfirmed(self, messages: Sequence[Message]) -> str:
        """Why messages that are on their way may not be confirmed yet."""
        link = self._link
        if link is not None and link.blocked:
            return f"RabbitMQ takes no messages: {link.blocked}"
        if not self.serves:
            return "there is no connection to RabbitMQ yet"
        queues = ", ".join(dict.fromkeys(message.queue for message in messages))
        return f"RabbitMQ has not confirmed a message yet, perhaps for want of a leader: for {queues}"

    def check(self) -> None:
        """Raises the error of a connection that cannot be made, or was lost."""
        link = self._serving()
        try:
            link.ready.get(timeout=ANSWER_S)
        except Empty:
            raise BrokerUnavailable(f"no connection was made within {ANSWER_S:g} s") from None
        link.ready.put(None)
        if link.error is not None:
            raise again(link.error)

    def ask(self, question: Question) -> int:
        """Returns the answer of RabbitMQ."""
        link = self._serving()
        link.call(partial(link.begin, question))
        answer = question.wait(link, ANSWER_S)
        if isinstance(answer, BrokerError):
            raise again(answer)
        return answer

    @property
    def serves(self) -> bool:
        """Whether there is a connection now."""
        link = self._link
        return link is not None and link.serves and not link.ready.empty()

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _serving(self) -> PublishingLink:
        link = self._link
        if link is None or not link.serves:
            if link is not None and link.pid != os.getpid():
                self._lock = Lock()  # a thread of the parent may have held it at the fork
                _parents.append(link)
            with self._lock:
                if self._link is link:
                    self._link = PublishingLink(self._parameters, self._names)
                link = self._link
        assert link is not None
        link.start()
        return link


# In a forked child the links of the parent are left alone: to delete one could close what the parent uses.
_parents: list[Link] = []


def again(error: BrokerError) -> BrokerError:
    """The same error for another thread: an exception that is raised twice collects the tracebacks of both."""
    return type(error)(*error.args)


class PublishingLink(Link):
    def __init__(self, parameters: Any, names: Names) -> None:
        super().__init__(parameters, "publisher")
        self._names = names
        self.blocked = ""  # why the server takes no messages now
        self.ready: SimpleQueue[None] = SimpleQueue()  # holds one item when the link can publish, or has ended
        self._requests: deque[Request] = deque()  # any thread appends, the link's takes
        # The link's thread only:
        self._channel: Any = None
        self._declarer: Declarer | None = None
        self._questions: list[Question] = []  # that wait for the connection
        self._tags = itertools.count(1)
        self._numbers = itertools.count()
        self._nonce = secrets.token_hex(6)
        self._open: set[Request] = set()  # taken and not decided
        # By delivery tag, in their order: a message by its place, and its id.
        self._unconfirmed: dict[int, tuple[Request, int, str]] = {}
        self._returned: set[str] = set()  # the ids of messages that found no queue

    def ask(self, request: Request) -> None:
        self._requests.append(request)
        self.call(self._take)
        if self.error is not None:  # it may have ended before the request was there: nobody took it
            request.end(self.error)

    # --- the thread

    def begin(self, question: Question) -> None:
        if self._channel is None:
            self._questions.append(question)
        else:
            question.begin(self._connection)

    def opened(self, connection: Any) -> None:
        self._connection = connection
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        self._declarer = Declarer(connection, self._names, self._version(), self._unanswered)
        connection.channel(on_open_callback=self._on_channel)

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason)

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self.blocked = ""

    def _unanswered(self, error: BrokerError) -> None:
        if not self.blocked:  # else the server reads nothing now, and answers later
            self._end(error)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(lambda channel, reason: self._end(reason))
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=lambda frame: self._on_ready(channel))

    def _on_ready(self, channel: Any) -> None:
        self._channel = channel
        self.ready.put(None)
        self._take()
        for question in self._questions:
            question.begin(self._connection)
        self._questions.clear()

    def _take(self) -> None:
        while self._channel is not None and self._requests:
            request = self._requests.popleft()
            self._open.add(request)
            for place, message in enumerate(request.messages):
                if message.delay_ms:
                    self._declare_then(request, place)
                else:
                    self._publish(request, place)

    def _publish(self, request: Request, place: int) -> None:
        if not self._channel.is_open:
            return  # `ended` answers
        message = request.messages[place]
        number = f"{self._nonce}-{next(self._numbers)}"
        properties = pika.BasicProperties(delivery_mode=2, message_id=number, headers=message.headers)
        exchange = self._names.delays if message.delay_ms else ""
        self._unconfirmed[next(self._tags)] = (request, place, number)
        try:
            self._channel.basic_publish(exchange, message.queue, message.body, properties, mandatory=True)
        except Exception as error:
            self._end(error)

    def _declare_then(self, request: Request, place: int) -> None:
        """Publishes when the queues of the message are there."""
        assert self._declarer is not None
        publish, fail = partial(self._publish, request, place), partial(self._decide, request, place)
        self._declarer.declare(request.messages[place], publish, fail)

    def _decide(self, request: Request, place: int, error: BrokerError | None = None) -> None:
        request.decide(place, error)
        if request.undecided == 0:
            self._open.discard(request)

    def _on_return(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._returned.add(properties.message_id)

    def _on_confirm(self, frame: Any) -> None:
        tag, refused = frame.method.delivery_tag, frame.method.NAME == "Basic.Nack"
        tags = [tag]
        if frame.method.multiple:
            tags = list(itertools.takewhile(lambda one: one <= tag, self._unconfirmed))
        for one in tags:
            self._confirmed(*self._unconfirmed.pop(one), refused)

    def _confirmed(self, request: Request, place: int, number: str, refused: bool) -> None:
        request.heard += 1
        if refused:
            self._after_refusal(request, place)
        elif number in self._returned:
            self._returned.discard(number)
            assert self._declarer is not None
            self._declarer.forget(request.messages[place])
            self._declare_then(request, place)
        else:
            self._decide(request, place)

    def _after_refusal(self, request: Request, place: int) -> None:
        """RabbitMQ has not stored the message: the queue is full, or has no leader yet, because it is just declared."""
        now = time.monotonic()
        request.refused_at = request.refused_at or now
        if now - request.refused_at > REFUSED_FOR_S:
            queue = request.messages[place].queue
            full = BrokerFull(f"RabbitMQ refused a message for queue {queue}: full, or without a leader")
            self._decide(request, place, full)
        else:
            self._loop.call_later(REFUSED_S, partial(self._publish, request, place))

    def ended(self, error: BrokerError) -> None:
        """`error` is set before: a request that comes from now on is answered by `ask`."""
        self.ready.put(None)
        while self._requests:
            self._open.add(self._requests.popleft())
        for request in self._open:
            request.end(translated(error))
        if self._declarer is not None:
            self._declarer.fail_all(error)
