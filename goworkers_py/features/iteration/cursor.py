"""How far an iterable job has got, as it is kept between its runs."""

from __future__ import annotations

from goworkers_py.core.values import NamedTuple

# Sidekiq keeps its cursors as long.
CURSOR_LIFE_S = 30 * 86_400


class Cursor(NamedTuple):
    run: int  # how many runs the job has begun, with the one that has stored this
    value: str  # JSON: what the job's code yielded last; null when nothing was stored yet
    runtime_s: float  # of all runs so far
    of: str = ""  # `created_at` of the job: another job of the same jid begins at its start


class Iteration(NamedTuple):
    """The runs before of an iterable job, told to the run that begins."""

    cursor: Cursor  # of the runs before, with the number of the run that begins
    cancelled: bool = False  # Sidekiq has cancelled the job
    foreign: bool = False  # begun by Sidekiq, or by a release of pyworkers that writes something else
