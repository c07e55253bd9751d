"""The connection by which a pool consumes from its queues.

RabbitMQ sends jobs by itself, up to the prefetch window of a consumer. The fetcher's thread opens a flow for each
queue, with a window for as many jobs as the fetcher has room for. To widen a flow, another consumer is added to it: a
consumer keeps its window for life. Jobs wait in the inbox of the flow until the fetcher takes them. When it does not
ask for a second, the flow is closed, and the jobs in its inbox go back: another process may be free for them.

With `standby`, a closed flow hands the queue over to another process. So it stays open while this process has jobs of
the queue.

Each flow has a channel of its own. A delivery tag belongs to its channel: when that has ended, RabbitMQ delivers its
jobs again, and nothing of it is acknowledged any more. RabbitMQ ends a channel for one queue only, so the jobs of the
others stay. The channel of a closed flow is closed when its last job is settled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import Empty
from typing import Any

from goworkers_py.brokers.rabbitmq.connection import RabbitConnection, cancel_consumer
from goworkers_py.brokers.rabbitmq.declarer import MOST_CHANNELS, Declarer
from goworkers_py.brokers.rabbitmq.foreign import (
    ForeignSelectConnection,
    JobSelectConnection,
    is_of_stream,
    properties_of,
)
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.translation import is_own_close, translated
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.levels import bare_list_of

log = logging.getLogger(__name__)

# A job that nobody asks for goes back after this time.
UNASKED_S = 1.0
# So does one that is asked for while jobs of other queues always go before it: long before the consumer timeout of a
# server that cannot be asked for more, which is 30 minutes, and long after the turn of a queue with a small weight.
UNREACHED_S = 600.0
LOOK_EVERY_S = 0.5
CONSUME_S = 3.0
END_S = 5.0
LARGEST_WINDOW = 65_535  # of one consumer
# A consumer asks for this time between a delivery and its acknowledgement. From this release on RabbitMQ knows the
# argument; from 4.3 on it refuses it for classic queues, which have no such limit there.
TIMEOUT, LONGEST_RUN_MS, TIMEOUT_SINCE = "x-consumer-timeout", 30 * 86_400_000, (3, 11, 15)
_NOT_FOUND = 404


class Flow:
    """The consumers of one queue."""

    def __init__(self, connection: ConsumingConnection, queue: str, former: Flow | None = None) -> None:
        """It takes the place of a former one, and has the jobs that came over the connection and that nobody has
        taken."""
        self.connection, self.queue = connection, queue
        self.is_foreign = bool(bare_list_of(queue))  # other programs publish to it
        self.name = bare_list_of(queue) or queue  # for people
        inherits = former is not None and former.connection is connection
        self.inbox: deque[Received] = former.inbox if former is not None and inherits else deque()
        # Deliveries that were handed out and not settled, by tag. The fetcher's thread adds, the settler's removes:
        # each a single step.
        self.held: dict[int, Delivery] = {}
        self.window = 0  # of all its consumers; fetcher's thread only, as the next one
        self.consumers = 0
        # `asked_at`, `reached_at`: set by the fetcher's thread, and with `standby` by the connection's, in single
        # steps.
        self.asked_at = self.reached_at = self.opened_at = machine.monotonic()
        # Set by the connection's thread. The fetcher opens another flow in the place of a closed one.
        self.is_closed = False
        self.is_lost = False  # the channel has ended: RabbitMQ delivers the jobs again
        self.is_cancelled = False  # by RabbitMQ, which may have delivered some of the jobs again
        self.error: BrokerError | None = None  # why it was closed
        self.is_answered = False  # the server has let it consume
        self.is_leaderless = False  # the server did not answer
        # The connection's thread only:
        self.channel: Any = None
        self.tags: list[str] = []  # of its consumers
        self.unanswered = 0  # questions whether it may consume
        self.unacknowledged: dict[int, None] = {}  # all delivery tags, in the order in which they came
        self.came = 0
        self.late: list[int] = []  # tags of what came while it was closed already, and a question unanswered
        self.on_closed: Callable[[], None] = _nothing  # called when no more jobs come
        self.waiting: list[Callable[[], None]] = []  # tasks that wait for the channel

    @property
    def is_over(self) -> bool:
        """Whether no more jobs come to it."""
        return self.is_closed or self.connection.error is not None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it can be acknowledged any more."""
        return self.is_lost or self.connection.error is not None

    @property
    def loses(self) -> bool:
        """Whether a delivery of it may come again, though it is held."""
        return self.is_lost or self.is_cancelled or self.connection.error is not None


