"""The way of a program to one broker: the main one, or that of a section [partition:NAME].

Where its jobs run behind a fence, the server refuses pushes when the term is over. A job pushes in the term in which it
was begun, and so does a thread that has the context of the job. A thread without it, of a pool say, may have been
started by a job, too. So in a process whose program is the daemon, each push of such a thread is in the term of the
process, or in its last one. Before its first term there was no job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.api.client import Client
from goworkers_py.api.producer import Producer
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.fence import Term, pushes_as_producer
from goworkers_py.core.strikes import Lock
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.wire.message import Timestamps, current_message

if TYPE_CHECKING:
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.config.options import Config
    from goworkers_py.core.clock import Clock
    from goworkers_py.policy.registry import Registry


class PartitionOwner(Protocol):
    """The App of a partition."""

    registry: Registry
    partitions: dict[str, Partition]  # as they are now, by their names in the App

    def clock_of(self, partition: str) -> Clock: ...

    def client_links_of(self, config: Config) -> Sequence[ClientLink]: ...

    def open_broker(self, config: Config) -> Broker: ...

    def now_in_place_of(self, partition: Partition) -> Partition | None:
        """The same partition as the App has it now, which may have closed this one; None when the App was configured
        anew."""


class Partition(Producer):
    """`workers.partition("billing").enqueue("invoices", "Invoice", [42])`: pushes to the broker of a partition, and
    shows what is there: `workers.partition("billing").inspector`. It has the methods of the same names of
    `goworkers_py`."""

    def __init__(self, owner: PartitionOwner, key: str, config: Config, of: Config) -> None:
        """`key` is its name in the App, where the App's own one has an empty name; `of` is the App's configuration."""
        super().__init__(owner.clock_of(key), owner.registry)
        self.key = key
        self.config = config
        self.of = of
        self.hints = DueHints()
        self.fenced = False  # its jobs run behind a fence here
        # The term of this process, or its last one. Set by the thread of the terms, where the program is the daemon.
        self.term: Term | None = None
        self._owner = owner
        self._known = owner.partitions
        self._lock = Lock()
        # Made when first needed; `_broker` under the lock.
        self._broker: Broker | None = None
        self._client: Client | None = None

    @property
    def broker(self) -> Broker:
        # Read without the lock first: in a child that a job forked, a thread of the parent may hold the lock forever.
        if (broker := self._broker) is not None:
            return self._fenced_broker(broker) if self.fenced else broker
        with self._lock:
            if self._broker is None:
                self._broker = self._owner.open_broker(self.config)
            return self._broker

    @property
    def client(self) -> Client:
        client = self._client
        if client is None:
            links = self._owner.client_links_of(self.config)
            # Without the lock, see `broker`. Two threads at once may make two clients: both work, one stays.
            client = self._client = Client(self._broker_now, links, self.config, self.clock, self.hints.scheduled)
        return client

    @property
    def timestamps(self) -> Timestamps:
        return Timestamps(self.config.timestamps)

    def _broker_now(self) -> Broker:
        """Held pushes must not go to another broker than the one for which they were made."""
        broker = self._broker
        if broker is not None and self.term is None and not self.fenced and self._known.get(self.key) is self:
            return broker  # the usual case, in one step
        now = self._owner.now_in_place_of(self)
        if now is None:
            raise BrokerUnavailable("this App was configured anew since the push")
        term = now.term
        if term is None or current_message() is not None or pushes_as_producer.get():
            return now.broker
        return _broker_of(term) or now.broker

    def _fenced_broker(self, plain: Broker) -> Broker:
        """`plain` for code that is no job of this partition, such as that of a program in which the daemon runs."""
        term: Term | None = getattr(current_message(), "term", None)
        if term is None or term.fence.name != self.config.partition_name:
            return plain
        return _broker_of(term) or plain

    def begin_term(self, term: Term) -> None:
        self.term = term

    def close(self) -> None:
        """Closes the broker, if it is open. A later use opens another one."""
        with self._lock:
            opened, self._broker, self._client = self._broker, None, None
        if opened is not None:
            opened.close()


def _broker_of(term: Term) -> Broker | None:
    return term.broker if isinstance(term.broker, Broker) else None
