"""One worker thread: takes deliveries from its queue's local buffer and runs each through the chain."""

from __future__ import annotations

import logging
import os
import threading

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
from goworkers_py.trial import Trial

log = logging.getLogger(__name__)


class Worker(Service):
    """Owns the delivery that it is running. The buffer, the chain, the busy map and the settler are safe to share."""

    def __init__(
        self, name: str, buffer: Buffer, lease: Lease, trial: Trial, chain: Run, busy: BusyMap, settler: Settler
    ) -> None:
        super().__init__(name)
        self._buffer = buffer
        self._lease = lease
        self._trial = trial
        self._chain = chain
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._current: Delivery | None = None  # under the lock
        self._retired = False  # under the lock
        self._busy = busy
        self._settler = settler

    def run(self) -> None:
        try:
            # Asked before each job, not after: this may begin anew after a fault in the stuck one.
            while not self._retired and (delivery := self._buffer.get()) is not STOP:
                self._current = delivery
                try:
                    self.run_once(delivery)
                finally:
                    with self._lock:
                        self._current = None
                        if not self._retired:
                            self._buffer.done()
        finally:
            try:
                close_own_loop()
            except Exception:
                log.exception("the event loop of %s could not be closed", self.name)

    def retire(self) -> bool:
        """Another takes its place in the pool while its job is stuck; it ends when the job does, if ever."""
        with self._lock:
            if self._current is None or self._retired:
                return False
            self._retired = True
            self._buffer.done()
            return True

    def run_once(self, delivery: Delivery) -> None:
        if not self._still_ours(delivery):
            self._settler.forget(delivery)
            return
        # Only a fault in our own outermost link can raise here. It ends this round, not the thread's service: the
        # delivery stays in progress and goes back to its queue when this process stops.
        self._busy.begin(self.name, delivery)
        try:
            outcome = self._outcome(delivery)
        finally:
            self._busy.end(self.name)
        if os.getpid() != self._pid:
            os._exit(0)  # the job forked and its child came back here: the job is the parent's to end
        self._settler.put(delivery, outcome)

    def _still_ours(self, delivery: Delivery) -> bool:
        """False when the job was given to others, or back, while it waited here: this process may have been frozen."""
        while not self._lease.await_word(delivery.owner, timeout_s=1.0):
            if delivery.owner != self._lease.identity or delivery.claimed:
                return False
        return True

    def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.raw, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.raw)
        token = set_current(message)
        try:
            return self._trial.run(message, delivery.owner, self._chain)
        finally:
            reset_current(token)
