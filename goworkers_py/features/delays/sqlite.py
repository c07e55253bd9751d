"""The persistence of a delay queue in a file of SQLite, which several processes of one machine may share.

All processes count the time by one clock: the machine's clock that no step of the time changes, and one difference to
the epoch, which the file keeps for as long as the machine runs. After a restart of the machine, its wall clock counts.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import BrokerUnavailable, ConfigError
from goworkers_py.core.proc import boot_id
from goworkers_py.core.strikes import Lock
from goworkers_py.features.delays.task import NEVER, DelayTask, read_or_held

V = 1
BUSY_S = 5.0
PAGE = 1_000

_TABLES = f"""
CREATE TABLE IF NOT EXISTS delay_tasks (
    id TEXT PRIMARY KEY, due REAL NOT NULL, record TEXT NOT NULL, owner TEXT, claim TEXT
);
CREATE INDEX IF NOT EXISTS delay_tasks_due ON delay_tasks (due);
CREATE TABLE IF NOT EXISTS delay_owners (owner TEXT PRIMARY KEY, boot TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS delay_clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, ahead REAL);
PRAGMA user_version = {V};
"""
_SAVE = "INSERT OR REPLACE INTO delay_tasks (id, due, record, owner) VALUES (?, ?, ?, NULL)"
# An owner's claim counts while this finds a row.
_LIVES = "SELECT 1 FROM delay_owners WHERE owner = ? AND boot = ? AND until > ?"


class SQLitePersistence:
    """Tasks in a file: `workers.DelayQueue(executors, workers.SQLitePersistence("/var/lib/shop/delays.db"))`. Each save
    is on the disk when `push` returns. Several processes of one machine may share the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._lock = Lock()  # one thread at a time uses the connection
        self._connection: sqlite3.Connection | None = None
        self._ahead_s: float | None = None  # of the file's clock to this machine's; set once, under the lock
        self.clock = Clock()
        self.claims = SQLiteClaims(self)

    def save(self, task: DelayTask) -> None:
        self.save_many([task])

    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        with self.step() as step:
            _save(step, tasks)

    def save_from(self, tasks: Sequence[DelayTask], now: float) -> Sequence[DelayTask]:
        with self.step() as step:
            kept = self.counted(step, tasks, now)
            _save(step, kept)
        return kept

    def list(self) -> list[DelayTask]:
        with self.step() as step:
            found = step.execute("SELECT id, record FROM delay_tasks ORDER BY due").fetchall()
        return [read_or_held(task_id, record) for task_id, record in found]

    def delete(self, task_id: str) -> bool:
        with self.step() as step:
            return step.execute("DELETE FROM delay_tasks WHERE id = ?", (task_id,)).rowcount > 0

    def delete_many(self, ids: Sequence[str]) -> None:
        with self.step() as step:
            step.executemany("DELETE FROM delay_tasks WHERE id = ?", [(task_id,) for task_id in ids])

    def time(self) -> float:
        with self.step() as step:
            return self.now(step)

    def now(self, step: sqlite3.Connection) -> float:
        """The time in this step."""
        if self._ahead_s is None:
            boot = boot_id()
            kept = step.execute("SELECT boot, ahead FROM delay_clock").fetchone()
            if kept is not None and boot and kept[0] == boot:
                ahead_s: float = kept[1]
            else:
                ahead_s = machine.time() - machine.awake_and_asleep()
                step.execute("INSERT OR REPLACE INTO delay_clock (one, boot, ahead) VALUES (1, ?, ?)", (boot, ahead_s))
            self._ahead_s, at = ahead_s, machine.awake_and_asleep()
            self.clock.synchronize(at + ahead_s, at, at)
        return machine.awake_and_asleep() + self._ahead_s

    def counted(self, step: sqlite3.Connection, tasks: Sequence[DelayTask], now: float) -> Sequence[DelayTask]:
        shift_s = self.now(step) - now
        return [task._replace(due=task.due + shift_s) for task in tasks]

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @contextmanager
    def step(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing of it."""
        with self._lock:
            try:
                connection = self._connection = self._connection or self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.rollback()
                    raise
            except sqlite3.Error as error:
                raise BrokerUnavailable(f"{self._path}: {error}; nothing was changed") from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            [version] = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, V):
                raise ConfigError(f"{self._path} is of another release (version {version}); this one knows {V}")
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            if version == 0:
                connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection


class SQLiteClaims:
    """The claims of processes on one machine. Their leases end by the machine's clock, and with the machine's end."""

    def __init__(self, persistence: SQLitePersistence) -> None:
        self._persistence = persistence

    def beat(self, owner: str, lease_s: float) -> None:
        boot, now = boot_id(), machine.awake_and_asleep()
        with self._persistence.step() as step:
            since = _silent_since(step, owner, lease_s, now)
            if since is not None:
                # A whole second tells such a lease from one that its owner has asked for: it is given once.
                renewed = (
                    "UPDATE delay_owners SET until = ? WHERE boot = ? AND until BETWEEN ? AND ? "
                    "AND until != CAST(until AS INTEGER)"
                )
                step.execute(renewed, (math.floor(now + lease_s), boot, since, now))
            step.execute("DELETE FROM delay_owners WHERE boot != ? OR until < ?", (boot, now))
            step.execute("INSERT OR REPLACE INTO delay_owners VALUES (?, ?, ?)", (owner, boot, now + lease_s))

    def leave(self, owner: str) -> None:
        with self._persistence.step() as step:
            step.execute("DELETE FROM delay_owners WHERE owner = ?", (owner,))

    def take(self, owner: str, claim: str, ids: Sequence[str], now: float) -> list[DelayTask]:
        taken = []
        with self._persistence.step() as step:
            if not _lives(step, owner):
                return []
            if now != NEVER:
                now = min(now, self._persistence.now(step))  # the caller only guesses
            for task_id in ids:
                row = step.execute("SELECT due, record, owner FROM delay_tasks WHERE id = ?", (task_id,)).fetchone()
                if row is not None and row[0] <= now and not (row[2] and row[2] != owner and _lives(step, row[2])):
                    step.execute("UPDATE delay_tasks SET owner = ?, claim = ? WHERE id = ?", (owner, claim, task_id))
                    taken.append((task_id, row[1]))
        return [read_or_held(task_id, record) for task_id, record in taken]

    def end(
        self,
        owner: str,
        claim: str,
        done: Collection[str],
        again: Sequence[DelayTask],
        free: Collection[str],
        now: float | None = None,
    ) -> Sequence[DelayTask]:
        ours = "WHERE id = ? AND owner = ? AND claim = ?"
        saved = []
        with self._persistence.step() as step:
            step.executemany(f"DELETE FROM delay_tasks {ours}", [(task_id, owner, claim) for task_id in done])
            for task in again if now is None else self._persistence.counted(step, again, now):
                update = f"UPDATE delay_tasks SET due = ?, record = ?, owner = NULL {ours}"
                if step.execute(update, (task.due, task.to_json(), task.id, owner, claim)).rowcount:
                    saved.append(task)
            step.executemany(
                f"UPDATE delay_tasks SET owner = NULL {ours}", [(task_id, owner, claim) for task_id in free]
            )
        return saved

    def cancel(self, owner: str, task_id: str) -> bool:
        with self._persistence.step() as step:
            row = step.execute("SELECT owner FROM delay_tasks WHERE id = ?", (task_id,)).fetchone()
            if row is None:
                return False
            step.execute("DELETE FROM delay_tasks WHERE id = ?", (task_id,))
            return not (row[0] and row[0] != owner and _lives(step, row[0]))

    def coming(self, until: float) -> list[tuple[str, float]]:
        with self._persistence.step() as step:
            return step.execute("SELECT id, due FROM delay_tasks WHERE due <= ? ORDER BY due", (until,)).fetchall()

    def read(self, ids: Sequence[str]) -> list[DelayTask]:
        with self._persistence.step() as step:
            asked = (
                step.execute("SELECT id, record FROM delay_tasks WHERE id = ?", (task_id,)).fetchone()
                for task_id in ids
            )
            found = [row for row in asked if row is not None]
        return [read_or_held(task_id, record) for task_id, record in found]


def _write_ahead(connection: sqlite3.Connection) -> None:
    """For this one command SQLite does not wait while another process makes the file. It waits for a transaction."""
    give_up_at = machine.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if machine.monotonic() >= give_up_at:
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")


def _save(step: sqlite3.Connection, tasks: Sequence[DelayTask]) -> None:
    step.executemany(_SAVE, [(task.id, task.due, task.to_json()) for task in tasks])


def _silent_since(step: sqlite3.Connection, owner: str, lease_s: float, now: float) -> float | None:
    """Since when nothing was heard of this owner, which lives, or of any owner: the machine slept, or they stood still.
    Leases that have ended since then are no proof of a death. The same as in delay_beat.lua."""
    row = step.execute("SELECT until FROM delay_owners WHERE owner = ? AND boot = ?", (owner, boot_id())).fetchone()
    if row is not None:
        return float(row[0]) - lease_s if row[0] <= now + lease_s / 2 else None
    [latest] = step.execute("SELECT max(until) FROM delay_owners WHERE boot = ?", (boot_id(),)).fetchone()
    return float(latest) - lease_s if latest is not None and latest <= now else None


def _lives(step: sqlite3.Connection, owner: str) -> bool:
    return step.execute(_LIVES, (owner, boot_id(), machine.awake_and_asleep())).fetchone() is not None
