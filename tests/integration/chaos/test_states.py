"""The proof that the judge of states would find what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chaos.states import Push, Pushed, Run, Verdict, judge


def judged(
    state: str, *runs: Run, answer: tuple[str, float] | None = None, frozen: Sequence[tuple[float, float]] = (),
    denied: Sequence[tuple[float, float]] = (),
    **push: object,
) -> Verdict:  # fmt: skip
    pushed = Pushed(jobs={"j": Push("j", **push)})  # type: ignore[arg-type]
    if answer is not None:
        pushed.asked, pushed.answers = {"j"}, {"j": answer}
    return judge(pushed, {"j": state}, runs, frozen, denied)


def ran(*words: str, began: float = 10.0) -> Run:
    return Run("j", began, words)


@pytest.mark.parametrize("verdict", [
    judged("completed", ran("ended")),
    judged("completed goworkers_py.RetryJob", ran(), ran("ended")),
    judged("dead goworkers_py.KillJob", ran("died"), dies=True),
    judged("dead goworkers_py.PoisonPill", ran()),
    judged("cancelled", answer=("cancelled", 1.0)),
    judged("cancelled", ran(began=0.9), answer=("cancelled", 1.0)),
    judged("cancelled", answer=("unknown", 1.0)),
    judged("completed", ran("ended"), answer=("too late", 11.0)),
    judged("expired", expires_at=5.0),
    judged("completed", ran("step0", "step1", "ended"), steps=2),
    judged("completed", ran("step0", "step1"), ran("step1", "step2", "ended", began=11), steps=3),
    judged("cancelled", ran(began=1.5), answer=("cancelled", 1.0), frozen=[(0.5, 2.0)]),
    judged("waiting, not verified", ran("ended"), at=5.0, denied=[(9.0, 11.0)]),
])  # fmt: skip
def test_what_is_true_is_not_blamed(verdict: Verdict) -> None:
    assert verdict.complaints == []


@pytest.mark.parametrize(("verdict", "why"), [
    (judged("completed", ran()), "is completed"),
    (judged("waiting", ran("ended")), "is waiting"),
    (judged("unknown"), "is unknown"),
    (judged("completed, not verified", ran("ended")), "is completed, not verified"),
    (judged("waiting, not verified", ran("ended"), at=12.0, denied=[(9.0, 11.0)]), "is waiting, not verified"),
    (judged("waiting", ran("ended"), denied=[(9.0, 11.0)]), "is waiting"),
    (judged("dead goworkers_py.KillJob", ran("ended")), "is dead"),
    (judged("cancelled", ran("ended")), "is cancelled"),
    (judged("expired"), "is expired"),
    (judged("completed", ran("ended"), answer=("cancelled", 11.0)), "the answer was cancelled"),
    (judged("cancelled", answer=("too late", 1.0)), "the answer was too late"),
    (judged("cancelled", ran(began=1.5), answer=("cancelled", 1.0)), "began 0.500 s after the answer cancelled"),
    (judged("completed", ran("step0", "step2", "ended")), "skipped steps within a run"),
    (judged("completed", ran("step0"), ran("step2", "ended", began=11)), "skipped from step 0 to 2"),
])  # fmt: skip
def test_what_is_wrong_is_found(verdict: Verdict, why: str) -> None:
    assert any(why in complaint for complaint in verdict.complaints)


def test_steps_that_are_done_again_are_counted() -> None:
    assert judged("completed", ran("step0", "step1"), ran("step1", "ended", began=11)).repeated_steps == 1
