"""The outermost link: turns a delivery into an outcome. Handles payloads that are no job, unmet needs, jobs whose time
has passed, and suspects."""

from __future__ import annotations

import logging
from functools import partial

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import Dead, Outcome
from goworkers_py.links.chain import Run
from goworkers_py.links.expiry import Expiry
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.special_runs import SpecialRuns
from goworkers_py.wire import needs
from goworkers_py.wire.message import EXPIRES_AT, EXPIRY, Message, reset_current, set_current

log = logging.getLogger(__name__)


class Guard:
    """Shared by all workers of a queue."""

    def __init__(
        self, chain: Run, needs: Needs, quarantine: Quarantine, expiry: Expiry, runs: SpecialRuns | None = None
    ) -> None:
        self._chain = chain
        self._needs = needs
        self._quarantine = quarantine
        self._expiry = expiry
        self._timely = expiry.around(chain)
        self._runs = runs

    def run(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.payload, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.payload)
        fields = message.fields
        if needs.FIELD in fields and (unmet := self._needs.unmet(message)) is not None:
            return unmet
        chain = self._chain
        expires = EXPIRES_AT in fields or EXPIRY in fields
        if expires:
            chain = self._timely
        if poison.FIELD in fields:  # rare; `Quarantine.run` decides whether the job is a suspect
            chain = partial(self._quarantine.run, delivery=delivery, chain=chain)
            if expires:  # the job may expire before it waits to run alone, too
                chain = self._expiry.around(chain)
        token = set_current(message)
        try:
            if self._runs is None:
                return chain(message)
            return self._runs.run(message, delivery, chain)
        finally:
            reset_current(token)
