"""Consumes from the queues of one pool, and opens a new connection when the old one is lost."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from queue import Empty
from typing import Any

from goworkers_py.brokers.rabbitmq.consuming_connection import LONGEST_RUN_MS, TIMEOUT_SINCE, ConsumingConnection, Flow
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.publisher import again
from goworkers_py.brokers.rabbitmq.returns import Returns
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.values import NamedTuple
from goworkers_py.policy.priorities import Ask

log = logging.getLogger(__name__)

WAIT_S = 2.0
FIRST_JOBS_S = 0.02
# To widen a flow, consumers are added to it. When there are so many, one takes the place of all.
MOST_CONSUMERS = 8
REOPEN_S = 1.0
_CRASHED = "INTERNAL_ERROR"


class Receipt(NamedTuple):
    flow: Flow
    tag: int
    headers: Any  # None, mostly


class RabbitConsumer:
    """Used by the fetcher's thread of the pool, but for `wake` and `close`."""

    def __init__(self, parameters: Any, names: Names, returns: Returns) -> None:
        self._parameters, self._names, self._returns = parameters, names, returns
        # True: somebody wakes the fetcher; False: a look is worth it.
        self._bell: machine.SimpleQueue[bool] = machine.SimpleQueue()
        self._connection: ConsumingConnection | None = None
        # Deliveries that are to be acknowledged when these messages are confirmed. For the transport.
        self.leaving: dict[Delivery, Callable[[], Sequence[RabbitMessage]]] = {}
        self.leave_at = 0.0  # monotonic
        self._flows: dict[str, Flow] = {}
        self._former: list[Flow] = []  # others that hold jobs
        self._errors: dict[str, BrokerError] = {}  # by the queues whose flows have ended, to be raised
        self._leaderless = set[str]()  # queues from which RabbitMQ did not let us consume
        self._own_connections: dict[str, ConsumingConnection] = {}  # by some of these queues
        self._failed: BrokerError | None = None  # why the last connection has ended
        self._told_limit = False
        self._taken_at = 0.0  # monotonic: when jobs were last taken from the inboxes
        self._identity = ""  # of the last `consume`

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the server; empty while it is not known."""
        return self._connection.version if self._connection is not None else ()

    def wake(self) -> None:
        self._bell.put(True)

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        try:
            return self._consume(identity, asks, limit, wait_s)
        except BrokerUnavailable as error:
            # RabbitMQ 3 closes the connection that consumes from a queue which another process is just declaring.
            if _CRASHED not in str(error) or any(flow.came for flow in self._flows.values()):
                raise
            return self._consume(identity, asks, limit, wait_s)

    def _consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float) -> list[Delivery]:
        connection, self._identity = self._serving(), identity
        opened = self._widen(connection, asks, limit)
        give_up_at = machine.monotonic() + min(wait_s, WAIT_S)
        while True:
            if opened:
                self._await_first_jobs(connection, limit)
            taken = self._take(identity, asks, limit)
            if taken or self._woken():
                return taken
            self._raise_errors()
            left_s = give_up_at - machine.monotonic()
            # A flow that RabbitMQ has closed is opened by the next call. That of a paused queue stays closed.
            closed = any(_may_be_opened(self._flows[queue]) for queue, most in asks if most > 0)
            if left_s <= 0 or closed or self._await(connection, asks, left_s):
                return self._nothing(connection)
            if connection.error is not None:
                raise again(connection.error)

    def _raise_errors(self) -> None:
        """Errors of queues that are served by now are dropped. A queue without a leader is no outage for the others."""
        while self._errors:
            queue, error = self._errors.popitem()
            flow = self._flows.get(queue)
            if flow is None or not (
                flow.is_answered or (queue in self._leaderless and self._flows.keys() - self._leaderless)
            ):
                raise again(error)

    def _nothing(self, connection: ConsumingConnection) -> list[Delivery]:
        if self._failed is not None and not connection.is_connected:
            raise again(self._failed)  # an empty answer would mean that it serves again
        return []

    def _tell_limit(self, connection: ConsumingConnection) -> None:
        self._told_limit, version = True, ".".join(map(str, connection.version))
        if connection.version >= TIMEOUT_SINCE:
            days = LONGEST_RUN_MS // 86_400_000
            log.info("RabbitMQ %s is asked to let a job run for %d days before it delivers it again", version, days)
        else:
            log.info(
                "RabbitMQ %s delivers a job again that runs longer than its consumer_timeout, which is 30 minutes "
                "unless rabbitmq.conf says otherwise: set it above the longest run of a job", version,
            )  # fmt: skip

    def _await(self, connection: ConsumingConnection, asks: Sequence[Ask], timeout_s: float) -> bool:
        """Waits until a look is worth it. True when somebody has called `wake`."""
        connections = (connection, *self._own_connections.values())
        for source in connections:
            source.awaited = True  # first: a job that comes from now on rings the bell
        try:
            if connection.error is None and not any(self._flows[queue].inbox for queue, most in asks if most > 0):
                return self._bell.get(timeout=timeout_s)
        except Empty:
            pass
        finally:
            for source in connections:
                source.awaited = False
        return False

    def _await_first_jobs(self, connection: ConsumingConnection, limit: int) -> None:
        """When the first job of a new flow has come, others are on their way: so the asks are served in their order."""
        came = -1
        while came < (now := sum(len(flow.inbox) for flow in self._flows.values())) < limit and now:
            came = now
            connection.over.wait(FIRST_JOBS_S)

    def _woken(self) -> bool:
        """Empties the bell. Whether somebody has called `wake`."""
        woken = False
        with suppress(Empty):
            while True:
                woken |= self._bell.get_nowait()
        return woken

    def _take(self, identity: str, asks: Sequence[Ask], limit: int) -> list[Delivery]:
        """A queue is not reached while those before it have jobs enough. After UNREACHED_S its jobs go back, and the
        flow is opened again when it is reached."""
        taken: list[Delivery] = []
        now = self._taken_at = machine.monotonic()
        for queue, most in asks:
            flow = self._flows.get(queue)
            if most <= 0 or flow is None:
                continue
            flow.asked_at = now
            if flow.is_answered:
                self._leaderless.discard(queue)
            if len(taken) >= limit:
                continue
            flow.reached_at = now
            self._pop(flow, identity, min(most, limit - len(taken)), taken)
        return taken

    def _pop(self, flow: Flow, identity: str, most: int, taken: list[Delivery]) -> None:
        inbox, queue = flow.inbox, flow.queue
        for _ in range(min(most, len(inbox))):
            try:
                of, tag, body, message_id, metadata, again = inbox.popleft()
            except IndexError:  # the connection's thread has just given them back
                return
            if of.is_lost:
                continue
            delivery = Delivery(body, queue, identity, Receipt(of, tag, None if flow.is_foreign else metadata))
            if flow.is_foreign:
                delivery.properties = metadata
            else:  # other programs may give an id twice
                delivery.message_id = message_id
            if again:
                delivery.again = True
                if self._returns.goes_on(delivery, (*self._flows.values(), *self._former)):
                    continue
            of.held[tag] = delivery
            taken.append(delivery)

    # --- how many jobs come in advance

    def _widen(self, connection: ConsumingConnection, asks: Sequence[Ask], limit: int) -> bool:
        """Lets as many jobs of each queue come as are asked for. True when some queue was opened."""
        wanted = Counter[str]()
        for queue, most in asks:
            wanted[queue] += most
        opened = False
        for queue, most in wanted.items():
            flow = self._flows.get(queue)
            if flow is not None and flow.is_closed and flow.reached_at < self._taken_at:
                continue
            if most > 0 and (flow is None or _may_be_opened(flow)):
                fast = flow is not None and _flows_fast(flow)
                most, opened = max(min(most, limit), flow.window if flow is not None and fast else 0), True
                self._put_away(flow)
                serving = self._connection_of(queue, connection)
                flow = self._flows[queue] = Flow(serving, queue, flow)
                serving.widen(flow, most)
            elif most > 0 and flow is not None and not flow.is_over:
                lacking = len(flow.held) + min(most, limit) - flow.window
                if lacking <= 0:
                    continue
                if flow.consumers >= MOST_CONSUMERS and not self._names.one_consumer:
                    # Jobs that have ended and cannot be settled fill the windows: they do not count for a new consumer.
                    fresh = self._flows[queue] = Flow(flow.connection, queue, flow)
                    self._put_away(flow)
                    flow.connection.replace(flow, fresh, min(most, limit))
                else:
                    flow.connection.widen(flow, max(lacking, flow.window) if _flows_fast(flow) else lacking)
        return opened

    def _put_away(self, flow: Flow | None) -> None:
        """The fetcher is done with this flow; jobs of it may run."""
        self._former = [former for former in (*self._former, flow) if former is not None and former.held]
        if flow is not None and (error := flow.error or flow.connection.error) is not None:
            self._errors[flow.queue] = error
        if flow is not None and flow.is_leaderless and flow.queue not in self._leaderless:
            self._leaderless.add(flow.queue)
            log.warning("queue %s: %s; asking again, over a connection of its own", flow.name, flow.error)

    # --- connections

    def _serving(self) -> ConsumingConnection:
        connection = self._connection
        if connection is None or not connection.serves:
            if connection is not None and connection.pid != os.getpid():
                self._bell = machine.SimpleQueue()
            self._leaderless |= {flow.queue for flow in self._flows.values() if flow.is_leaderless}
            self._former = [flow for flow in (*self._former, *self._flows.values()) if flow.held]
            # The inboxes of the old connection are left: RabbitMQ delivers their jobs again.
            self._flows = {queue: flow for queue, flow in self._flows.items() if flow.connection.serves}
            self._failed = None if connection is None else connection.error
            connection = self._connection = ConsumingConnection(self._parameters, self._names, self._bell)
            connection.start()
        elif connection.version and not self._told_limit:
            self._tell_limit(connection)
        return connection

    def _connection_of(self, queue: str, connection: ConsumingConnection) -> ConsumingConnection:
        """RabbitMQ ends the connection that asks to consume from a queue without a leader. So after the first time such
        a queue has a connection for itself, and the jobs of the others stay."""
        if not (queue in self._leaderless or queue in self._own_connections) or self._names.one_consumer:
            return connection
        own = self._own_connections.get(queue)
        if own is None or not own.serves:
            own = self._own_connections[queue] = ConsumingConnection(self._parameters, self._names, self._bell)
            own.start()
        return own

    def end_waits(self, queues: Collection[str]) -> list[Delivery]:
        connection = self._connection
        # With `standby`, another process would get the queues, while jobs run here: see `ConsumingConnection`.
        if connection is None or connection.error is not None or self._names.one_consumer:
            return []
        for source in (connection, *self._own_connections.values()):
            if source.serves:
                source.close_flows(queues)
        taken: list[Delivery] = []
        for queue in queues:
            if (flow := self._flows.get(queue)) is not None:
                self._pop(flow, self._identity, len(flow.inbox), taken)
        return taken

    def close(self) -> None:
        for connection in (self._connection, *self._own_connections.values()):
            if connection is not None:
                connection.close()


def _may_be_opened(flow: Flow) -> bool:
    """Another one in its place. One that was refused is not asked for at once again."""
    failed = flow.error is not None or flow.connection.error is not None
    return flow.is_over and (not failed or machine.monotonic() > flow.opened_at + REOPEN_S)


def _flows_fast(flow: Flow) -> bool:
    """Whether a window full of jobs comes and goes within a part of a second."""
    return flow.came > flow.window * (machine.monotonic() - flow.opened_at) * 4
