"""Iterable jobs in `workers.testing.crash_points`."""

from __future__ import annotations

from goworkers_py.features.iteration.run import LONGEST_S
from goworkers_py.features.parts import ForTests
from goworkers_py.testing.steps import CrashWay, StepKind

STEPS = {"checkpoint": StepKind("checkpoint", bool, lambda args: f"cursor {args[1].value}", by_worker=True)}
# Seconds between the checkpoints: a run makes none, or one at each yield.
NEVER, ALWAYS = float(LONGEST_S), 1e-9
WAYS = (
    CrashWay(NEVER, {"checkpoint": NEVER}, ", without a checkpoint", "checkpoint"),
    CrashWay(ALWAYS, {"checkpoint": ALWAYS}, ", with a checkpoint at each yield", "checkpoint", ends_at_yields=False),
)


FOR_TESTS = ForTests(steps=STEPS, crash_ways=WAYS)
