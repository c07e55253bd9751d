"""asynq and go-workers, built from the module in ../go, which pins them."""

from __future__ import annotations

from pathlib import Path

from bench import environments
from bench.torture.systems.system import Place, System

SOURCES = Path(__file__).resolve().parents[1] / "go"


class GoProgram(System):
    language = "Go"
    module: str

    def find(self) -> None:
        environments.find_go()
        self.version = environments.go_version(self.module, SOURCES)

    def install(self) -> None:
        self._program = str(environments.go_programs(SOURCES) / self.module.rpartition("/")[2].replace("-", ""))

    def worker(self, place: Place) -> list[str]:
        return [self._program, "work"]

    def client(self) -> list[str]:
        return [self._program]


class Asynq(GoProgram):
    name = "asynq"
    module = "github.com/hibiken/asynq"
    settings = "`RetryDelayFunc` a second"
    notes = """\
It is reliable by default: its lease of 30 s, and the look for tasks whose lease ended 30 s before, each minute, are no
options. Such a run counts as a retry, of which there are 25 by default.
"""
    losses = """\
A task whose end could not be stored is run again when its lease is over. A scheduled time is kept in whole seconds, so
that a task may begin up to a second early.
"""
    settle_s = 150.0  # the lease, 30 s more, a look each minute, and a retry that its scheduler finds


class GoWorkers(GoProgram):
    name = "go-workers"
    module = "github.com/jrallison/go-workers"
    settings = "`process` fixed for each worker, `poll_interval` 1, `retry` true"
    notes = """\
Its README asks for a fixed and unique name of each process: when a process of that name starts again, it runs what the
former one left. The run therefore starts each worker again under its name. Its times between retries, 15 s to 45 s, are
no option. It has had no commits since 2018.
"""
    losses = """\
Jobs are lost in three ways. A scheduled job or a retry is due while Redis is full: it is taken off its set, and the
push is refused. A retry that could not be stored is acknowledged all the same. The reply to a fetch is lost: the job
stays in progress, and Redis holds it until a process of that name starts again. Jobs run twice whose acknowledgement
was lost, as its error is ignored.
"""
    settle_s = 120.0  # two retries
