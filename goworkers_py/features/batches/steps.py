"""The verbs of a batch that are steps of a job's code, for `crash_points`."""

from __future__ import annotations

from goworkers_py.features.parts import ForTests
from goworkers_py.testing.steps import StepKind


def _step(verb: str) -> StepKind:
    return StepKind("batch", bool, lambda _: verb)


STEPS = {
    **{verb: _step(verb) for verb in ("open", "hold", "cancel", "close")},
    "let_go": StepKind("batch", about=lambda _: "let go", pushes=True),
}


FOR_TESTS = ForTests(steps=STEPS)
