"""A job that cancels others, in `workers.testing.crash_points`."""

from __future__ import annotations

from goworkers_py.features.parts import ForTests
from goworkers_py.testing.steps import StepKind

STEPS = {"ask": StepKind("cancel", about=lambda _: "cancels")}


FOR_TESTS = ForTests(steps=STEPS)
