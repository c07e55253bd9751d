"""The commands thread: obeys the calls that people give to this process, and answers each.

It reads the end of the stream of calls before the process starts to work, and then what comes after. Each call is read
once: the position moves before the first of the calls that were read is obeyed, and those that are not obeyed yet wait
in `_to_obey`, each with the end of its life: a process may stand still between the two. An answer that cannot be given
now waits in `_answers`, until the caller waits for it no more.

The commands that every process knows (`BuiltInCommands`) are done at once, in this thread. Those of the program run in
threads of their own (`OwnCommands`). A name that is neither is answered with an error: nothing that comes in is run.
"""

from __future__ import annotations

import logging
import queue
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import ArgumentError, BrokerError, BrokerRefused, NotHere, WorkersError
from goworkers_py.core.escaping import one_line
from goworkers_py.core.values import dataclass
from goworkers_py.features.calls.built_in_commands import BuiltInCommands
from goworkers_py.features.calls.call import BUILT_IN, Answer, Call
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.calls.own_commands import OwnCommands, check_arguments, declared_commands
from goworkers_py.features.calls.record import LONGEST_VALUE, json_text
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.runtime.controls import Controls
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)

# An answer that could not be given for so long is dropped: a caller waits for a minute at most.
ANSWER_LIVES_S = 120.0
LONGEST_SHOWN = 200

BuiltIn = Mapping[str, Callable[..., Any]]


class CommandsHere(InProcess):
    def __init__(self, process: WorkerProcess, controls: Callable[[], Controls], calls: Calls) -> None:
        config, own = process.plan.config, declared_commands(process.plan.registry)
        queues = [queue for pool in process.plan.pools for queue in pool.queues]
        facts = Facts(config.tag, queues, config.partition_name)
        built_in = BuiltInCommands(process.plan.config, controls, process.obey).by_name()
        self._names = [*BUILT_IN, *own]
        self._service = Commands(calls, built_in, OwnCommands(own), facts, process.shared)

    def answers(self) -> Sequence[str]:
        return self._names

    def services(self) -> Sequence[Commands]:
        return (self._service,)


@dataclass(frozen=True, slots=True)
class Facts:
    """The properties of this process that a target may name."""

    tag: str
    queues: Collection[str]
    partition: str


class Commands(BrokerService):
    compare_every_s = 5.0

    def __init__(self, calls: Calls, built_in: BuiltIn, own: OwnCommands, facts: Facts, shared: Shared) -> None:
        super().__init__("commands", shared.outage)
        self._calls = calls
        self._built_in = built_in
        self._own = own
        self._facts = facts
        self._lease = shared.lease
        self._position: str | None = None  # of the last call that was read; None before the first look
        self._to_obey: deque[tuple[float, Call]] = deque()  # each with its end, on the clock `awake_and_asleep`
        # Added to by this thread and those of own commands, taken by this thread. Each with the time of its end.
        self._answers: deque[tuple[float, Call, Answer]] = deque()
        self._warned = False
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()

    def begin(self) -> None:
        """By the thread that starts the process, before this thread: calls of before are not obeyed."""
        self._position = self._calls.end()

    def run(self) -> None:
        ends: Callable[[], None] | None = None
        with suppress(BrokerError):  # then it compares only
            ends = self._calls.listen(lambda: self._woken.put(None))
        try:
            super().run()
            with suppress(BrokerError):
                self._give_answers()
        finally:
            if ends is not None:
                ends()

    def run_once(self) -> float:
        with suppress(queue.Empty):  # one look is for all messages that have come until now
            while True:
                self._woken.get_nowait()
        try:
            self.look()
        except BrokerRefused as error:
            self._warn(error)
        return self.compare_every_s

    def look(self) -> None:
        if self._position is None:  # the broker has refused until now
            self.begin()
        else:
            asked_at = machine.awake_and_asleep()
            self._position, found = self._calls.after(self._position)
            self._to_obey.extend((asked_at + call.life_s, call) for call in found if self._is_for_me(call))
        while self._to_obey:
            until, call = self._to_obey.popleft()
            if machine.awake_and_asleep() < until:
                self._obey(call)
            else:
                log.warning("command from %s expired, not obeyed: %s", _shown(call.asker), _shown(call.name))
        self._give_answers()

    def _is_for_me(self, call: Call) -> bool:
        facts = self._facts
        return call.target.fits(self._lease.identity, facts.tag, facts.queues, facts.partition)

    def _obey(self, call: Call) -> None:
        log.info("command from %s: %s %s", _shown(call.asker), _shown(call.name), _shown(str(call.arguments)))
        try:
            if call.name in self._own:
                self._own.begin(call, lambda value, error: self._own_ended(call, value, error))
            else:
                self._answer(call, self._done(call), None)
        except Exception as error:
            if not isinstance(error, WorkersError):
                log.exception("command %s failed", _shown(call.name))
            self._answer(call, None, error)

    def _done(self, call: Call) -> Any:
        function = self._built_in.get(call.name)
        if function is None:
            raise ArgumentError(f"this process has no command {_shown(call.name)}")
        check_arguments(call, function)
        return function(*call.arguments)

    def _own_ended(self, call: Call, value: Any, error: BaseException | None) -> None:
        """In the command's thread."""
        self._answer(call, value, error)
        self._woken.put(None)

    def _answer(self, call: Call, value: Any, error: BaseException | None) -> None:
        if error is None:
            try:
                json_text(value, f"the value of {call.name}", LONGEST_VALUE)
            except ArgumentError as wrong:
                value, error = None, wrong
        reason, here = "" if error is None else _error_text(error), not isinstance(error, NotHere)
        answer = Answer(self._lease.identity, value, reason, here)
        self._answers.append((machine.monotonic() + ANSWER_LIVES_S, call, answer))

    def _give_answers(self) -> None:
        while self._answers:
            until, call, answer = self._answers[0]
            if machine.monotonic() < until:
                self._calls.answer(call.id, answer)
            self._answers.popleft()  # after it was given: an error keeps it

    def _warn(self, error: BrokerRefused) -> None:
        if not self._warned:
            self._warned = True
            log.warning("commands cannot be read and answered: %s; jobs run all the same", error)

    def wait_between(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._woken.get(timeout=seconds)

    def wake(self) -> None:
        self._woken.put(None)

    def join(self, deadline: Deadline) -> bool:
        """By the thread that stops the process. Gives the answers of own commands that ended after this thread."""
        if not super().join(deadline):
            return False
        ended = self._own.join(deadline)
        with suppress(BrokerError):
            self._give_answers()
        return ended


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, WorkersError) else f"{type(error).__name__}: {error}"


def _shown(text: str) -> str:
    return one_line(text[:LONGEST_SHOWN])
