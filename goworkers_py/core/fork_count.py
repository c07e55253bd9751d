"""How often the process was forked, from the first import on.

Code that runs for every job compares this number: it needs no system call, as `os.getpid` does.
"""

from __future__ import annotations

import os


class _Forks:
    count = 0


FORKS = _Forks()


def _count() -> None:
    FORKS.count += 1


os.register_at_fork(after_in_child=_count)
