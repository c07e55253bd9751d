"""Runs a suspect, see `poison`: one at a time in this process, after the server was told which."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from goworkers_py.errors import BrokerError
from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run
from goworkers_py.outcome import REQUEUE_LAST, Outcome
from goworkers_py.poison import PoisonPolicy, name_on_trial

log = logging.getLogger(__name__)

# A suspect that finds another on trial waits this long in its worker and then at the end of its queue.
TURN_WAIT_S = 1.0


class Trial:
    def __init__(self, policy: PoisonPolicy, announce: Callable[[str, str], bool]) -> None:
        self._policy = policy
        self._announce = announce
        self._turn = threading.Lock()

    def run(self, message: Message, owner: str, chain: Run) -> Outcome:
        """The outcome of the chain, which a job that is no suspect is given to at once."""
        if not self._policy.is_suspect(message):
            return chain(message)
        if not self._turn.acquire(timeout=TURN_WAIT_S):
            return REQUEUE_LAST
        try:
            if not self._announce(name_on_trial(message), owner):
                return REQUEUE_LAST  # given to others by now, and if not yet, then soon
            log.warning("this job was running when other processes died: it is run on trial")
            return chain(message)
        except BrokerError as error:
            log.warning("cannot tell the server of a suspect, so it is not run now: %s", error)
            return REQUEUE_LAST
        finally:
            self._turn.release()
