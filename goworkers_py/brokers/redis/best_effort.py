"""What a process does for others' eyes only: where the server refuses it, that is told once and costs nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused

log = logging.getLogger(__name__)


class BestEffort:
    def __init__(self, without: str) -> None:
        self._without = without  # what is missing when it is refused
        self._warned = False

    def __call__(self, step: Callable[[], object]) -> None:
        """Raises BrokerUnavailable in an outage only, which is everybody's. A server that is full is emptied first."""
        try:
            with suppress(BrokerFull):
                step()
        except BrokerRefused as error:
            if not self._warned:
                self._warned = True
                log.warning("%s: %s; jobs run all the same", self._without, error)
        except BrokerError:
            raise
        except Exception:
            # What others wrote there is not what it should be, or we are wrong: neither is to cost the beat.
            if not self._warned:
                self._warned = True
                log.exception("%s; jobs run all the same", self._without)
