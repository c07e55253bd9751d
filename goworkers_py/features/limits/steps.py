"""The steps of a job that enters and leaves a block under a limit, for `workers.testing.crash_points`."""

from __future__ import annotations

from goworkers_py.features.parts import ForTests
from goworkers_py.testing.steps import StepKind

STEPS = {
    "take": StepKind("limit entry", lambda taken: taken is True, lambda args: str(args[0].limit)),
    # A dead process frees no place.
    "leave": StepKind("limit exit", about=lambda args: str(args[0].limit), ignored_when_dead=True),
}


FOR_TESTS = ForTests(steps=STEPS)