# The flow and the delivery tag, the body, and what the message says: its id, its headers (the Properties of a bare
# body), and whether it was delivered before.
Received = tuple[Flow, int, bytes, str, Any, bool]
# Of a flow: the deliveries that are done, and those that go back to the front of their queue, the last of them first.
Finished = tuple[Flow, Sequence[int], Sequence[int]]


class ConsumingConnection(RabbitConnection):
    def __init__(self, parameters: Any, names: Names, bell: machine.SimpleQueue[bool]) -> None:
        """`bell` gets False when a job comes while `awaited` is set, or the connection or a flow ends."""
        super().__init__(parameters, "consumer")
        self.connect = ForeignSelectConnection if names.bare_lists else JobSelectConnection
        self._names, self._bell = names, bell
        self.awaited = False  # set by the fetcher's thread
        self.version: tuple[int, ...] = ()  # of the server, once it is connected
        # The connection's thread only:
        self._declarer: Declarer | None = None
        self._open: dict[str, Flow] = {}  # by queue
        self._closed_flows: list[Flow] = []  # whose channels may be open
        self._before: list[Callable[[], None]] = []  # tasks that wait for the connection
        self._answered_at = 0.0  # monotonic: when the server has last let us consume
        self._lost = 0  # jobs of channels that have ended with the connection
        self._unlimited: set[str] = set()  # names of queues that refuse TIMEOUT

    # --- the fetcher's thread

    def widen(self, flow: Flow, window: int) -> None:
        """Lets so many more jobs come."""
        name = self._names.of(flow.queue)  # here: in the connection's thread, its error would end the connection
        flow.window += window
        flow.consumers += 1
        self.call(partial(self._when_ready, partial(self._widen, flow, name, window)))

    def replace(self, flow: Flow, fresh: Flow, window: int) -> None:
        """Ends the consumers of `flow`, whose jobs are held, and lets so many more jobs come to `fresh`."""
        self.widen(fresh, window)
        self.call(partial(self._when_ready, partial(self._close_flow, flow, _nothing)))

    def close_flows(self, queues: Iterable[str]) -> None:
        """Returns when no more jobs of these queues come."""
        closed: machine.SimpleQueue[None] = machine.SimpleQueue()
        self.call(partial(self._close_flows, [*queues], partial(closed.put, None)))
        give_up_at = machine.monotonic() + END_S
        while self.error is None:
            try:
                return closed.get(timeout=0.1)
            except Empty:
                if machine.monotonic() > give_up_at:
                    raise BrokerUnavailable("the server does not answer") from None
        return None

    # --- the settler's thread

    def finish(self, finished: Sequence[Finished]) -> None:
        self.call(partial(self._finish_all, finished))

    # --- the connection's thread

    def opened(self, pika_connection: Any) -> None:
        self._pika = pika_connection
        self._declarer = Declarer(pika_connection, self._names, self._version(), self._unanswered)
        self.version = self._version()
        self._loop.call_later(LOOK_EVERY_S, self._look)
        for task in self._before:
            task()
        self._before.clear()

    @property
    def is_connected(self) -> bool:
        return self._declarer is not None

    def _when_ready(self, task: Callable[[], None]) -> None:
        if self._declarer is None:
            self._before.append(task)
        elif self._pika.is_open:
            task()

    def _unanswered(self, error: BrokerError) -> None:
        """With the connection, the jobs that run would be lost."""
        assert self._declarer is not None
        if self._holds():
            self._declarer.fail_all(error)
        else:
            self._end(error)

    def _holds(self) -> bool:
        return any(flow.held for flow in (*self._open.values(), *self._closed_flows))

    def _widen(self, flow: Flow, name: str, window: int) -> None:
        if not flow.is_closed:
            self._open[flow.queue] = flow
            assert self._declarer is not None
            consume = partial(self._with_channel, flow, partial(self._consume, flow, name, window))
            self._declarer.queue(name, consume, partial(self._fail, flow))

    def _fail(self, flow: Flow, error: BrokerError) -> None:
        flow.error = flow.error or error
        self._close_flow(flow, _nothing)
        self._bell.put(False)

    def _with_channel(self, flow: Flow, task: Callable[[], None]) -> None:
        if flow.channel is not None:
            task()
            return
        if flow.is_closed:
            return
        most = max(1, (self._pika.params.channel_max or LARGEST_WINDOW) - MOST_CHANNELS)
        if len(self._open) + len(self._closed_flows) > most:
            self._fail(flow, BrokerRefused(f"queue {flow.name}: RabbitMQ allows no more than {most} flows at a time"))
            return
        flow.waiting.append(task)
        if len(flow.waiting) == 1:
            self._pika.channel(on_open_callback=partial(self._on_channel, flow))

    def _on_channel(self, flow: Flow, channel: Any) -> None:
        flow.channel = channel
        channel.add_on_close_callback(partial(self._on_channel_closed, flow))
        channel.add_on_cancel_callback(partial(self._on_cancelled, flow))
        for task in flow.waiting:
            task()
        flow.waiting.clear()

    def _on_channel_closed(self, flow: Flow, channel: Any, reason: Any) -> None:
        flow.is_lost = flow.is_closed = True
        if self._open.get(flow.queue) is flow:
            del self._open[flow.queue]
        flow.on_closed()
        if is_own_close(reason) or self.error is not None:
            return
        if not self._pika.is_open:  # it ends all channels, see `ended`
            self._lost += len(flow.held)
            return
        assert self._declarer is not None
        name = self._names.of(flow.queue)
        self._declarer.forget(RabbitMessage(name, b""))  # the next flow asks whether there is such a queue
        if TIMEOUT in str(reason):
            self._unlimited.add(name)
        elif getattr(reason, "reply_code", 0) != _NOT_FOUND:  # else it was deleted, and is declared
            flow.error = flow.error or translated(reason)
        if flow.held:
            log.warning(
                "queue %s: RabbitMQ has closed its channel: %s; it delivers again what is in progress here, which may "
                "run twice: %d jobs", flow.name, flow.error, len(flow.held),
            )  # fmt: skip
        self._bell.put(False)

    def _consume(self, flow: Flow, name: str, window: int) -> None:
        if flow.is_closed or not flow.channel.is_open:
            return
        flow.channel.basic_qos(prefetch_count=min(window, LARGEST_WINDOW))  # of the consumers that begin from now on
        receive = partial(self._receive, flow, flow.inbox.append, flow.unacknowledged)
        asks = self.version >= TIMEOUT_SINCE and name not in self._unlimited
        arguments = {TIMEOUT: LONGEST_RUN_MS} if asks else None
        answered: list[Any] = []
        tell = partial(self._on_answer, flow, answered)
        flow.unanswered += 1
        flow.tags.append(flow.channel.basic_consume(name, receive, arguments=arguments, callback=tell))
        check = partial(self._check_answer, flow, answered, machine.monotonic())
        self._loop.call_later(CONSUME_S, check)

    def _on_answer(self, flow: Flow, answered: list[Any], frame: Any) -> None:
        answered.append(frame)
        flow.unanswered -= 1
        self._answered_at = machine.monotonic()
        flow.is_answered = True
        if flow.is_closed and not flow.unanswered and flow.channel.is_open:
            for tag in list(flow.channel.consumer_tags):
                flow.channel.basic_cancel(tag)

    def _check_answer(self, flow: Flow, answered: Sequence[Any], asked_at: float) -> None:
        """A node that has just started may lose the question, because the queue has no leader yet. Questions are
        answered one by one: those of many queues on a slow network take longer than CONSUME_S."""
        if answered or flow.is_closed:
            return
        left_s = CONSUME_S - (machine.monotonic() - max(asked_at, self._answered_at))
        if left_s > 0:
            self._loop.call_later(left_s, partial(self._check_answer, flow, answered, asked_at))
        elif not flow.is_answered:  # else it consumes, only less than it might
            flow.is_leaderless = True
            error = BrokerUnavailable(f"the server does not let us consume from queue {flow.name}: no leader yet?")
            flow.error = error
            if self._holds():
                self._fail(flow, error)
            else:
                self._end(error)

    def _receive(
        self, flow: Flow, put: Callable[[Received], None], unacknowledged: dict[int, None], channel: Any, method: Any,
        properties: Any, body: bytes,
    ) -> None:  # fmt: skip
        if flow.is_foreign and is_of_stream(properties):
            why = f"queue {flow.name} is a stream, which keeps no account of what was acknowledged"
            self._fail(flow, BrokerRefused(why))
            return
        tag = method.delivery_tag
        unacknowledged[tag] = None
        if flow.is_closed:  # goes back soon, see `_look`
            flow.late.append(tag)
            return
        flow.came += 1
        metadata = properties_of(method, properties) if flow.is_foreign else properties.headers
        put((flow, tag, body, properties.message_id or "", metadata, method.redelivered))
        if self.awaited:
            self.awaited = False
            self._bell.put(False)

    def _close_flows(self, queues: Sequence[str], then: Callable[[], None]) -> None:
        flows = [flow for queue in queues if (flow := self._open.get(queue)) is not None]
        left = len(flows)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                then()

        for flow in flows:
            self._close_flow(flow, one_less)
        if not flows:
            then()

    def _close_flow(self, flow: Flow, then: Callable[[], None]) -> None:
        """Calls `then` when no more jobs of the flow come: pika gives back what comes between a cancel and its
        answer. While a question of ours is not answered, pika sends no cancel, and nobody waits for its answer: what
        comes meanwhile is given back too."""
        if self._open.get(flow.queue) is flow:
            del self._open[flow.queue]
        if not flow.is_closed:
            flow.is_closed = True
            self._closed_flows.append(flow)
        tags, flow.tags = flow.tags, []
        if not tags or not flow.channel.is_open:
            then()
            return
        if flow.unanswered:
            for tag in tags:
                cancel_consumer(flow.channel, tag)
            then()
            return
        flow.on_closed = _once(then)
        for tag in tags[:-1]:
            flow.channel.basic_cancel(tag, callback=lambda frame: None)
        flow.channel.basic_cancel(tags[-1], callback=lambda frame: flow.on_closed())

    def _on_cancelled(self, flow: Flow, frame: Any) -> None:
        """RabbitMQ 4.3 ends a consumer so when a job runs past its consumer timeout. It begins to deliver again to this
        consumer, which pika knows no more, when the job is acknowledged: unless the consumer is cancelled here too."""
        tag = frame.method.consumer_tag
        flow.is_cancelled = True
        if flow.channel.is_open:
            cancel_consumer(flow.channel, tag)
        if tag in flow.tags:
            flow.tags.remove(tag)
            self._close_flow(flow, partial(self._after_cancel, flow))
            log.warning(
                "queue %s: RabbitMQ has cancelled the consumer, because the queue was deleted, has lost its leader, or "
                "a job ran past the consumer timeout; consuming again", flow.name,
            )  # fmt: skip

    def _after_cancel(self, flow: Flow) -> None:
        """The flow that the fetcher opens next asks again whether there is such a queue: to consume from one that is
        not there would be an error."""
        assert self._declarer is not None
        self._declarer.forget(RabbitMessage(self._names.of(flow.queue), b""))
        self._give_back(flow)
        self._bell.put(False)

    def _look(self) -> None:
        """Closes flows with jobs that nobody asks for, and the channels of closed flows that hold no jobs."""
        now = machine.monotonic()
        for flow in list(self._open.values()):
            if flow.held and self._names.one_consumer:
                flow.asked_at = flow.reached_at = now
            elif flow.inbox and (flow.asked_at < now - UNASKED_S or flow.reached_at < now - UNREACHED_S):
                self._close_flow(flow, partial(self._give_back, flow))
        for flow in list(self._closed_flows):
            if flow.late:
                late, flow.late = flow.late, []
                self._finish(flow, [], late[::-1])
            if flow.is_lost or (flow.channel is None and not flow.waiting):
                self._closed_flows.remove(flow)
            elif flow.channel is not None and flow.channel.is_open and not (flow.unanswered or flow.unacknowledged):
                flow.channel.close()
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def _give_back(self, flow: Flow) -> None:
        """Gives back its jobs that wait in the inbox, which a later flow may have by now."""
        inbox, back = flow.inbox, list[int]()
        for _ in range(len(inbox)):
            try:
                received = inbox.popleft()  # the fetcher's thread takes from it too
            except IndexError:
                break
            if received[0] is flow:
                back.append(received[1])
            else:
                inbox.append(received)
        self._finish(flow, [], back[::-1])

    def _finish_all(self, finished: Sequence[Finished]) -> None:
        for flow, done, back in finished:
            self._finish(flow, done, back)

    def _finish(self, flow: Flow, done: Sequence[int], back: Sequence[int]) -> None:
        channel, unacknowledged = flow.channel, flow.unacknowledged
        if channel is None or not channel.is_open:
            return
        together, last = set(done), 0
        for tag in unacknowledged:
            if tag not in together:
                break
            last = tag
        if last:
            channel.basic_ack(last, multiple=True)
        for tag in done:
            if tag > last:
                channel.basic_ack(tag)
            unacknowledged.pop(tag, None)
        for tag in reversed(back):
            channel.basic_nack(tag, requeue=True)
            unacknowledged.pop(tag, None)

    def ended(self, error: BrokerError) -> None:
        flows = [flow for flow in (*self._open.values(), *self._closed_flows) if not flow.is_lost]
        held = self._lost + sum(len(flow.held) for flow in flows)
        if held and not self._closes:
            log.warning(
                "connection to RabbitMQ lost: %s; it delivers again what is in progress here, which may run twice: %d "
                "jobs", error, held,
            )  # fmt: skip
        for flow in self._open.values():
            flow.is_closed = True
        self._bell.put(False)


def _nothing() -> None:
    pass


def _once(task: Callable[[], None]) -> Callable[[], None]:
    left = [task]
    return lambda: left.pop()() if left else None
