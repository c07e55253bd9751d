"""The outermost link: turns a delivery into an outcome. Handles payloads that are no job, unmet needs, jobs whose time
has passed, and suspects."""

from __future__ import annotations

import logging

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import Dead, Outcome
from goworkers_py.links.chain import Run
from goworkers_py.links.expiry import Expiry
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.wire import needs
from goworkers_py.wire.message import EXPIRES_AT, EXPIRY, Message, reset_current, set_current

log = logging.getLogger(__name__)


class Guard:
    """Shared by all workers of a queue."""

    def __init__(self, chain: Run, needs: Needs, quarantine: Quarantine, expiry: Expiry) -> None:
        self._chain = chain
        self._needs = needs
        self._quarantine = quarantine
        self._expiry = expiry
        self._timely = expiry.around(chain)

    def run(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.payload, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.payload)
        fields = message.fields
        if needs.FIELD in fields and (unmet := self._needs.unmet(message)) is not None:
            return unmet
        token = set_current(message)
        try:
            chain = self._chain
            if EXPIRES_AT in fields or EXPIRY in fields:
                if (expired := self._expiry.dropped(message)) is not None:
                    return expired
                chain = self._timely  # a suspect may wait for long until it runs alone
            if poison.FIELD in fields:  # rare; `Quarantine.run` decides whether the job is a suspect
                return self._quarantine.run(message, delivery, chain)
            return chain(message)
        finally:
            reset_current(token)
