"""The method of an App that cancels a job."""

from __future__ import annotations

from goworkers_py.admin.cancelling import CancelAnswer
from goworkers_py.admin.inspector import Inspector


class Cancelling:
    inspector: Inspector

    def cancel(self, jid: str, *, retry: bool = False, timeout: float = 2.0) -> CancelAnswer:
        """`workers.cancel(jid)` cancels a job wherever it is: one that waits never runs, in one that runs JobCancelled
        is raised. With `retry` a running job is interrupted only, and retried as after a failure.

        Returns "cancelled" when the job was removed, or has ended as cancelled: from then on it does not run. Returns
        "interrupted" when it goes on later, as with `retry`; "too late" when it has ended in another way; "not found"
        when it is nowhere; "not running" when it waits, and only a run was to be interrupted; "runs in Ruby" or "runs
        in Go" when its process does not obey a cancel. Else returns "requested", after `timeout` seconds: the job is
        cancelled when a process meets it."""
        return self.inspector.cancel(jid, retry=retry, timeout=timeout)
