"""One worker thread: takes deliveries from its queue's local buffer and runs each through the chain."""

from __future__ import annotations

import logging

from goworkers_py.counters import BusyMap
from goworkers_py.delivery import STOP, Buffer, Delivery
from goworkers_py.errors import UnreadablePayload
from goworkers_py.identity import Lease
from goworkers_py.message import Message, reset_current, set_current
from goworkers_py.middleware.chain import Run
from goworkers_py.middleware.perform import close_own_loop
from goworkers_py.outcome import Dead, Outcome
from goworkers_py.service import Service
from goworkers_py.settler import Settler

log = logging.getLogger(__name__)


class Worker(Service):
    """Owns the delivery that it is running. The buffer, the chain, the busy map and the settler are safe to share."""

    def __init__(self, name: str, buffer: Buffer, lease: Lease, chain: Run, busy: BusyMap, settler: Settler) -> None:
        super().__init__(name)
        self._buffer = buffer
        self._lease = lease
        self._chain = chain
        self._busy = busy
        self._settler = settler

    def run(self) -> None:
        try:
            for delivery in iter(self._buffer.get, STOP):
                try:
                    self.run_once(delivery)
                finally:
                    self._buffer.done()
        finally:
            close_own_loop()

    def run_once(self, delivery: Delivery) -> None:
        if delivery.owner != self._lease.identity:
            # This process was declared dead while the job waited here: others have it now.
            self._settler.forget(delivery)
            return
        # Only a fault in our own outermost link can raise here. It ends this round, not the thread's service: the
        # delivery stays in progress and goes back to its queue when this process stops.
        with self._busy.mark(self.name, delivery):
            outcome = self._outcome(delivery)
        self._settler.put(delivery, outcome)

    def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.raw, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.raw)
        token = set_current(message)
        try:
            return self._chain(message)
        finally:
            reset_current(token)
