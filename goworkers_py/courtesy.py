"""What a process does for others' eyes only. It must not cost anything else, so no error gets out of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.errors import BrokerError, BrokerRefused

log = logging.getLogger(__name__)


class Courtesy:
    def __init__(self, without: str) -> None:
        self._without = without  # what is missing when it fails
        self._warned = False

    def __call__(self, step: Callable[[], object]) -> bool:
        """True when it was done."""
        try:
            step()
        except BrokerRefused as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "%s: %s; jobs run all the same (what a user of Redis must be allowed to do stands in "
                    "docs/reliability.md)", self._without, error
                )  # fmt: skip
            return False
        except BrokerError as error:
            log.debug("%s: %s", self._without, error)  # an outage, of which the beat tells
            return False
        return True
