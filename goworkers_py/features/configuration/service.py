"""The configuration thread: takes new versions of the central configuration from which this process has started.

It looks at the newest version when a push is told, and every 30 seconds. Where its number or its text is another one,
it reads the text as at a start and gives the launchers the new values. Queues, pools and partitions that come or go
wait for the next start, and the log and the process record name their sections. The number alone does not tell that a
text is new: after a failover that lost the last versions, their numbers come again with other texts.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from contextlib import suppress

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable, WorkersError
from goworkers_py.core.escaping import one_line
from goworkers_py.features.configuration.central import ignored, in_few_words, written_over
from goworkers_py.features.configuration.config_change import changed
from goworkers_py.features.configuration.contract import Configurations
from goworkers_py.features.configuration.differences import differences
from goworkers_py.features.configuration.start import CentralSource, log_start
from goworkers_py.features.configuration.stored_config import StoredConfig
from goworkers_py.runtime.daemon import AnyLauncher
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.service import Service

log = logging.getLogger(__name__)


class ConfigTaker(Service):
    look_every_s = 30.0

    def __init__(
        self, source: CentralSource, broker: Broker, started: Config, launchers: Sequence[AnyLauncher]
    ) -> None:
        """`broker` is of this thread alone, which closes it."""
        super().__init__("configuration")
        self._source = source
        self._broker = broker
        self._stored = broker.require_part(Configurations)  # the process has started from one
        self._launchers = launchers
        # This thread only, from here on.
        self._started = started
        # The configuration that is in force. After a fault in our own code, also those of which some may be in force.
        self._applied = [started]
        self._seen = source.version, source.digest
        self._warned = False
        self.in_force = ConfigInForce(source.name, source.version, source.version, (), source.digest)
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()  # put by any thread

    def run(self) -> None:
        ends: Callable[[], None] = lambda: None  # noqa: E731
        with suppress(BrokerError):  # then it looks only
            ends = self._stored.listen(lambda: self._woken.put(None))
        self._tell()
        try:
            while not self.stopping.is_set():
                self.run_once()
                self._wait()
        finally:
            ends()
        self._broker.close()  # not after a fault: then `run` is called again

    def run_once(self) -> None:
        try:
            self.look()
        except BrokerUnavailable as error:  # the heartbeat tells of an outage
            log.debug("the central configuration cannot be looked at now: %s", error)
        except BrokerRefused as error:
            self._warn(error)

    def look(self) -> None:
        found = self._stored.read(self._source.name)
        # None: it was deleted, and this process goes on as it is.
        if found is None or (found.version, found.digest) == self._seen:
            return
        try:
            self._take(found)
            self._seen = found.version, found.digest
        except Exception:  # a fault in our own code: it must not come back every second
            log.exception("%s cannot be taken, or not all of it; next try in %.0f s", found, self.look_every_s)

    def _warn(self, error: BrokerRefused) -> None:
        if not self._warned:
            self._warned = True
            log.warning("new versions of the configuration %s are not taken: %s", self._source.name, error)

    def _take(self, found: StoredConfig) -> None:
        try:
            text = ConfigText(found.text, str(found))
            new, warning = self._source.read(written_over(text)), ignored(text)
        except WorkersError as error:
            log.error(
                "%s cannot be taken, version %d stays in force; push a corrected text, or roll back with `pyworkers "
                "config rollback --name %s`: %s", found, self.in_force.applied, found.name, error,
            )  # fmt: skip
            return
        differing = differences(self._applied[0], new)
        if new not in self._applied:
            self._applied.append(new)
        done = set[str]().union(*(changed(self._launchers, applied, new) for applied in self._applied))
        waiting = ((set(self.in_force.waiting) - done) | (differing - done)) & differences(self._started, new)
        self._applied = [new]
        self.in_force = ConfigInForce(
            found.name, self._source.version, found.version, tuple(sorted(waiting)), found.digest
        )
        log.info(
            "%s by %s is in force: %s", found, one_line(found.by), in_few_words(sorted(differing & done)) or "no change"
        )
        if warning:
            log.warning("%s", warning)
        if waiting:
            log.warning("%s: this waits for the next start of this process: %s", found, in_few_words(sorted(waiting)))
        self._tell()

    def _tell(self) -> None:
        for launcher in self._launchers:
            if isinstance(launcher, Launcher):
                launcher.tell_config(self.in_force)

    def _wait(self) -> None:
        with suppress(queue.Empty):
            self._woken.get(timeout=self.look_every_s)
            while True:  # one look is for all pushes until now
                self._woken.get_nowait()

    def wake(self) -> None:
        self._woken.put(None)


def taker_of(launchers: Sequence[AnyLauncher], config: Config) -> Sequence[ConfigTaker]:
    """Nothing for a process that has not started from a central configuration."""
    if not isinstance(source := config.origin, CentralSource):
        return ()
    log_start(source)
    return (ConfigTaker(source, open_broker(source.home), config, launchers),)
