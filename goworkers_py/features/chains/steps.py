"""The verbs of a chain that are steps of a job's code, for `crash_points`."""

from __future__ import annotations

from goworkers_py.features.parts import ForTests
from goworkers_py.testing.steps import StepKind

STEPS = {
    "push": StepKind("push", bool, lambda _: "chains", pushes=True),
    "cancel": StepKind("cancel", bool, lambda _: "chains"),
}


FOR_TESTS = ForTests(steps=STEPS)
