"""The server and the daemons of the soak.

`steady` is a parent with two children, and lives from begin to end: what leaks in it adds up. `changing` is a single
process, which is deployed anew every ten minutes, and killed every half hour.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hasty import hasty
from servers import RedisServer, free_port

from soak import ENDS, PLAIN_LIST, PLAIN_QUEUE

STOP_S = 60.0

# What is kept for hours or days reaches its bound within minutes, so that each later growth is a leak.
SHORT_LIVES: dict[str, Any] = {
    "brokers.redis.queues.settlement.RECEIPT_LIFE_S": 120,
    "brokers.redis.driver.begin_calls.RECEIPT_LIFE_S": 120,
    "brokers.redis.fleet.sidekiq_metrics.MINUTE_LIFE_S": 600,
    "brokers.redis.fleet.sidekiq_metrics.TEN_MINUTES_LIFE_S": 1_200,
    "brokers.redis.fleet.leases.GONE_FOR_S": 1_200,
    "brokers.redis.fleet.leases.GONE_LIVES_S": 2_400,
    "brokers.redis.queues.effects.ID_LIFE_S": 600,
    "brokers.redis.queues.push_arguments.ID_LIFE_S": 600,
    # Records of jobs that people have removed: for an hour, whatever `retain` says.
    "features.tracking.redis_part.ENDED_S": 300,
    "features.calls.redis.CALLS_KEPT": 100,
    "features.calls.redis.REPORTS_KEPT": 300,
    "brokers.redis.admin.audit_list.ACTIONS_KEPT": 300,
}
OPTIONS = """
[pyworkers]
broker = {url}
require = soak.jobs
source = soak
logfile = {name}.log
log_level = warning
dead_max_jobs = 500
timeout = 10
[pool:several]
queues = plain, features
weights = 2, 3
concurrency = 6
[queue:ranked]
concurrency = 2
priorities = yes
[queue:slow]
concurrency = 6
[queue:{plain_queue}]
concurrency = 1
format = plain
list = {plain_list}
codec = json
handler = soak.jobs:take_body
"""
OF_STEADY = "processes = 2\nstats_port = {stats_port}\n[web]\nport = {web_port}\n"

ROOT = Path(__file__).parents[3]


class Fleet:
    """`note` is called with each thing that was done to it. Used by the main thread, then by that which breaks it."""

    def __init__(self, directory: Path, ends: Path, note: Callable[[str], None]) -> None:
        self._directory, self._note = directory, note
        # Without a file: it is ours that may grow.
        self.server = RedisServer(appendonly="no")
        self.stats_port, self.web_port, self.token = free_port(), free_port(), secrets.token_urlsafe()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYWORKERS_")},
            "PYWORKERS_WEB_TOKEN": self.token,
            ENDS: str(ends),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests/integration", ROOT))),
        }
        own = OF_STEADY.format(stats_port=self.stats_port, web_port=self.web_port)
        self.configurations = {"steady": self._configure("steady", own), "changing": self._configure("changing", "")}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        daemon = [sys.executable, "-m", "goworkers_py.cli", "run", "-c", self.configurations[name]]
        with (self._directory / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [*hasty(SHORT_LIVES), *daemon],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def deploy(self) -> None:
        self._note("deploy")
        self._stop("changing")
        self.start("changing")

    def kill(self) -> None:
        self._note("kill -9")
        self.daemons["changing"].kill()
        self.daemons["changing"].wait()
        self.start("changing")

    def reopen_logs(self) -> None:
        """As logrotate does. What was written so far is not kept."""
        self._note("logs reopened")
        for name, daemon in self.daemons.items():
            log = self._directory / f"{name}.log"
            log.replace(log.with_suffix(".old"))
            daemon.send_signal(signal.SIGHUP)

    def close(self) -> None:
        for name in self.daemons:
            self._stop(name)
        self.server.close()

    def ended(self) -> list[str]:
        """Daemons that have ended by themselves."""
        return [name for name, daemon in self.daemons.items() if daemon.poll() is not None]

    def logs(self) -> str:
        return "".join(path.read_text()[-2_000:] for path in sorted(self._directory.glob("*.[lo][ou][gt]")))

    def _stop(self, name: str) -> None:
        daemon, began = self.daemons[name], time.monotonic()
        daemon.terminate()
        try:
            daemon.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._note(f"{name} did not stop within {time.monotonic() - began:.0f} s: killed")
            daemon.kill()
            daemon.wait()

    def _configure(self, name: str, own: str) -> str:
        path = self._directory / f"{name}.ini"
        text = OPTIONS.format(url=self.server.url, name=name, plain_queue=PLAIN_QUEUE, plain_list=PLAIN_LIST)
        head, _, sections = text.partition("[pool:")
        path.write_text(f"{head}{own}[pool:{sections}")
        return str(path)
