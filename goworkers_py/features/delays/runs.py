"""Runs tasks, and decides what becomes of one that failed: by the retry policy of jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.config.job_options import NOTHING_SAID
from goworkers_py.core.outcome import Dead, Outcome, Retry
from goworkers_py.features.delays.executors import Code, job_payload
from goworkers_py.features.delays.task import DEAD_AT, NEVER, DelayTask, Notes
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire.message import Message

log = logging.getLogger(__name__)

Find = Callable[[str], Code | None]
Report = Callable[[DelayTask], None]

# The fields of a failed job that a task keeps. The last one is since when its arguments do not fit.
_OF_FAILURE = (
    "retry_count", "error_class", "error_message", "error_backtrace", "failed_at", "retried_at", "unfit_since",
)  # fmt: skip


class Runs:
    def __init__(self, find: Find, now: Callable[[], float], report: Report) -> None:
        """`report` is told of tasks that are held from now on."""
        self._find = find
        self.now = now
        self.held = report
        self._policy = RetryPolicy()

    def has_code(self, kind: str) -> bool:
        """Whether there is an executor. A factory that raises has none."""
        try:
            return self._find(kind) is not None
        except Exception:
            log.exception("the factory of executors failed; tasks of this type wait type=%s", kind)
            return False

    def run(self, task: DelayTask) -> DelayTask | None:
        """The task as it waits for its retry, or for people. None: nothing is left to do."""
        options = NOTHING_SAID
        try:
            code = self._find(task.task_type)
            if code is None:
                raise LookupError(f"there is no executor for tasks of type {task.task_type!r}")
            options = code.options
            code.run(task)
        except BaseException as error:  # as for jobs: whatever the code raises is a failure of the task
            message = Message(job_payload(task, task.task_type, []), "")
            now = self.now()
            outcome = self._policy.again(message, error, options, now) or self._policy.decide(
                message, error, options, now
            )
            return self._failed(task, error, outcome, now)
        return None

    def _failed(self, task: DelayTask, error: BaseException, outcome: Outcome, now: float) -> DelayTask | None:
        label = f"type={task.task_type} id={task.id}"
        at = getattr(outcome, "at", None)
        if at is not None:  # Retry, or Reschedule for an error that is no failure
            notes = _failure(outcome.payload) if isinstance(outcome, Retry) else {}
            log.warning("a delayed task failed; it runs again in %.1f s %s", at - now, label, exc_info=error)
            return task.with_notes(notes, at)
        if isinstance(outcome, Dead):
            log.error(
                "a delayed task failed for the last time; it is kept: run it with move(id, 0), or cancel(id) %s",
                label,
                exc_info=error,
            )
            return task.with_notes({**_failure(outcome.payload), DEAD_AT: now}, NEVER)
        log.warning("a delayed task failed, and is dropped as its options say %s", label, exc_info=error)
        return None


def _failure(raw: bytes) -> Notes:
    fields = Message(raw, "").fields
    return {name: fields.get(name) for name in _OF_FAILURE}
