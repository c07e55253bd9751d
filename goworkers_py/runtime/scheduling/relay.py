"""The relay thread: publishes the pushes that atomic jobs have posted for other brokers.

A push waits in the outbox of the broker that the jobs come from, where it was written in the step in which its job was
settled. The relay publishes it to the other broker first, and removes it from the outbox then. So no push is lost. A
process may be killed in between, and several processes relay at once: the other broker knows the id of a push for a day
and publishes it once.

A process relays to the brokers that it knows: those to which one of its Apps is configured, or one of its jobs has
pushed. The outage of another broker is told in the log as that of its own is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from goworkers_py.brokers.contracts.store import Posted, Store
from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.home import Destination
from goworkers_py.policy.step_size import StepSize
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

# After the stop of the settlers.
LAST_LOOK_S = 3.0
# A look ends when the other broker has refused so many.
MOST_REFUSED = 1_000


class Relay(BrokerService):
    # How often to look for pushes that other processes have posted and not relayed.
    look_every_s = 5.0

    def __init__(self, store: Store, destinations: Callable[[], Mapping[str, Destination]], outage: Outage) -> None:
        """`destinations` returns the brokers that this process knows, by name."""
        super().__init__("relay", outage)
        self._store = store
        self._destinations = destinations
        self._outages: dict[str, Outage] = {}  # of the other brokers
        self._not_before: dict[str, float] = {}  # of a broker that failed: when to try again (monotonic)
        self._woken = machine.Event()
        self._last_look: Deadline | None = None  # set when the loop has ended

    def run_once(self) -> float:
        self._woken.clear()
        pauses = [self._relay(name, known) for name, known in self._destinations().items()]
        return min([self.look_every_s, *pauses])

    def _must_end(self) -> bool:
        return self.stopping.is_set() if self._last_look is None else self._last_look.left() <= 0

    def _relay(self, name: str, destination: Destination) -> float:
        """Empties an outbox. Returns after how long to look at it again."""
        passed = 0
        outage = self._outages.setdefault(name, Outage(f"the broker {name}, whose pushes wait in the outbox,"))
        wait_s = self._not_before.get(name, 0.0) - machine.monotonic()
        if wait_s > 0:
            return wait_s
        step = StepSize()
        while not self._must_end() and passed < MOST_REFUSED:
            posted = self._store.posted(name, step.count, passed)
            if not posted:
                break
            step.moved(len(posted), sum(len(post.push.payload) for post in posted))
            taken, error = self._publish(destination, posted)
            self._store.sent(name, taken)
            if error is not None:
                pause_s = outage.failed(self.name, error)
                self._not_before[name] = machine.monotonic() + pause_s
                if isinstance(error, BrokerUnavailable):
                    return pause_s
                passed += len(posted) - len(taken)
        if not passed:
            outage.recovered(self.name)
        return self.look_every_s

    def _publish(
        self, destination: Destination, posted: Sequence[Posted]
    ) -> tuple[Sequence[Posted], BrokerError | None]:
        """Returns those that the other broker has taken, and its error if these are not all. If it refuses them
        together, one of them may be the reason: then each is published by itself."""
        try:
            destination.publish_held([post.push for post in posted])
            return posted, None
        except BrokerRefused as error:
            refused: BrokerError = error
        except BrokerError as error:
            return [], error
        except Exception as error:  # the App of this broker is at fault: it must not hold up the others
            log.exception("relay: the App of %s failed; its pushes wait in the outbox", destination.home.name)
            return [], BrokerUnavailable(f"{type(error).__name__}: {error}")
        taken: list[Posted] = []
        for post in posted if len(posted) > 1 else ():
            published, failed = self._publish(destination, [post])
            taken += published
            if isinstance(failed, BrokerUnavailable):
                return taken, failed
        return taken, refused

    def run(self) -> None:
        super().run()
        self._last_look = Deadline(LAST_LOOK_S)
        with suppress(BrokerError):  # the pushes stay in the outbox
            self.run_once()
        for outage in self._outages.values():
            outage.forget(self.name)

    def wait_between(self, seconds: float) -> None:
        self._woken.wait(seconds)

    def wake(self) -> None:
        """Also called when this process has posted pushes. From any thread."""
        self._woken.set()
