"""The relay thread: publishes the pushes that atomic jobs have posted for other brokers.

A push waits in the outbox of the broker that the jobs come from, where it was written in the step in which its job was
settled. The relay publishes it to the other broker first, and removes it from the outbox then. So no push is lost. A
process may be killed in between, and several processes relay at once: the other broker knows the id of a push for a day
and publishes it once.

A process relays to the brokers that it knows: those to which one of its Apps is configured, or one of its jobs has
pushed. It sleeps for long if it knows none. The outage of another broker is told in the log as that of its own is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from goworkers_py.brokers.contracts.store import Posted, Store
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.held_pushes import Destination
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

# Pushes that are published in one step.
AT_ONCE = 100


class Relay(BrokerService):
    # How often to look for pushes that other processes have posted and not relayed.
    look_every_s = 5.0

    def __init__(
        self, store: Store, destinations: Callable[[], Mapping[str, Destination]], home: str, outage: Outage
    ) -> None:
        """`destinations` returns the brokers that this process knows, by name. `home` is its own."""
        super().__init__("relay", outage)
        self._store = store
        self._destinations = destinations
        self._home = home
        self._outages: dict[str, Outage] = {}  # of the other brokers
        self._told = threading.Event()

    def posted(self) -> None:
        """This process has posted pushes. From any thread."""
        self._told.set()

    def run_once(self) -> float:
        self._told.clear()
        others = {name: known for name, known in self._destinations().items() if name != self._home}
        outboxes = [name for name in self._store.outboxes() if name in others] if others else []
        return min([self.look_every_s, *(self._relay(name, others[name]) for name in outboxes)])

    def _relay(self, name: str, destination: Destination) -> float:
        """Empties an outbox. Returns after how long to look at it again."""
        outage, refused = self._outages.setdefault(name, Outage(f"the broker {name}")), set[str]()
        while not self.stopping.is_set():
            posted = self._store.posted(name, AT_ONCE + len(refused))
            posted = [one for one in posted if one.push.id not in refused]
            if not posted:
                break
            taken, error = _publish(destination, posted)
            self._store.sent(name, taken)
            if error is not None:
                pause_s = outage.failed(self.name, error)
                if not taken:
                    return pause_s
                refused |= {one.push.id for one in posted} - {one.push.id for one in taken}
        if not refused:
            outage.recovered(self.name)
        return self.look_every_s

    def run(self) -> None:
        super().run()
        for outage in self._outages.values():
            outage.forget(self.name)

    def wait_between(self, seconds: float) -> None:
        self._told.wait(seconds)

    def wake(self) -> None:
        self._told.set()


def _publish(destination: Destination, posted: Sequence[Posted]) -> tuple[Sequence[Posted], BrokerError | None]:
    """Returns those that the other broker has taken, and its error if these are not all. If it refuses them together,
    one of them may be the reason: then each is published by itself."""
    try:
        destination.publish([one.push for one in posted])
    except BrokerError as error:
        if len(posted) == 1 or not isinstance(error, BrokerRefused):
            return [], error
    else:
        return posted, None
    each = [_publish(destination, [one]) for one in posted]
    return [one for taken, _ in each for one in taken], next((error for _, error in each if error is not None), None)
