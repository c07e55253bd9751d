"""The main thread of a working process: it obeys commands until the daemon's life is over.

The launcher's thread, see `lifecycle`, starts and stops the daemon. So the main thread obeys a command at any moment:
while the launcher's thread waits for the broker, and during the drain. These signals are commands, see `signals`:

    TERM, INT   stop gracefully; again, later: at once, running jobs go back to their queues
    TSTP, USR1  quiet: no new jobs
    TTIN        log the stack of every thread, with the job that it runs
    HUP         reopen the log file, if there is one
    USR2        a child of `processes` asks its parent for a successor; a single process only logs a warning

The fleet asks for quiet, stop and dump, when somebody clicks in Sidekiq's page; the parent for retire, recover, reopen
and stop; the watchdog for stop when too many jobs are stuck.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goworkers_py.core.command import Command
from goworkers_py.observe.log_format import log_with_stack
from goworkers_py.runtime.running.thread_dump import thread_stacks
from goworkers_py.system.lifecycle import Lifecycle
from goworkers_py.system.logs import reopen_log_files
from goworkers_py.system.signals import handled_by

if TYPE_CHECKING:
    from goworkers_py.runtime.daemon import Daemon
    from goworkers_py.system.inbox import Inbox, Order
    from goworkers_py.system.parent_link import ParentLink
    from goworkers_py.system.systemd import SystemdNotifier

log = logging.getLogger(__name__)

# A signal that comes just as the main thread falls asleep on the queue's lock does not wake that thread: Python runs
# the signal's handler when the thread next wakes. Under load this happened to one signal in some hundred. Well below
# `lifecycle.SAME_REQUEST_S`, because the second signal of one request may be delayed like this.
LONGEST_SLEEP_S = 0.2


def run_until_stopped(daemon: Daemon, inbox: Inbox, parent: ParentLink | None, notifier: SystemdNotifier) -> int:
    """The exit code: 0 when nothing was left behind."""
    when_ready = parent.ready if parent is not None else _nothing
    life = Lifecycle(daemon, when_ready, ended=inbox.end)
    if parent is not None:
        parent.attend(daemon, inbox)
    answers = _answers(daemon, life, parent)

    def tell_systemd() -> None:
        with _failure_logged("the report to systemd"):
            notifier.follow(daemon.state, daemon.report)

    with handled_by(inbox):
        life.thread.start()
        for command, log_line in _until_ended(inbox, tell_systemd):
            log.info("%s", log_line)
            with _failure_logged(command.value):
                answers[command]()
        life.thread.join()
        if parent is not None:
            with _failure_logged("the last report to the parent"):
                parent.tell(daemon)
        code = life.exit_code()
        if parent is not None and code == 0:
            parent.end_well()  # inside the block: after it a signal may end this process, which is no failure
        return code


@contextmanager
def _failure_logged(what: str) -> Iterator[None]:
    """The main thread goes on after a failure: its end would end the process while jobs run."""
    try:
        yield
    except Exception:
        log.exception("%s failed", what)


def _answers(daemon: Daemon, life: Lifecycle, parent: ParentLink | None) -> dict[Command, Callable[[], None]]:
    return {
        Command.STOP_OR_HURRY: life.stop_or_hurry,
        Command.INTERRUPT: life.interrupt if parent is None else life.stop_or_hurry,  # a parent logs the hint
        Command.STOP: life.stop,
        Command.RETIRE: life.retire,
        Command.QUIET: daemon.quiet,
        Command.DUMP: lambda: dump_threads(daemon),
        Command.RECOVER: daemon.look_for_the_dead,
        Command.REOPEN: reopen_log_files,
        Command.REPLACE: _cannot_replace if parent is None else parent.ask_for_successor,
    }


def _cannot_replace() -> None:
    log.warning("USR2 ignored: there is one process only; restart it for new code, or set `processes`")


def _until_ended(inbox: Inbox, meanwhile: Callable[[], None]) -> Iterator[Order]:
    while True:
        meanwhile()
        try:
            order = inbox.take(LONGEST_SLEEP_S)
        except queue.Empty:
            continue
        if order is None:
            meanwhile()
            return
        yield order


def dump_threads(daemon: Daemon) -> None:
    for thread_stack in thread_stacks(daemon.running):
        log_with_stack(log, logging.WARNING, thread_stack.stack, "%s", thread_stack.thread)


def _nothing() -> None:
    pass
