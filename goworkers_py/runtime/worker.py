"""One worker thread: takes deliveries from its queue's local buffer and runs each through the chain."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import REQUEUE, REQUEUE_LAST, Dead, Outcome
from goworkers_py.links.chain import Run
from goworkers_py.links.perform import close_own_loop
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.buffer import Buffer
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.service import Service
from goworkers_py.runtime.settler import Settler
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message, describe, reset_current, set_current

log = logging.getLogger(__name__)


class Worker(Service):
    """Owns the delivery that it is running. The buffer, the chain and the settler are safe to share."""

    def __init__(
        self,
        name: str,
        buffer: Buffer,
        lease: Lease,
        quarantine: Quarantine,
        chain: Run,
        settler: Settler,
        needs: Needs,
        wall: Callable[[], float],
    ) -> None:
        super().__init__(name)
        self._buffer = buffer
        self._lease = lease
        self._quarantine = quarantine
        self._chain = chain
        self._pid = os.getpid()
        self._hand: list[Delivery] = []  # the one that it answers for, until it has let go; changed by this thread only
        self._retired = False  # set by the watchdog's thread, which keeps this worker's job from its end meanwhile
        self._settler = settler
        self._needs = needs
        self._wall = wall

    def run(self) -> None:
        try:
            hand, buffer = self._hand, self._buffer
            while hand or (not self._retired and buffer.take(hand)):
                delivery = hand[0]
                if delivery.ended:
                    pass  # it begins anew after it was given back: this delivery is on its way already
                elif not delivery.begun_at:
                    self.run_once(delivery)
                else:
                    self._give_back(delivery)
                buffer.done(delivery)
                hand.clear()
        finally:
            try:
                close_own_loop()
            except Exception:
                log.exception("the event loop of %s could not be closed", self.name)

    def _give_back(self, delivery: Delivery) -> None:
        """Only a fault in our own outermost link, or an exception thrown into this thread from outside, can end `run`
        before it has let go. Then it begins anew with the same delivery in hand, of which nobody knows what became."""
        if not delivery.kept:
            if not delivery.ended:
                log.error("a run was broken off, back to its queue: %s", describe(delivery.raw, delivery.queue))
            self._settler.put(delivery, REQUEUE_LAST)  # counts only where no other end has got there

    @property
    def running(self) -> Delivery | None:
        """From any thread."""
        return next((delivery for delivery in self._hand[:] if delivery.begun_at), None)

    def retire(self) -> bool:
        """Another takes its place in the pool while its job is stuck; it ends when the job does, if ever. For the
        watchdog's thread only, which holds the lock of that run: so the hand does not change meanwhile."""
        if not self._hand or self._retired:
            return False
        self._retired = True
        self._buffer.done(self._hand[0])
        return True

    @property
    def retired(self) -> bool:
        return self._retired

    @property
    def retired_and_ended(self) -> bool:
        return self._retired and self._ended

    def run_once(self, delivery: Delivery) -> None:
        if not self._lease.surely_of(delivery.owner) and not self._still_ours(delivery):
            self._settler.forget(delivery)
            return
        delivery.begun_at = self._wall()
        if self._quarantine.closed:  # looked at after the job is marked as begun, see `Quarantine._admit`
            delivery.begun_at = 0.0
            self._settler.put(delivery, REQUEUE)
            return
        outcome = self._outcome(delivery)
        if os.getpid() != self._pid:
            os._exit(0)  # a link forked and its child came back here: the job is the parent's to end
        self._settler.put(delivery, outcome)

    def _still_ours(self, delivery: Delivery) -> bool:
        """False when the job was given to others, or back, while it waited here: this process may have been frozen."""
        while not self._lease.await_word(delivery.owner, timeout_s=1.0):
            if delivery.owner != self._lease.identity or delivery.ended:
                return False
        return True

    def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.raw, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.raw)
        if needs.FIELD in message.fields and (unmet := self._needs.unmet(message)) is not None:
            return unmet
        token = set_current(message)
        try:
            if poison.FIELD in message.fields:  # nearly no job; `Quarantine` looks closer
                return self._quarantine.run(message, delivery, self._chain)
            return self._chain(message)
        finally:
            reset_current(token)
