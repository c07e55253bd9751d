"""Publishes messages, and waits until RabbitMQ has confirmed each: a quorum of the servers has it on disk then.

A message for a queue that is not there comes back before it is confirmed. Then the queue is declared, and the message
is published again. So a queue that exists is used as it is, whoever declared it, and costs no question.

A message for a queue without a leader stops its channel for 15 seconds, and all that was published there after it. So
when a confirmation does not come, the channel is left to that queue, and the others get another one.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import deque
from collections.abc import Sequence
from functools import partial
from queue import Empty
from typing import Any

import pika  # type: ignore[import-untyped]

from goworkers_py.brokers.rabbitmq.connection import Question, RabbitConnection
from goworkers_py.brokers.rabbitmq.declarer import Declarer
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.translation import is_own_close, translated
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable
from goworkers_py.core.strikes import Lock

CONFIRM_S = 10.0
# Longer than a connection takes to be made, or to fail.
ANSWER_S = CONFIRM_S + 10.0
REFUSED_S, REFUSED_FOR_S = 0.2, 2.0
SOON_S = 0.01
# A channel is left to a queue that has not confirmed a message within this time.
STALLED_S = 1.0
MOST_LANES, KEPT_S = 16, 60.0
# A message that is too large ends its channel, and leaves the others there in doubt. So while the limit of the server
# is not known, those of so many bytes have a channel for themselves.
LARGE = 1_000_000
_TOO_LARGE = re.compile(r"message size (\d+) is larger than configured max size (\d+)")


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
        # Messages by their places. The connection's thread changes this and the next four.
        self.unconfirmed = {*range(len(messages))}
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


class RabbitPublisher:
    """Threads share it. A worker's thread may be struck by an exception at any step: then its messages are with the
    thread of the connection, all or none of them."""

    def __init__(self, parameters: Any, names: Names) -> None:
        self._parameters, self._names = parameters, names
        self._lock = Lock()  # for changes of `_connection`
        self._connection: PublishingConnection | None = None
        self._limit = SizeLimit()

    def publish(self, messages: Sequence[RabbitMessage]) -> None:
        """Returns when all are confirmed. Raises BrokerUnavailable when some may not be."""
        self.send(RabbitRequest(messages))

    def send(self, request: RabbitRequest) -> None:
        """As `publish`. When it raises, `unconfirmed` of the request says which messages may not be published."""
        if not request.messages:
            return
        connection = self._serving()
        if connection.blocked:
            raise BrokerFull(f"RabbitMQ takes no messages: {connection.blocked}")
        began = machine.monotonic()
        connection.ask(request)
        try:
            error = request.answer.get(timeout=ANSWER_S)
        except Empty:
            error = BrokerUnavailable(f"no confirmation came within {ANSWER_S:g} s")
        if error is not None:
            fresh = again(error)
            fresh.began, fresh.places = began, frozenset(range(len(request.messages))) - request.unconfirmed
            raise fresh

    def begin(self, requests: Sequence[RabbitRequest]) -> None:
        """Hands them over, and waits for nothing. While RabbitMQ takes no messages, none is handed over."""
        if not requests:
            return
        connection = self._serving()
        for request in requests:
            if connection.blocked:
                request.end(BrokerFull(f"RabbitMQ takes no messages: {connection.blocked}"))
            else:
                connection.ask(request)

    def unconfirmed(self, messages: Sequence[RabbitMessage]) -> str:
        """Why messages that are on their way may not be confirmed yet."""
        connection = self._connection
        if connection is not None and connection.blocked:
            return f"RabbitMQ takes no messages: {connection.blocked}"
        if not self.serves:
            return "there is no connection to RabbitMQ yet"
        queues = ", ".join(dict.fromkeys(message.queue for message in messages))
        return f"RabbitMQ has not confirmed a message yet, perhaps for want of a leader: for {queues}"

    def check(self) -> None:
        """Raises the error of a connection that cannot be made, or was lost."""
        connection = self._serving()
        try:
            connection.ready.get(timeout=ANSWER_S)
        except Empty:
            raise BrokerUnavailable(f"no connection was made within {ANSWER_S:g} s") from None
        connection.ready.put(None)
        if connection.error is not None:
            raise again(connection.error)

    def ask(self, question: Question) -> int:
        """Returns the answer of RabbitMQ."""
        connection = self._serving()
        connection.call(partial(connection.begin, question))
        answer = question.wait(connection, ANSWER_S)
        if isinstance(answer, BrokerError):
            raise again(answer)
        return answer

    @property
    def serves(self) -> bool:
        """Whether there is a connection now."""
        connection = self._connection
        return connection is not None and connection.serves and not connection.ready.empty()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _serving(self) -> PublishingConnection:
        connection = self._connection
        if connection is None or not connection.serves:
            if connection is not None and connection.pid != os.getpid():
                self._lock = Lock()  # a thread of the parent may have held it at the fork
                _parents.append(connection)
            with self._lock:
                if self._connection is connection:
                    self._connection = PublishingConnection(self._parameters, self._names, self._limit)
                connection = self._connection
        assert connection is not None
        connection.start()
        return connection


# In a forked child the connections of the parent are left alone: to delete one could close what the parent uses.
_parents: list[RabbitConnection] = []


def again(error: BrokerError) -> BrokerError:
    """The same error for another thread: an exception that is raised twice collects the tracebacks of both."""
    return type(error)(*error.args)


class SizeLimit:
    """The largest message that the server takes, once it has said so."""

    def __init__(self) -> None:
        self.most: float = math.inf  # bytes

    def error(self, size: int) -> TooLarge:
        return TooLarge(f"a message of {size} bytes is larger than RabbitMQ takes: max_message_size is {self.most}")


class PublishLane:
    """A channel, and the messages on it that are not confirmed."""

    def __init__(self) -> None:
        self.channel: Any = None
        self._tags = itertools.count(1)
        # By delivery tag, in their order: a message by its place, its id, and when it was published (monotonic).
        self.unconfirmed: dict[int, tuple[RabbitRequest, int, str, float]] = {}
        self.kept_until = 0.0  # monotonic: a message was refused a while ago

    def add(self, request: RabbitRequest, place: int, number: str) -> None:
        self.unconfirmed[next(self._tags)] = (request, place, number, machine.monotonic())

    def oldest(self) -> tuple[RabbitRequest, int, str, float] | None:
        return next(iter(self.unconfirmed.values()), None)


class PublishingConnection(RabbitConnection):
    def __init__(self, parameters: Any, names: Names, limit: SizeLimit) -> None:
        super().__init__(parameters, "publisher")
        self._names, self._limit = names, limit
        self.blocked = ""  # why the server takes no messages now
        # Holds one item when the connection can publish, or has ended.
        self.ready: machine.SimpleQueue[None] = machine.SimpleQueue()
        self._requests: deque[RabbitRequest] = deque()  # any thread appends, the connection's takes
        # The connection's thread only:
        self._lane = PublishLane()  # for all queues but those of `_stalled`
        self._stalled: dict[str, PublishLane] = {}  # by the destination of messages
        self._large: PublishLane | None = None
        self._declarer: Declarer | None = None
        self._questions: list[Question] = []  # that wait for the connection
        self._numbers = itertools.count()
        self._nonce = machine.token_hex(6)
        self._open: set[RabbitRequest] = set()  # taken and not decided
        self._returned: set[str] = set()  # the ids of messages that found no queue

    def ask(self, request: RabbitRequest) -> None:
        self._requests.append(request)
        self.call(self._take)
        if self.error is not None:  # it may have ended before the request was there: nobody took it
            request.end(self.error)

    # --- the thread

    def begin(self, question: Question) -> None:
        if self._lane.channel is None:
            self._questions.append(question)
        else:
            question.begin(self._pika)

    def opened(self, pika_connection: Any) -> None:
        self._pika = pika_connection
        pika_connection.add_on_connection_blocked_callback(self._on_blocked)
        pika_connection.add_on_connection_unblocked_callback(self._on_unblocked)
        self._declarer = Declarer(pika_connection, self._names, self._version(), self._unanswered)
        self._open_lane(self._lane)
        self._loop.call_later(STALLED_S / 2, self._look)

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        """RabbitMQ says so after the first message that it does not take, and takes it when it can again."""
        self.blocked = str(frame.method.reason)
        for request in self._open:
            why = f"RabbitMQ takes no messages: {self.blocked}; it may take those of this push later"
            request.answer.put(BrokerUnavailable(why))

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self.blocked = ""

    def _unanswered(self, error: BrokerError) -> None:
        if not self.blocked:  # else the server reads nothing now, and answers later
            self._end(error)

    def _open_lane(self, lane: PublishLane) -> None:
        def opened(channel: Any) -> None:
            channel.add_on_close_callback(partial(self._on_closed, lane))
            channel.add_on_return_callback(self._on_return)
            channel.confirm_delivery(partial(self._on_confirm, lane), callback=lambda frame: ready(channel))

        def ready(channel: Any) -> None:
            lane.channel = channel
            if lane is self._lane:
                self._on_ready()

        self._pika.channel(on_open_callback=opened)

    def _on_closed(self, lane: PublishLane, channel: Any, reason: Any) -> None:
        if is_own_close(reason):
            return
        found = _TOO_LARGE.search(str(reason))
        if found is None:
            self._end(reason)
            return
        size, self._limit.most = int(found[1]), int(found[2])
        for request, place, _, _ in lane.unconfirmed.values():
            if len(request.messages[place].body) == size:
                self._decide(request, place, self._limit.error(size))
            else:  # it may be there, or not
                self._decide(request, place, BrokerUnavailable("the channel ended before a message was confirmed"))
        lane.unconfirmed.clear()
        self._leave_lane(lane)

    def _leave_lane(self, lane: PublishLane) -> None:
        self._stalled = {queue: other for queue, other in self._stalled.items() if other is not lane}
        if lane is self._large:
            self._large = None
        if lane is self._lane:
            self._lane = PublishLane()
            self._open_lane(self._lane)

    def _on_ready(self) -> None:
        if self.ready.empty():
            self.ready.put(None)
        self._take()
        for question in self._questions:
            question.begin(self._pika)
        self._questions.clear()

    def _take(self) -> None:
        while self._lane.channel is not None and self._requests:
            request = self._requests.popleft()
            self._open.add(request)
            for place, message in enumerate(request.messages):
                if message.delay_ms:
                    self._declare_then(request, place)
                else:
                    self._publish(request, place)

    def _publish(self, request: RabbitRequest, place: int) -> None:
        message = request.messages[place]
        if len(message.body) > self._limit.most:
            self._decide(request, place, self._limit.error(len(message.body)))
            return
        lane = self._lane_for(message)
        if lane.channel is None:  # it is being opened
            self._loop.call_later(SOON_S, partial(self._publish, request, place))
            return
        if not lane.channel.is_open:
            return  # `ended` answers
        number = f"{self._nonce}-{next(self._numbers)}"
        properties = pika.BasicProperties(delivery_mode=2, message_id=number, headers=message.headers)
        exchange = self._names.delays if message.delay_ms else ""
        lane.add(request, place, number)
        try:
            lane.channel.basic_publish(exchange, message.queue, message.body, properties, mandatory=True)
        except Exception as error:
            self._end(error)

    def _destination(self, message: RabbitMessage) -> str:
        return self._names.delay(message.delay_ms) if message.delay_ms else message.queue

    def _lane_for(self, message: RabbitMessage) -> PublishLane:
        if len(message.body) > LARGE and self._limit.most == math.inf:
            if self._large is None:
                self._large = PublishLane()
                self._open_lane(self._large)
            return self._large
        return self._stalled.get(self._destination(message), self._lane)

    def _look(self) -> None:
        """Leaves a channel to the queue for which its oldest message is."""
        if self.error is not None:
            return
        oldest = self._lane.oldest()
        waits = oldest is not None and not self.blocked and machine.monotonic() - oldest[3] > STALLED_S
        if waits and len({*self._stalled.values()}) < MOST_LANES:
            assert oldest is not None
            self._stalled[self._destination(oldest[0].messages[oldest[1]])] = self._lane
            self._lane = PublishLane()
            self._open_lane(self._lane)
        for lane in {*self._stalled.values()}:
            if not lane.unconfirmed and machine.monotonic() > lane.kept_until and lane.channel.is_open:
                lane.channel.close()
                self._leave_lane(lane)
        self._loop.call_later(STALLED_S / 2, self._look)

    def _declare_then(self, request: RabbitRequest, place: int) -> None:
        """Publishes when the queues of the message are there."""
        assert self._declarer is not None
        publish, fail = partial(self._publish, request, place), partial(self._decide, request, place)
        self._declarer.declare(request.messages[place], publish, fail)

    def _decide(self, request: RabbitRequest, place: int, error: BrokerError | None = None) -> None:
        request.decide(place, error)
        if request.undecided == 0:
            self._open.discard(request)

    def _on_return(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._returned.add(properties.message_id)

    def _on_confirm(self, lane: PublishLane, frame: Any) -> None:
        tag, refused = frame.method.delivery_tag, frame.method.NAME == "Basic.Nack"
        tags = [tag]
        if refused:
            lane.kept_until = machine.monotonic() + KEPT_S
        if frame.method.multiple:
            tags = list(itertools.takewhile(lambda earlier: earlier <= tag, lane.unconfirmed))
        for answered in tags:
            request, place, number, _ = lane.unconfirmed.pop(answered)
            self._confirmed(request, place, number, refused)

    def _confirmed(self, request: RabbitRequest, place: int, number: str, refused: bool) -> None:
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

    def _after_refusal(self, request: RabbitRequest, place: int) -> None:
        """RabbitMQ has not stored the message: the queue is full, or has no leader yet, because it is just declared."""
        now = machine.monotonic()
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
