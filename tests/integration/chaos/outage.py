"""One long outage of the server for all, in which every holder of a limit or a lock may live.

Some processes are left in peace from shortly before the outage until all is as before: nothing but the outage happens
to them. The others are killed and stopped meanwhile. So what the former hold must be theirs after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from proxy import Proxy
from servers import RedisServer

from chaos.monkeys import OUTAGE, Chronicle, Monkey

# Long jobs begin so long before it. After it, the leases are renewed, and others may be declared dead.
BEFORE_S, AFTER_S = 10.0, 12.0


class Outage(threading.Thread):
    """Takes the turns of the monkeys that have to rest. A monkey that is at work delays it."""

    def __init__(
        self,
        at: float,
        lasts_s: float,
        seed: int,
        server: RedisServer,
        proxies: Sequence[Proxy],
        resting: Sequence[Monkey],
        resting_longer: Sequence[Monkey],
        chronicle: Chronicle,
        file: Path,
        tell: Callable[[float, float], None],
    ) -> None:
        """`at`: monotonic. `resting`: as long as it lasts, `resting_longer`: until AFTER_S later. `tell` gets its begin
        and its end before it begins."""
        super().__init__(name="outage", daemon=True)
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        self._at, self._lasts_s = at, lasts_s
        self._server, self._proxies, self._chronicle = server, proxies, chronicle
        self._resting, self._resting_longer = resting, resting_longer
        self._file, self._tell = file, tell
        ways = self._refused, self._swallowed, self._paused, self._killed
        self._way = ways[seed % len(ways)]  # so that runs with seeds in a row have all of them

    def run(self) -> None:
        try:
            if not self.stopping.wait(self._at - BEFORE_S - time.monotonic()):
                self._break_all()
        except BaseException as error:
            self.error = error

    def _break_all(self) -> None:
        with ExitStack() as longer:
            for monkey in self._resting_longer:
                longer.enter_context(monkey.turn)
            with ExitStack() as short:
                for monkey in self._resting:
                    short.enter_context(monkey.turn)
                began = time.monotonic() + BEFORE_S
                ended = began + self._lasts_s
                draft = self._file.with_suffix(".draft")
                draft.write_text(f"{began} {ended}")
                draft.rename(self._file)
                self._tell(began, ended)
                self.stopping.wait(began - time.monotonic())
                with self._chronicle.note(OUTAGE), self._way():
                    self.stopping.wait(ended - time.monotonic())
            self.stopping.wait(AFTER_S)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        for proxy in self._proxies:
            proxy.refuse()
        yield
        self._mend()

    @contextmanager
    def _swallowed(self) -> Iterator[None]:
        for proxy in self._proxies:
            proxy.swallow()
        yield
        self._mend()

    def _mend(self) -> None:
        for proxy in self._proxies:
            proxy.pass_through()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self._server.pause()
        yield
        self._server.resume()

    @contextmanager
    def _killed(self) -> Iterator[None]:
        self._server.kill()
        yield
        self._server.start()
