"""The outermost link: turns a delivery into an outcome. Handles payloads that are no job, unmet needs and suspects."""

from __future__ import annotations

import logging
from functools import partial

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import Dead, Outcome
from goworkers_py.links.chain import Run
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.special_runs import SpecialRuns
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message, reset_current, set_current

log = logging.getLogger(__name__)


class Guard:
    """Shared by all workers of a queue."""

    def __init__(self, chain: Run, needs: Needs, quarantine: Quarantine, runs: SpecialRuns | None = None) -> None:
        self._chain = chain
        self._needs = needs
        self._quarantine = quarantine
        self._runs = runs

    def run(self, delivery: Delivery) -> Outcome:
        try:
            message = Message(delivery.payload, delivery.queue)
        except UnreadablePayload as error:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return Dead(delivery.payload)
        if needs.FIELD in message.fields and (unmet := self._needs.unmet(message)) is not None:
            return unmet
        chain = self._chain
        if poison.FIELD in message.fields:  # rare; `Quarantine.run` decides whether the job is a suspect
            chain = partial(self._quarantine.run, delivery=delivery, chain=chain)
        token = set_current(message)
        try:
            if self._runs is None:
                return chain(message)
            return self._runs.run(message, delivery, chain)
        finally:
            reset_current(token)
