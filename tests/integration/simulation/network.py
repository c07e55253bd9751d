"""The network between a simulated process and its broker: requests and replies that are late, lost, or both.

The parts of the broker that a process has are stand-ins: each call of a verb is a request, one step of the server, and
a reply. Between these the seed lets others step, and the line of the process may have its troubles:

- the request is lost: the server does nothing, and the process learns it after a time;
- the request is late: the process has given it up when the server does it after all;
- the reply is lost: the server has done it, and the process does not know;
- the request is slow: it arrives while the process still waits for its reply;
- the line is cut: nothing comes through, and news do not arrive either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import GeneratorType
from typing import Any, NoReturn

from goworkers_py.brokers.broker import Broker
from goworkers_py.core.errors import BrokerUnavailable
from simulation.kernel import Kernel, Process

TIMEOUT_S = 5.0  # of a connection that gets no reply
MOST_LATE_S = 300.0

PARTS = (
    "transport", "store", "recoverable", "control", "admin",
)  # fmt: skip
# What asks no server.
_LOCAL = {"wake", "check"}
# Their last argument is called when there is news.
_SUBSCRIPTIONS = {"listen", "watch"}


class Line:
    """Between one process and the broker."""

    def __init__(self, process: Process, server_is_away: Callable[[], bool]) -> None:
        self.process = process
        self.cut = False
        self._server_is_away = server_is_away
        self.trouble = 0.0  # the chance that a request or its reply has one of the troubles above
        self._news: list[Callable[[], object]] = []  # what to call when news may have been missed
        # What happens to the process at its next call of this verb: before the server does it, or after.
        self.trap: tuple[str, bool, Callable[[], object]] | None = None
        self.late = ""  # the next call of this verb is late

    @property
    def kernel(self) -> Kernel:
        return self.process.kernel

    @property
    def dead(self) -> bool:
        return self.cut or self._server_is_away()

    def cut_off(self) -> None:
        self.cut = True

    def heal(self) -> None:
        """News may have been missed: as a client that connects again, the process looks."""
        self.cut, self.trouble = False, 0.0
        self.look_for_news()

    def look_for_news(self) -> None:
        for look in list(self._news):
            self.kernel.spawn(self.process, "news", look)

    def call(self, name: str, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kernel = self.kernel
        kernel.let_step()
        self._spring(name, after=False)
        if name == self.late:
            self.late = ""
            self._lag(name, verb, args, kwargs)
        fate = kernel.random.random() if self.trouble else 1.0
        if self.dead or fate < self.trouble:
            trouble = 0.0 if self.dead else fate / self.trouble
            if trouble < 0.3:
                self._fail("the request is lost")
            elif trouble < 0.5:
                self._lag(name, verb, args, kwargs)
            elif trouble < 0.8:
                self._serve(verb, args, kwargs)
                self._fail("the reply is lost")
            else:
                kernel.wait(kernel.random.random() * TIMEOUT_S)
        reply = self._serve(verb, args, kwargs)
        self._spring(name, after=True)
        if self.dead:  # while the server waited for a job
            self._fail("the reply is lost")
        return self._pages(reply) if isinstance(reply, GeneratorType) else reply

    def _spring(self, name: str, after: bool) -> None:
        if self.trap is not None and self.trap[:2] == (name, after):
            (_, _, strike), self.trap = self.trap, None
            self.kernel.at(self.kernel.now, strike)
            self.kernel.wait(0.0)

    def _serve(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One step of the server, which is whole."""
        kernel = self.kernel
        if kernel.trace is not None:
            kernel.trace(f"    {getattr(verb, '__qualname__', 'the next page')} for {self.process}")
        kernel.serving = True
        try:
            return verb(*args, **kwargs)
        finally:
            kernel.serving = False

    def _pages(self, pages: Iterator[Any]) -> Iterator[Any]:
        """Each further page is a call of its own."""
        while True:
            try:
                page = self.call("next", next, (pages,), {})
            except StopIteration:
                return
            yield page

    def _lag(self, name: str, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        if name == "consume":  # nobody waits for a job on a line that is gone
            kwargs = {**kwargs, "wait_s": 0.0}

        def arrive() -> None:
            """From a process that may be dead by now."""
            with suppress(Exception):  # the server refuses, and nobody hears it
                self._serve(verb, args, kwargs)

        self.kernel.after(self.kernel.random.random() ** 3 * MOST_LATE_S, arrive)
        self._fail("the request is late")

    def _fail(self, why: str) -> NoReturn:
        kernel = self.kernel
        kernel.wait(kernel.random.choice((0.0, TIMEOUT_S)))
        raise BrokerUnavailable(why)

    def subscribe(self, name: str, verb: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        *others, changed = args
        missed = ("",) if name == "watch" and len(inspect.signature(changed).parameters) else ()

        def heard(*news: Any) -> None:
            if self.process.alive and not self.dead:
                changed(*(news or missed))

        end = verb(*others, heard)
        self._news.append(heard)

        def unsubscribe() -> None:
            self._news.remove(heard)
            end()

        return unsubscribe


class _FarPart:
    def __init__(self, part: Any, line: Line) -> None:
        self._part, self._line = part, line

    def __getattr__(self, name: str) -> Any:
        verb, line = getattr(self._part, name), self._line
        if not callable(verb) or name in _LOCAL:
            return verb

        def far(*args: Any, **kwargs: Any) -> Any:
            if name in _SUBSCRIPTIONS:
                return line.subscribe(name, verb, args)
            return line.call(name, verb, args, kwargs)

        setattr(self, name, far)
        return far


def far_away(broker: Broker, line: Line) -> Broker:
    """The broker, as a process sees it at the end of the line."""
    for part in PARTS:
        setattr(broker, part, _FarPart(getattr(broker, part), line))
    near, far = broker.part, dict[type, _FarPart]()

    def part(contract: type) -> Any:
        return far.setdefault(contract, _FarPart(near(contract), line))

    broker.part = part  # type: ignore[method-assign]
    return broker
