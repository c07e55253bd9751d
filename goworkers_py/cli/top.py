"""`top`: a screen with the queues, the processes and the running jobs, drawn again each second."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process, QueueStats, Running
from goworkers_py.cli.base import connected
from goworkers_py.cli.tables import TextTable, arguments, cut, duration
from goworkers_py.config.parsers import without_password
from goworkers_py.core.errors import BrokerUnavailable

EVERY_S = 1.0
END_KEYS = set(b"qQ\x03")  # the last is Ctrl-C
# Escape sequences of the terminal.
_OTHER_SCREEN = "\x1b[?1049h\x1b[?25l"  # without a cursor
_BACK = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_CLEAR_LINE = "\x1b[K"  # from the cursor to the end of the line
_CLEAR_BELOW = "\x1b[J"


@click.command()
@click.option("--once", is_flag=True, help="print the screen once, for scripts")
@connected
def top(app: App, once: bool) -> None:
    """Shows counters, queues, processes and running jobs live. Ctrl-C or q ends it."""
    screen = Screen(app)
    if once:
        click.echo("\n".join(screen.lines(height=0)))
    elif not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; --once prints it once")
    else:
        _live(screen)


def _live(screen: Screen) -> None:
    with _whole_terminal():
        while True:
            width, height = shutil.get_terminal_size()
            try:
                lines = screen.lines(height)
            except BrokerUnavailable as error:
                lines = [f"no server: {error}"]
            shown = f"{_CLEAR_LINE}\n".join(cut(line, width) for line in lines[:height])
            click.echo(_HOME + shown + _CLEAR_LINE + _CLEAR_BELOW, nl=False)
            if select.select([sys.stdin], [], [], EVERY_S)[0]:
                typed = os.read(sys.stdin.fileno(), 64)
                if not typed or END_KEYS & set(typed):  # no bytes: the terminal is gone
                    return


@contextmanager
def _whole_terminal() -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    old_handler = signal.signal(signal.SIGTERM, _end)
    tty.setcbreak(sys.stdin)
    ours = termios.tcgetattr(sys.stdin)
    ours[3] &= ~termios.ISIG  # read Ctrl-C as a key: code that a KeyboardInterrupt strikes may swallow it
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, ours)
    click.echo(_OTHER_SCREEN, nl=False)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        click.echo(_BACK, nl=False)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, old_handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second SIGTERM ends the process at once
    sys.exit(128 + number)


class Screen:
    """Keeps the last counters, to show jobs per second."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._last: tuple[float, int, int] | None = None  # when, processed, failed

    def lines(self, height: int) -> list[str]:
        """At most `height` lines; 0: all."""
        inspector = self._app.inspector
        stats, queues = inspector.stats(), inspector.queues()
        processes, running = inspector.processes(), inspector.running()
        now = time.time()
        done, failed = self._rates(stats.processed, stats.failed)
        rare = {"parked": stats.parked, "outbox": stats.outbox}
        dead = "".join([f"  dead {stats.dead:,}", *(f"  {name} {count:,}" for name, count in rare.items() if count)])
        head = [
            f"pyworkers top  {without_password(self._app.config.broker)}  {time.strftime('%H:%M:%S')}",
            f"processed {stats.processed:,}{done}  failed {stats.failed:,}{failed}",
            f"in progress {stats.in_progress:,}  scheduled {stats.scheduled:,}  retries {stats.retries:,}{dead}",
        ]
        tables = [_queues(queues), _processes(processes), _running(running, now)]
        room = [len(table) for table in tables] if not height else _share(height - len(head), tables)
        for table, rows in zip(tables, room, strict=True):
            head += ["", *_shortened(table, rows)] if rows > 1 else []
        return head

    def _rates(self, processed: int, failed: int) -> tuple[str, str]:
        now, last = time.monotonic(), self._last
        self._last = (now, processed, failed)
        if last is None:
            return "", ""
        seconds = max(now - last[0], 1e-3)
        return f" ({(processed - last[1]) / seconds:.0f}/s)", f" ({(failed - last[2]) / seconds:.0f}/s)"


def _share(height: int, tables: Sequence[Sequence[str]]) -> list[int]:
    """How many rows each table gets, from the first: an equal part of the rows that are left, or fewer if it needs
    fewer."""
    rows: list[int] = []
    for position, table in enumerate(tables):
        rows.append(max(0, min(len(table), (height - sum(rows) - position) // (len(tables) - position) - 1)))
    return rows


def _shortened(table: list[str], rows: int) -> list[str]:
    if len(table) <= rows:
        return table
    return [*table[: rows - 1], f"... and {len(table) - rows + 1} more"]


def _queues(queues: Sequence[QueueStats]) -> list[str]:
    rows = [
        (queue.name, f"{queue.size:,}", duration(queue.latency_s), "paused" if queue.paused else "")
        for queue in sorted(queues, key=lambda queue: (-queue.size, queue.name))
    ]
    return TextTable("queue", "size>", "latency>", "").lines(rows)


def _processes(processes: Sequence[Process]) -> list[str]:
    rows = [
        (process.identity, f"{process.busy}/{process.concurrency}", "quiet" if process.quiet else "",
         f"{process.rss_kb // 1024} MB", process.partition or "-", ", ".join(process.queues))
        for process in sorted(processes, key=lambda process: (-process.busy, process.identity))
    ]  # fmt: skip
    return TextTable("process", "busy>", "", "memory>", "partition", "queues").lines(rows)


def _running(running: Sequence[Running], now: float) -> list[str]:
    rows: list[Sequence[str]] = []
    for run in running:
        message = run.job.message
        columns = (message.job_class, message.jid, arguments(message)) if message else ("(unreadable)", "", "")
        runs_for = "?" if run.since is None else duration(max(0, now - run.since))
        rows.append((runs_for, run.queue, *columns))
    return TextTable("running>", "queue", "class", "jid", "arguments").lines(rows)
