"""A heartbeat that hangs: code for a module of jobs."""

from __future__ import annotations

# The heartbeat's thread hangs at its second beat, like in a call that never returns.
HANG = """
from goworkers_py.runtime import launcher
from goworkers_py.runtime.alive import health, heartbeat
health.Health.stale_after_s = 3.5  # longer than a fetch from an empty queue takes
launcher.Launcher.after_jobs_s = 0.5

def hang(self):
    threading.Event().wait(None if self.beats else 0)
    self.beats = True
    return 0.5

heartbeat.Heartbeat.beats = False
heartbeat.Heartbeat.run_once = hang
"""
