"""Steps that no job depends on: when the server refuses one, the process warns once and goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused

log = logging.getLogger(__name__)


class BestEffort:
    def __init__(self, without: str) -> None:
        self._without = without  # what does not work when the server refuses the step
        self._warned = False

    def __call__(self, step: Callable[[], object]) -> None:
        """Calls `step`. Raises BrokerUnavailable in an outage, but not when the server is out of memory."""
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
            # Another program wrote something unexpected into a key, or this code has a bug. The beat must go on.
            if not self._warned:
                self._warned = True
                log.exception("%s; jobs run all the same", self._without)
