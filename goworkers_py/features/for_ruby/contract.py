"""The verbs of a broker for locks of the gem sidekiq-unique-jobs, where the jobs of that gem are in it."""

from __future__ import annotations

from typing import Protocol

from goworkers_py.features.for_ruby.lock import RubyLock


class RubyLocks(Protocol):
    def begin(self, lock: RubyLock) -> bool:
        """A job begins that has this lock. The verb may be called again; it raises BrokerUnavailable and BrokerRefused.

        A lock that lasts until the job begins is freed, and the one without which it must not run is taken, if the job
        has it not yet. Returns False when other jobs hold that one: then nothing was done, and the job must not begin.
        """
