"""The connection by which a pool consumes from its queues.

RabbitMQ sends jobs by itself, up to the prefetch window of a consumer. The fetcher's thread opens a flow for each
queue, with a window for as many jobs as the fetcher has room for. To widen a flow, another consumer is added to it: a
consumer keeps its window for life. Jobs wait in the inbox of the flow until the fetcher takes them. When it does not
ask for a second, the flow is closed, and the jobs in its inbox go back: another process may be free for them.

With `standby`, a closed flow hands the queue over to another process. So it stays open while this process has jobs of
the queue.

A delivery tag belongs to its connection. When that has ended, RabbitMQ delivers its jobs again, and nothing of it is
acknowledged any more.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from goworkers_py.brokers.rabbitmq.declarer import Declarer
from goworkers_py.brokers.rabbitmq.foreign import is_of_stream, properties_of
from goworkers_py.brokers.rabbitmq.foreign_connection import ForeignConnection, JobConnection
from goworkers_py.brokers.rabbitmq.link import Link
from goworkers_py.brokers.rabbitmq.names import MESSAGE_ID, Message, Names
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.levels import plain_list_of

log = logging.getLogger(__name__)

# A job that nobody asks for goes back after this time.
UNASKED_S = 1.0
# So does one that is asked for while jobs of other queues always go before it: long before the consumer timeout of the
# server, which is 30 minutes, and long after the turn of a queue with a small weight.
UNREACHED_S = 600.0
LOOK_EVERY_S = 0.5
CONSUME_S = 3.0
LEADERLESS_S = 60.0  # while jobs of the pool run, an answer may take so long
END_S = 5.0
LARGEST_WINDOW = 65_535  # of one consumer

Received = tuple[int, bytes, Any]  # delivery tag, body, headers; the Properties of a body of plain format


class Flow:
    """The consumers of one queue."""

    def __init__(self, queue: str, replaced: Flow | None = None) -> None:
        """It takes the place of `replaced`, and has its jobs that nobody has taken yet."""
        self.queue, self.replaces = queue, replaced is not None
        self.is_foreign = bool(plain_list_of(queue))  # other programs publish to it
        self.name = plain_list_of(queue) or queue  # for people
        self.inbox: deque[Received] = deque() if replaced is None else replaced.inbox
        self.window = 0  # of all its consumers; fetcher's thread only, as the next one
        self.consumers = 0
        self.tags: list[str] = []  # of its consumers; link's thread only
        self.is_closed = False  # set by the link's thread; the fetcher opens another flow then
        # `asked_at`, `reached_at`: set by the fetcher's thread, and with `standby` by the link's, in single steps.
        self.asked_at = self.reached_at = self.opened_at = time.monotonic()
        self.came = 0  # link's thread only


class ConsumingLink(Link):
    def __init__(self, parameters: Any, names: Names, bell: SimpleQueue[bool]) -> None:
        """`bell` gets False when a job comes while `awaited` is set, or the connection ends."""
        super().__init__(parameters, "consumer")
        self.connect = ForeignConnection if names.plain else JobConnection
        self._names, self._bell = names, bell
        self.awaited = False  # set by the fetcher's thread
        # Deliveries that were handed out and not settled, by tag, with their flow. The fetcher's thread adds, the
        # settler's removes: each a single step.
        self.held: dict[int, Flow] = {}
        # The link's thread only:
        self._channel: Any = None
        self._declarer: Declarer | None = None
        self._open: dict[str, Flow] = {}  # by queue
        self._before: list[Callable[[], None]] = []  # tasks that wait for the channel
        self._answered_at = 0.0  # monotonic: when the server has last let us consume
        self._unacknowledged: dict[int, None] = {}  # all tags, in the order in which they came

    # --- the fetcher's thread

    def widen(self, flow: Flow, window: int) -> None:
        """Lets so many more jobs come."""
        name = self._names.of(flow.queue)  # here: in the link's thread, its error would end the connection
        flow.window += window
        flow.consumers += 1
        self.call(partial(self._when_ready, partial(self._widen, flow, name, window)))

    def replace(self, flow: Flow, fresh: Flow, window: int) -> None:
        """Ends the consumers of `flow`, whose jobs are held, and lets so many more jobs come to `fresh`."""
        self.widen(fresh, window)
        self.call(partial(self._when_ready, partial(self._end_consumers, flow)))

    def close_flows(self, queues: Iterable[str]) -> None:
        """Returns when no more jobs of these queues come."""
        closed: SimpleQueue[None] = SimpleQueue()
        self.call(partial(self._close_flows, [*queues], lambda: closed.put(None)))
        give_up_at = time.monotonic() + END_S
        while self.error is None:
            try:
                return closed.get(timeout=0.1)
            except Empty:
                if time.monotonic() > give_up_at:
                    raise BrokerUnavailable("the server does not answer") from None
        return None

    # --- the settler's thread

    def finish(self, done: Sequence[int], back: Sequence[int]) -> None:
        """Acknowledges the deliveries `done`. Those that go `back` are at the front of their queue again, the last of
        them first."""
        self.call(partial(self._finish, done, back))

    # --- the link's thread

    def opened(self, connection: Any) -> None:
        self._connection = connection
        self._declarer = Declarer(connection, self._names, self._version(), self._end)
        connection.channel(on_open_callback=self._on_channel)
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(lambda channel, reason: self._end(reason))
        channel.add_on_cancel_callback(self._on_cancelled)
        self._channel = channel
        for task in self._before:
            task()
        self._before.clear()

    def _when_ready(self, task: Callable[[], None]) -> None:
        if self._channel is None:
            self._before.append(task)
        elif self._channel.is_open:
            task()

    def _widen(self, flow: Flow, name: str, window: int) -> None:
        if not flow.is_closed:
            self._open[flow.queue] = flow
            assert self._declarer is not None
            self._declarer.queue(name, partial(self._consume, flow, name, window), self._end)

    def _consume(self, flow: Flow, name: str, window: int) -> None:
        if not flow.is_closed and self._channel.is_open:
            self._channel.basic_qos(
                prefetch_count=min(window, LARGEST_WINDOW)
            )  # of the consumers that begin from now on
            receive = partial(self._receive, flow, flow.inbox.append, self._unacknowledged)
            answered: list[Any] = []
            flow.tags.append(self._channel.basic_consume(name, receive, callback=partial(self._on_answer, answered)))
            check = partial(self._check_answer, flow, answered, time.monotonic())
            self._loop.call_later(CONSUME_S, check)

    def _on_answer(self, answered: list[Any], frame: Any) -> None:
        answered.append(frame)
        self._answered_at = time.monotonic()

    def _check_answer(self, flow: Flow, answered: Sequence[Any], asked_at: float) -> None:
        """A node that has just started may lose the question, because the queue has no leader yet. Questions are
        answered one by one: those of many queues on a slow network take longer than CONSUME_S. With the connection, the
        deliveries that run would end: they would come again, and run twice. So their end is awaited for a while."""
        if answered or flow.is_closed:
            return
        waited_s = time.monotonic() - max(asked_at, self._answered_at)
        if waited_s < CONSUME_S or (self.held and waited_s < LEADERLESS_S):
            pause_s = CONSUME_S - waited_s if waited_s < CONSUME_S else LOOK_EVERY_S
            self._loop.call_later(pause_s, partial(self._check_answer, flow, answered, asked_at))
        else:
            self._end(BrokerUnavailable(f"the server does not let us consume from queue {flow.name}: no leader yet?"))

    def _receive(
        self, flow: Flow, put: Callable[[Received], None], unacknowledged: dict[int, None], channel: Any, method: Any,
        properties: Any, body: bytes,
    ) -> None:  # fmt: skip
        if flow.is_foreign and is_of_stream(properties):
            self._end(BrokerRefused(f"queue {flow.name} is a stream, which keeps no account of what was acknowledged"))
            return
        tag = method.delivery_tag
        unacknowledged[tag] = None
        flow.came += 1
        put((tag, body, properties_of(method, properties) if flow.is_foreign else _headers_of(method, properties)))
        if self.awaited:
            self.awaited = False
            self._bell.put(False)

    def _close_flows(self, queues: Sequence[str], then: Callable[[], None]) -> None:
        """Cancels are answered in order, so the answer to the last one comes after all jobs. pika gives back what comes
        between a cancel and its answer."""
        flows = [flow for queue in queues if (flow := self._open.pop(queue, None)) is not None]
        for flow in flows:
            flow.is_closed = True
        tags = [tag for flow in flows for tag in flow.tags]
        if not tags or not self._channel.is_open:
            then()
            return
        for tag in tags[:-1]:
            self._channel.basic_cancel(tag, callback=lambda frame: None)
        self._channel.basic_cancel(tags[-1], callback=lambda frame: then())

    def _end_consumers(self, flow: Flow) -> None:
        """The jobs that are still on their way to them go back, because pika knows the consumers no more."""
        flow.is_closed = True
        for tag in flow.tags:
            self._channel.basic_cancel(tag, callback=lambda frame: None)

    def _on_cancelled(self, frame: Any) -> None:
        cancelled = frame.method.consumer_tag
        for flow in [flow for flow in self._open.values() if cancelled in flow.tags]:
            flow.tags.remove(cancelled)
            self._close_flows([flow.queue], partial(self._after_cancel, flow))
            log.warning(
                "queue %s: RabbitMQ has cancelled the consumer, because the queue was deleted or has lost its leader; "
                "consuming again", flow.name,
            )  # fmt: skip

    def _after_cancel(self, flow: Flow) -> None:
        """The flow that the fetcher opens next asks again whether there is such a queue: to consume from one that is
        not there would end the channel, and the leases of all jobs of the pool with it."""
        assert self._declarer is not None
        self._declarer.forget(Message(self._names.of(flow.queue), b""))
        self._give_back(flow.inbox)
        self._bell.put(False)

    def _look(self) -> None:
        """Closes flows with jobs that nobody asks for."""
        now = time.monotonic()
        in_use = {*self.held.copy().values()} if self._names.one_consumer else ()
        for flow in list(self._open.values()):
            if flow in in_use:
                flow.asked_at = flow.reached_at = now
            elif flow.inbox and (flow.asked_at < now - UNASKED_S or flow.reached_at < now - UNREACHED_S):
                self._close_flows([flow.queue], partial(self._give_back, flow.inbox))
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def _give_back(self, inbox: deque[Received]) -> None:
        back = []
        while inbox:
            try:
                back.append(inbox.popleft()[0])  # the fetcher's thread takes from it too
            except IndexError:
                break
        self._finish([], back[::-1])

    def _finish(self, done: Sequence[int], back: Sequence[int]) -> None:
        if self._channel is None or not self._channel.is_open:
            return
        together, last = set(done), 0
        for tag in self._unacknowledged:
            if tag not in together:
                break
            last = tag
        if last:
            self._channel.basic_ack(last, multiple=True)
        for tag in done:
            if tag > last:
                self._channel.basic_ack(tag)
            del self._unacknowledged[tag]
        for tag in reversed(back):
            self._channel.basic_nack(tag, requeue=True)
            del self._unacknowledged[tag]

    def ended(self, error: BrokerError) -> None:
        for flow in self._open.values():
            flow.is_closed = True
        self._bell.put(False)


def _headers_of(method: Any, properties: Any) -> Any:
    """With the message's id when it comes again: by both its marks are found, see `death_marks`."""
    if not method.redelivered:
        return properties.headers
    return {**(properties.headers or {}), MESSAGE_ID: properties.message_id}
