"""The parent of `processes = N`: starts as many children, replaces those that die or are worn out, forwards signals.

It has one thread, beside those of `stats_port`, which only read; no connection to Redis and nothing of the user's code,
so that little can befall it. A child is the same command started again, so it runs the code that lies on the disk then.
A line, a pair of sockets, ties the two together. On it the child says

    ready        it fetches jobs
    worn out     it is above a limit, `max_jobs` or `max_memory`, and asks for a successor
    failed JSON  why it ends
    ended well   its work is done, and only its interpreter has still to end
    figures ...  of what shape its figures are; the parent leaves those of another one alone
    report JSON  how it does, every second, see `reports`
    stats JSON   what the server holds, now and then, where `stats_port` shows it

and the parent

    retire       another is in your place: end when your running jobs have, without a time limit
    recover      one of the others has died: look for its jobs now
    reopen       the log file was moved away: open it anew

Who is still wanted is replaced by a successor that is ready before the other one retires, one at a time: worn-out
children, and all of them on USR2. When a successor does not get ready, the others stay.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from goworkers_py.admin.stats import Stats
from goworkers_py.core.errors import BrokerUnavailable, WorkersError, of_word
from goworkers_py.observe.health_report import QUIET, SHAPE, STARTING, STOPPING, WORKING, HealthReport, merged, past
from goworkers_py.system.child_process import ChildProcess
from goworkers_py.system.logs import log_files, reopen_log_files
from goworkers_py.system.parent_link import (
    ENDED_WELL,
    FAILED,
    FIGURES,
    LINE_VARIABLE,
    READY,
    RECOVER,
    REOPEN,
    REPORT,
    RETIRE,
    STATS,
    WORN_OUT,
)
from goworkers_py.system.systemd import SystemdNotifier

log = logging.getLogger(__name__)

# A child that ended sooner than this is started again after a pause, twice as long each time.
SHORT_LIFE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LONGEST_SLEEP_S = 1.0
STATS_FRESH_S = 30.0
# How a child ends that has no handlers yet.
STOPPED = (-signal.SIGTERM, -signal.SIGINT)


class Supervisor:
    def __init__(self, processes: int, command: list[str], notifier: SystemdNotifier) -> None:
        self._processes = processes
        self._notifier = notifier
        self._command = command
        self._children: list[ChildProcess] = []
        self._to_replace: deque[ChildProcess] = deque()
        self._successor: ChildProcess | None = None
        self._begin_at = 0.0  # monotonic: no child is started before
        self._pause_s = 0.0
        self._any_was_ready = False
        self._all_were_ready = False
        self._quiet = False
        self._stopping = False
        self._exit_code = 0
        self._error: WorkersError | None = None  # of the first child, which none could begin after
        self._past = merged("", [])  # of the children that have ended
        self._burial = threading.Lock()  # nobody must see a child's figures twice, or not at all
        self._told_of_server: tuple[Stats | None, float] = None, 0.0
        self._selector = selectors.DefaultSelector()
        self._table: dict[int, Callable[[], None]] = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._interrupt,
            signal.SIGTSTP: self._be_quiet,
            signal.SIGUSR1: self._be_quiet,
            signal.SIGTTIN: lambda: self._forward(signal.SIGTTIN),
            signal.SIGUSR2: self._replace_all,
            **({signal.SIGHUP: self._reopen} if log_files() else {}),
            signal.SIGCHLD: lambda: None,  # wakes the loop, which looks at all children anyway
        }

    def run(self) -> int:
        """The exit code: 0 when every child ended well after a stop. Raises what kept the first one from working."""
        with self._signals() as happened:
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
        """Also asked for by threads of the HTTP port."""
        with self._burial:
            reports = [self._past, *(child.says() for child in self._children)]
        return _summed(self.state, reports)

    def stats(self) -> Stats:
        """What one of the children was told by the server lately. From any thread."""
        told, at = self._told_of_server
        if told is None or time.monotonic() - at > STATS_FRESH_S:
            raise BrokerUnavailable("none of the processes has reached Redis lately")
        return told

    @contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Each signal is a byte to read: the handlers have nothing to do."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        handlers = {number: signal.signal(number, _nothing) for number in self._table}
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._selector.close()
            ours.close()
            theirs.close()

    def _obey(self, happened: socket.socket) -> None:
        for number in happened.recv(4096):
            self._table.get(number, lambda: None)()  # the program may have handlers of its own

    # --- children

    def _fill(self, now: float) -> None:
        """As many children as there should be: one more while a successor gets ready."""
        if self._stopping or self._quiet:
            return
        if self._successor is None and self._to_replace and now >= self._begin_at:
            self._successor = self._begin()
            if self._successor is None:
                self._to_replace.clear()
        # The first one shows whether the code and the configuration are right: one error message, not N.
        wanted = self._processes if self._any_was_ready else 1
        while self._working < wanted and now >= self._begin_at:
            self._begin()

    @property
    def _working(self) -> int:
        return sum(not child.retired and child is not self._successor for child in self._children)

    def _begin(self) -> ChildProcess | None:
        """None when the machine has no room for another one now, or the program is just being replaced on the disk."""
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                number = theirs.fileno()
                process = subprocess.Popen(
                    self._command, env={**os.environ, LINE_VARIABLE: str(number)}, pass_fds=(number,)
                )
        except OSError as error:
            if not self._any_was_ready:
                raise
            log.error("cannot begin a process: %s", error)
            self._put_off(time.monotonic())
            return None
        child = ChildProcess(process, ours)
        ours.setblocking(False)
        self._children.append(child)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._listen(child))
        log.info("%s begins", child)
        return child

    def _listen(self, child: ChildProcess) -> None:
        try:
            lines = child.hear()
        except EOFError:
            self._selector.unregister(child.line)  # it is ending
            return
        for line in lines:
            if line == READY:
                self._now_ready(child)
            elif line == WORN_OUT and not child.retired and child not in self._to_replace:
                self._to_replace.append(child)
            else:
                child.ended_well |= line == ENDED_WELL
                self._take_figures(child, line)

    def _take_figures(self, child: ChildProcess, line: bytes) -> None:
        try:
            if line.startswith(FIGURES):
                child.alike = line.removeprefix(FIGURES).decode() == SHAPE
                if not child.alike:
                    log.warning("%s is of another version: its figures are not shown until this parent restarts", child)
            elif line.startswith(REPORT):
                child.reported_at = time.monotonic()
                if child.alike:
                    report = json.loads(line.removeprefix(REPORT))
                    merged("", [report])  # raises where it is none
                    child.report = report
            elif line.startswith(FAILED):
                child.error = of_word(json.loads(line.removeprefix(FAILED)))
            elif line.startswith(STATS) and child.alike:
                self._told_of_server = Stats.of(json.loads(line.removeprefix(STATS))), time.monotonic()
        except Exception:  # figures are never worth the processes
            log.exception("figures of %s cannot be read", child)

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
        """One that hangs in an import would keep the others from ever being replaced."""
        child = self._successor
        if child is not None and child.reported_at is None and not child.given_up and (why := child.silence()):
            log.error("%s %s: it is killed", child, why)
            child.given_up = True
            child.process.kill()

    def _retire(self, child: ChildProcess) -> None:
        log.info("%s retires when its jobs have ended", child)
        child.retired = True
        child.say(RETIRE)

    def _reap(self) -> None:
        for child in [*self._children]:
            code = child.process.poll()
            if code is not None and child in self._children:  # the end of one may stop all, and a stop comes here too
                self._bury(child)
                self._ended(child, code)

    def _bury(self, child: ChildProcess) -> None:
        with suppress(EOFError):
            while True:
                for line in child.hear():  # its last words
                    child.ready |= line == READY
                    child.ended_well |= line == ENDED_WELL
                    self._take_figures(child, line)
        with self._burial:
            if child.report is not None:
                self._past = _summed("", [self._past, past(child.report)])
            self._children.remove(child)
        if child in self._to_replace:
            self._to_replace.remove(child)
        with suppress(KeyError):
            self._selector.unregister(child.line)
        child.line.close()
        if all(other is self._successor for other in self._to_replace):
            self._successor = None  # whom it was to replace has died: it has that place already

    def _ended(self, child: ChildProcess, code: int) -> None:
        if code in STOPPED and not self._any_was_ready and not self._stopping:
            # systemd and Ctrl-C signal the whole process group: the first child may be struck before this process.
            self._stop()
        if self._stopping or child.retired or (self._quiet and code == 0):
            self._ended_as_asked(child, code)
            return
        if code == 0:
            log.warning("%s was stopped by somebody else; another takes its place", child)
        elif self._any_was_ready or child.error is None:  # or else it is raised
            log.error("%s died with %s", child, child.error or _told(code))
        self._tell_of_death()
        if not self._any_was_ready:
            # As one process would: what is wrong with the configuration or the code is not mended by trying again.
            self._exit_code = code if code > 0 else 1
            self._error = self._error or child.error
            self._stop()
            return
        self._put_off(child.born)
        if child is self._successor:
            self._successor = None
            if self._to_replace:
                log.error(
                    "%s was not ready before it died: the old ones go on; send USR2 again when it is mended", child
                )
                self._to_replace.clear()

    def _ended_as_asked(self, child: ChildProcess, code: int) -> None:
        # A signal that comes before a child can handle it, or when it does not any more, ends it too.
        clean = code == 0 or not child.ready or child.ended_well
        if not clean:
            self._tell_of_death()
            if self._stopping and not self._exit_code:
                self._exit_code = 1
        log.log(logging.INFO if clean else logging.WARNING, "%s ended with %s", child, child.error or _told(code))

    def _tell_of_death(self) -> None:
        for other in self._children:
            other.say(RECOVER)

    def _put_off(self, born: float) -> None:
        """One that did not live long is not started again at once."""
        long_lived = time.monotonic() - born >= SHORT_LIFE_S
        self._pause_s = 0.0 if long_lived else min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
        self._begin_at = time.monotonic() + self._pause_s

    # --- signals

    def _stop(self) -> None:
        """Again: the children do not wait for their jobs any more."""
        self._reap()  # the death of a child before the stop is no fault of the stop
        self._stopping = True
        self._forward(signal.SIGTERM)
        for child in self._children:
            child.process.send_signal(signal.SIGCONT)  # one that is stopped could not end

    def _interrupt(self) -> None:
        if not self._stopping:
            log.info("stopping; a second Ctrl-C stops at once, and running jobs go back to their queues")
        self._stop()

    def _be_quiet(self) -> None:
        self._quiet = True
        self._forward(signal.SIGTSTP)

    def _replace_all(self) -> None:
        log.info("USR2: every process is replaced by a new one, one at a time")
        self._to_replace.extend(
            child for child in self._children if not child.retired and child not in self._to_replace
        )

    def _reopen(self) -> None:
        reopen_log_files()
        for child in self._children:
            child.say(REOPEN)

    def _forward(self, number: signal.Signals) -> None:
        log.info("SIG%s for %d processes", number.name.removeprefix("SIG"), len(self._children))
        for child in self._children:
            # Before it has its handlers, TSTP and TTIN would stop it as they stop any program, for good.
            if child.ready or number == signal.SIGTERM:
                child.process.send_signal(number)


def _summed(state: str, reports: list[HealthReport]) -> HealthReport:
    try:
        return merged(state, reports)
    except Exception:  # figures are never worth the processes
        log.exception("figures cannot be added up")
        return merged(state, [])


def own_command() -> list[str]:
    """What started this process, in words that hold in any directory."""
    arguments = sys.orig_argv[1:]
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = str(Path(arguments[0]).absolute())
    return [sys.executable, *arguments]


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def _told(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"
