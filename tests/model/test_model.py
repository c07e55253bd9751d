"""The models hold as they are, and each mend is needed: without it, spin finds what was mended.

`make model` does the same with larger models, and shows how each fault comes about.
"""

from __future__ import annotations

import model
import pytest
from servers import do_without

# Minutes on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

# What spin finds without each mend.
FOUND = {
    "jobs": {
        "TWO_STEP_MOVE": "a job is lost or doubled, or on its way between two places",
        "BY_PLACE": "a job is gone that was not run to its end",
        "PUSH_APART": "the job that an atomic job pushes is not pushed in the step of its end",
        "PUT_UNASKED": "a job is lost or doubled, or on its way between two places",
        "NO_RECEIPT": "a job is gone that was not run to its end",
        "NO_NUMBERS": "a job is gone that was not run to its end",
        "NO_RECONCILE": "a job waits for ever",
        "KNOWN_LAST": "a daemon that lives has a job that is not in its list",
        "UNASKED_BEGIN": "a daemon begins a job after it was declared dead",
        "RENUMBERED": "a daemon that lives has a job that is not in its list",
        "BEAT_REVIVES": "a daemon that may trust its lease was declared dead",
        "LOOKED_BEFORE": "a daemon that may trust its lease was declared dead",
        "LEAVE_FORGETS": "a job is where no recovery looks",
    },
    "lease": {
        "NO_GAP": "a daemon that has beaten whenever it could was declared dead",
        "NO_KEPT": "a daemon that may trust its lease was declared dead",
        "NO_STEADY": "a daemon that has beaten whenever it could was declared dead",
        "NO_PROOF": "a daemon that has beaten whenever it could was declared dead",
        "NO_AGE": "a daemon that has beaten whenever it could was declared dead",
    },
    "limit": {
        "NO_BEGIN_NUMBERS": "a job or a block waits for ever",
        "UNASKED_LIST": "a job runs without a place of its own",
        "ROOM_BEFORE": "more run than the limit allows",
        "HALF_A_MOVE": "a job is nowhere",
        "FREE_WITHOUT_PROOF": "a block runs without a place",
        "EFFECTS_ANYWAY": "a job runs without a place of its own",
    },
}
# Lines that no run comes to.
UNREACHED = {
    "jobs": {
        "jobs.pml: :: else -> there = 0",  # nobody takes jobs off the list of a daemon that does so itself at its end
    },
}


@pytest.fixture(autouse=True)
def programs() -> None:
    if reason := model.lacking():
        do_without(reason)


@pytest.mark.parametrize("name", model.MODELS)
def test_nothing_goes_wrong_in_any_order_of_the_steps(name: str) -> None:
    found = model.explore(name)
    print(f"{name}: {found.states:,} states, {found.seconds:.1f} s")
    assert not found.wrong, "\n".join(found.trail)
    assert set(found.unreached) <= UNREACHED.get(name, set())


@pytest.mark.parametrize(("name", "mend"), [(name, mend) for name in model.MODELS for mend in model.mends(name)])
def test_without_a_mend_its_fault_is_found(name: str, mend: str) -> None:
    found = model.violate(name, mend)
    assert found.wrong == FOUND[name][mend], "\n".join(found.trail)
