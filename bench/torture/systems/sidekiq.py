"""Sidekiq without its paid versions."""

from __future__ import annotations

from bench import environments
from bench.torture.systems.system import APPS, THREADS, Place, System


class Sidekiq(System):
    name = "sidekiq"
    language = "Ruby"
    settings = "`average_scheduled_poll_interval` 1"
    notes = """\
The free version takes a job off its queue by BRPOP, before it runs. Its wiki (page "Reliability") says that jobs of a
process that crashes are lost, and that `super_fetch`, which keeps them, is part of Sidekiq Pro. There is nothing that
the free version could set. Pro was not measured, and neither were newer releases: this one is that of Debian 12.
"""
    losses = """\
Jobs are lost in three ways. They run, or were just fetched, when their process is killed. The reply to BRPOP is lost:
each of five threads waits with one. A scheduled job or a retry is due while Redis is full: one command takes it off its
set, and the next one, which pushes it, is refused. For the last one, Pro has a scheduler of its own.
"""
    settle_s = 30.0  # it has no lease: only retries and scheduled jobs are still to come

    def find(self) -> None:
        self.version = environments.sidekiq_version()

    def worker(self, place: Place) -> list[str]:
        return ["sidekiq", "-r", str(APPS / "sidekiq.rb"), "-q", "default", "-c", str(THREADS)]

    def client(self) -> list[str]:
        return ["ruby", str(APPS / "sidekiq.rb")]
