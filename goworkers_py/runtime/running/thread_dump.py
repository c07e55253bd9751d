"""The stacks of all threads of this process, those with a job first."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import NamedTuple
from goworkers_py.wire.message import describe_job


class ThreadStack(NamedTuple):
    thread: str  # its name, and the job that it runs
    stack: str


def thread_stacks(running: Mapping[str, Delivery]) -> Iterator[ThreadStack]:
    """`running` has the jobs by the name of their thread."""
    names = {thread.ident: thread.name for thread in machine.threads()}
    stacks = [(names.get(ident, str(ident)), frame) for ident, frame in sys._current_frames().items()]
    for name, frame in sorted(stacks, key=lambda item: item[0] not in running):
        what = f" runs {describe_job(running[name].payload, running[name].queue)}" if name in running else ""
        yield ThreadStack(f"thread {name}{what}", "".join(traceback.format_stack(frame)).rstrip())
