"""The parent of `processes = N`: starts N children, replaces children that die or are worn out, forwards signals.

The parent has one thread, beside those of `stats_port`, which only read. It has no connection to the broker and none of
the user's code, so that little can fail in it. It starts a child by its own command, so the child runs the code that is
on the disk at that time. Parent and child talk through a line, a pair of sockets. The child sends

    ready        it fetches jobs
    worn out     it is above a limit, `max_jobs` or `max_memory`, and asks for a successor
    failed JSON  why it ends
    ended well   its work is done, and only its interpreter has still to end
    figures ...  the shape of its figures; the parent shows no figures of another shape
    report JSON  its health, every second, see `health_report`
    stats JSON   the broker's figures, every few seconds, if `stats_port` shows them

and the parent sends the value of a `Command`: retire, recover, reopen.

A worn-out child, and on USR2 every child, is replaced by a successor: it retires only when the successor is ready. The
parent replaces one child at a time. If a successor does not get ready, the other children stay.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from goworkers_py.core.command import Command
from goworkers_py.observe.health_report import QUIET, STARTING, STOPPING, WORKING, HealthReport
from goworkers_py.system.child_process import ChildProcess, ending
from goworkers_py.system.fleet_figures import FleetFigures
from goworkers_py.system.logs import reopen_log_files
from goworkers_py.system.parent_link import ENDED_WELL, READY, WORN_OUT
from goworkers_py.system.signals import commands_of_signals, signals_as_bytes

if TYPE_CHECKING:
    from goworkers_py.core.errors import WorkersError
    from goworkers_py.system.systemd import SystemdNotifier

log = logging.getLogger(__name__)

# If a child ended sooner than this, the next one starts after a pause, which doubles each time.
SHORT_LIFE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LONGEST_SLEEP_S = 1.0
MOST_EARLY_DEATHS = 5  # by signals, before any child was ready
STOPPED = (-signal.SIGTERM, -signal.SIGINT)  # exit codes of a child that a signal ended before it had handlers


class Supervisor:
    def __init__(self, processes: int, command: list[str], notifier: SystemdNotifier) -> None:
        self._processes = processes
        self._notifier = notifier
        self._command = command
        self._children: list[ChildProcess] = []
        self._to_replace: deque[ChildProcess] = deque()
        self._successor: ChildProcess | None = None
        self._begin_at = 0.0  # monotonic: no child is started before this time
        self._pause_s = 0.0
        self._any_was_ready = False
        self._early_deaths = 0  # before any child was ready
        self._all_were_ready = False
        self._quiet = False
        self._stopping = False
        self._exit_code = 0
        self._error: WorkersError | None = None  # why the first child could not start; `run` raises it
        self._figures = FleetFigures()
        self.stats = self._figures.stats  # from any thread
        self._selector = selectors.DefaultSelector()
        answers = {
            Command.STOP_OR_HURRY: self._stop,
            Command.INTERRUPT: self._interrupt,
            Command.QUIET: self._be_quiet,
            Command.DUMP: lambda: self._forward(signal.SIGTTIN),
            Command.REPLACE: self._replace_all,
            Command.REOPEN: self._reopen,
        }
        self._table: dict[int, Callable[[], None]] = {
            **{number: answers[command] for number, command in commands_of_signals().items()},
            signal.SIGCHLD: lambda: None,  # only wakes the loop, which checks all children anyway
        }

    def run(self) -> int:
        """Returns the exit code: 0 when every child ended well after a stop. Raises the error of a first child."""
        with signals_as_bytes(self._table) as happened, self._selector:
            self._selector.register(happened, selectors.EVENT_READ, lambda: self._obey(happened))
            while self._children or not self._stopping:
                now = time.monotonic()
                self._fill(now)
                pause_s = self._begin_at - now
                for key, _ in self._selector.select(min(pause_s, LONGEST_SLEEP_S) if pause_s > 0 else LONGEST_SLEEP_S):
                    key.data()
                self._give_up_successor()
                self._reap()
                self._notifier.follow(self.state, self.report)
        log.info("stopped")
        if self._error is not None:
            raise self._error
        return self._exit_code

    @property
    def state(self) -> str:
        if self._stopping:
            return STOPPING
        if self._quiet:
            return QUIET
        return WORKING if self._all_were_ready else STARTING

    def report(self) -> HealthReport:
        """From any thread."""
        return self._figures.report(self.state, self._children)

    def _obey(self, happened: socket.socket) -> None:
        for number in happened.recv(4096):
            self._table.get(number, lambda: None)()  # the program may have handlers of its own

    # --- children

    def _fill(self, now: float) -> None:
        """Starts the missing children, and a successor beside them when one is to be replaced."""
        if self._stopping or self._quiet:
            return
        if self._successor is None and self._to_replace and now >= self._begin_at:
            self._successor = self._begin()
            if self._successor is None:
                self._to_replace.clear()
        # Only one child until it is ready: a mistake in the code or the configuration is reported once, not N times.
        wanted = self._processes if self._any_was_ready else 1
        while self._working < wanted and now >= self._begin_at:
            self._begin()

    @property
    def _working(self) -> int:
        return sum(not child.retired and child is not self._successor for child in self._children)

    def _begin(self) -> ChildProcess | None:
        """None when the machine has no room for a process now, or the program file is just being replaced."""
        try:
            child = ChildProcess.start(self._command)
        except OSError as error:
            if not self._any_was_ready:
                raise
            log.error("cannot start a process, trying again later: %s", error)
            self._put_off(time.monotonic())
            return None
        self._children.append(child)
        self._selector.register(child.line, selectors.EVENT_READ, lambda: self._listen(child))
        log.info("%s started", child)
        return child

    def _listen(self, child: ChildProcess) -> None:
        try:
            lines = child.hear()
        except EOFError:
            self._selector.unregister(child.line)  # the child is ending
            return
        for line in lines:
            if line == READY:
                self._now_ready(child)
            elif line == WORN_OUT and not child.retired and child not in self._to_replace:
                self._to_replace.append(child)
            else:
                child.ended_well |= line == ENDED_WELL
                self._figures.take(child, line)

    def _now_ready(self, child: ChildProcess) -> None:
        child.ready = self._any_was_ready = True
        self._all_were_ready |= sum(child.ready for child in self._children) >= self._processes
        if self._quiet:
            child.process.send_signal(signal.SIGTSTP)
        if child is self._successor:
            self._successor = None
            if self._to_replace:
                self._retire(self._to_replace.popleft())

    def _give_up_successor(self) -> None:
        """Kills a successor that hangs in an import: otherwise no other child could ever be replaced."""
        child = self._successor
        if child is not None and child.reported_at is None and not child.given_up and (why := child.silence()):
            log.error("%s %s: killing it", child, why)
            child.given_up = True
            child.process.kill()

    def _retire(self, child: ChildProcess) -> None:
        log.info("%s retires when its jobs have ended", child)
        child.retired = True
        child.say(Command.RETIRE)

    def _reap(self) -> None:
        for child in [*self._children]:
            code = child.process.poll()
            if code is not None and child in self._children:  # `_ended` may call `_stop`, which reaps too
                self._remove(child)
                self._ended(child, code)

    def _remove(self, child: ChildProcess) -> None:
        with suppress(EOFError):
            while True:
                for line in child.hear():  # its last lines
                    child.ready |= line == READY
                    child.ended_well |= line == ENDED_WELL
                    self._figures.take(child, line)
        with self._figures.last_word_of(child):
            self._children.remove(child)
        if child in self._to_replace:
            self._to_replace.remove(child)
        with suppress(KeyError):
            self._selector.unregister(child.line)
        child.line.close()
        if all(other is self._successor for other in self._to_replace):
            self._successor = None  # the child that it should replace has died: it is that one's replacement

    def _ended(self, child: ChildProcess, code: int) -> None:
        if code in STOPPED and not self._any_was_ready and not self._stopping:
            # systemd and Ctrl-C signal the whole process group: the first child may get the signal before this process.
            self._stop()
        if self._stopping or child.retired or (self._quiet and code == 0):
            self._ended_as_asked(child, code)
            return
        if code == 0:
            log.warning("%s exited with 0 unexpectedly; starting a replacement", child)
        elif self._any_was_ready or child.error is None:  # otherwise `run` raises it
            log.error("%s died with %s", child, child.error or ending(code))
        self._tell_of_death()
        self._early_deaths += 1
        killed = code < 0 and child.error is None
        if not self._any_was_ready and not (killed and self._early_deaths < MOST_EARLY_DEATHS):
            # Another try does not mend the configuration or the code. After a kill -9 it may.
            level = logging.ERROR if killed else logging.INFO  # otherwise the child's own error is enough
            log.log(level, "no process gets ready, tries: %d; stopping", self._early_deaths)
            self._exit_code = code if code > 0 else 1
            self._error = self._error or child.error
            self._stop()
            return
        self._put_off(child.born)
        if child is self._successor:
            self._successor = None
            if self._to_replace:
                log.error(
                    "%s died before it was ready: the old processes go on; mend the cause, then send USR2 again", child
                )
                self._to_replace.clear()

    def _ended_as_asked(self, child: ChildProcess, code: int) -> None:
        # A signal ends a child that does not handle signals yet (not ready), or no longer does (ended well).
        clean = code == 0 or not child.ready or child.ended_well
        if not clean:
            self._tell_of_death()
            if self._stopping and not self._exit_code:
                self._exit_code = 1
        log.log(logging.INFO if clean else logging.WARNING, "%s ended with %s", child, child.error or ending(code))

    def _tell_of_death(self) -> None:
        for other in self._children:
            other.say(Command.RECOVER)

    def _put_off(self, born: float) -> None:
        """After a child that did not live long, the next one is started only after a pause."""
        long_lived = time.monotonic() - born >= SHORT_LIFE_S
        self._pause_s = 0.0 if long_lived else min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
        self._begin_at = time.monotonic() + self._pause_s

    # --- signals

    def _stop(self) -> None:
        """Forwards TERM. A second one makes the children stop without waiting for their jobs."""
        self._reap()  # a child that died before the stop must not count as a failure of the stop
        self._stopping = True
        self._forward(signal.SIGTERM)
        for child in self._children:
            child.process.send_signal(signal.SIGCONT)  # a child that is suspended (SIGSTOP) could not end

    def _interrupt(self) -> None:
        if not self._stopping:
            log.info("stopping; a second Ctrl-C stops at once, and running jobs go back to their queues")
        self._stop()

    def _be_quiet(self) -> None:
        self._quiet = True
        self._forward(signal.SIGTSTP)

    def _replace_all(self) -> None:
        log.info("USR2: replacing every process by a new one, one at a time")
        self._to_replace.extend(
            child for child in self._children if not child.retired and child not in self._to_replace
        )

    def _reopen(self) -> None:
        reopen_log_files()
        for child in self._children:
            child.say(Command.REOPEN)

    def _forward(self, number: signal.Signals) -> None:
        log.info("SIG%s for %d processes", number.name.removeprefix("SIG"), len(self._children))
        for child in self._children:
            # TSTP and TTIN would suspend a child that has no handlers yet, as any program, for good.
            if child.ready or number == signal.SIGTERM:
                child.process.send_signal(number)
