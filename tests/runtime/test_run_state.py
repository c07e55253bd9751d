"""The word for how far a process is."""

from __future__ import annotations

import math

from goworkers_py.core.clock import Deadline
from goworkers_py.runtime.run_state import RunState


def test_a_process_starts_works_is_quiet_and_stops() -> None:
    state = RunState()
    assert state.word == "starting"
    state.started = True
    assert state.word == "working"
    state.quiet = True
    assert state.word == "quiet"
    state.deadline = Deadline(1)
    assert state.word == "stopping"


def test_a_start_that_is_told_to_be_quiet_is_quiet() -> None:
    state = RunState()
    state.quiet = True
    assert state.word == "quiet"


def test_only_a_stop_that_does_not_wait_for_ever_will_end() -> None:
    state = RunState()
    assert not state.will_end
    state.deadline = Deadline(math.inf)
    assert not state.will_end
    state.deadline.shorten(20)
    assert state.will_end
