"""The proof that the judge of states would find what goes wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chaos.judge import BEGIN_S, NOTED_S, SETTLE_S, Judge
from chaos.monkeys import DENIED, LEASE_S, LONG, SHORTLY, Window
from chaos.nodes import Life
from chaos.notes import PIDS, StatedRun, read_stated_runs
from chaos.state_judge import APART_S, POISON, StateJudge, Verdict
from chaos.states import Asked, Push, Pushed, Seen

NODE, PID = "n1", 77
LIFE = 5 * PIDS + PID
QUIET_S = SETTLE_S + 1.0
STEP_S = 0.03


def judged(
    push: Push, seen: Seen, *runs: StatedRun, asked: Asked | None = None, windows: tuple[Window, ...] = (),
    life: Life | None = None,
) -> Verdict:  # fmt: skip
    lives = [life or Life(LIFE, NODE, 0.0, 90.0, 100.0, "stopped", PID), Life(LIFE + 1, "n2", 0.0)]
    pushed = Pushed({push.jid: push}, {} if asked is None else {push.jid: asked})
    return StateJudge(Judge(lives, windows), runs, wall_minus_monotonic=1_000.0).verdict(pushed, {push.jid: seen})


def ran(how: str, began: float = 10.0, attempt: int = 0, number: str = "1", life: int = LIFE) -> StatedRun:
    ended = began + 1.0 if how else math.inf
    return StatedRun("j", attempt, life, began, ended, number=number, how=how)


def stepped(how: str, first: int, last: int, began: float = 10.0, **of: int) -> StatedRun:
    run = ran(how, began, **of)  # type: ignore[arg-type]
    run.steps = [(step, began + STEP_S * (step - first + 1)) for step in range(first, last + 1)]
    run.ended = run.steps[-1][1] if how else math.inf
    return run


def asked(answer: str, at: float = 9.0, answered_at: float = 9.1, retry: bool = False) -> Asked:
    return Asked(at, retry, answer, answered_at)


TRACKED, RETAINED = Push("j", retained=False), Push("j")
DOUBLED = Push("j", doubled=True)
EXPIRING = Push("j", retained=False, expires_at=1_020.0)  # at 20.0 of the monotonic clock
COMPLETED, CANCELLED, EXPIRED = Seen("completed"), Seen("cancelled"), Seen("expired")
KILLED = Life(LIFE, NODE, 0.0, ended=11.5, how="killed", pid=PID)
DEAD = Seen("dead", error_class="goworkers_py.KillJob")
INTERRUPTED = Seen("dead", error_class="goworkers_py.JobCancelled")
CONVICTED = Seen(
    "dead",
    error_class=POISON,
    error_message=f"3 processes died while they ran this job, the last one (vm:{PID}:ab) ...",
)
FREEZE = Window(LONG, NODE, 5.0, 5.0 + LEASE_S + 1.0)
DENIAL = Window(DENIED, "", 9.0, 12.0)
MANY = int(2 * APART_S / STEP_S)


@pytest.mark.parametrize("verdict", [
    judged(TRACKED, COMPLETED, ran("ended")),
    judged(RETAINED, Seen("completed", result=f"j 1 2 {PID}"), ran("Mishap"), ran("ended", 12.0, 1, "2")),
    judged(Push("j", dies_of="KillJob"), DEAD, ran("KillJob")),
    judged(Push("j", dies_of="KillJob"), CONVICTED, ran(""), life=KILLED),
    judged(TRACKED, INTERRUPTED, ran("JobCancelled"), asked=asked("interrupted", retry=True)),
    judged(TRACKED, CANCELLED, asked=asked("cancelled")),
    judged(TRACKED, CANCELLED, ran("JobCancelled", began=8.0), asked=asked("cancelled")),
    judged(TRACKED, CANCELLED, ran("ended", began=8.0), asked=asked("cancelled"), life=KILLED),
    judged(TRACKED, CANCELLED, ran("", began=FREEZE.ended + BEGIN_S / 2), asked=asked("cancelled"), windows=(FREEZE,)),
    judged(TRACKED, CANCELLED, ran("", began=FREEZE.ended - NOTED_S / 2), asked=asked("cancelled"), windows=(FREEZE,)),
    judged(TRACKED, COMPLETED, ran("ended"), asked=asked("too late")),
    judged(EXPIRING, EXPIRED),
    judged(EXPIRING, EXPIRED, ran(""), life=KILLED),
    judged(TRACKED._replace(steps=3), COMPLETED, stepped("ended", 0, 2)),
    judged(TRACKED._replace(steps=5), COMPLETED, stepped("GeneratorExit", 0, 2), stepped("ended", 3, 4, 20.0)),
    judged(TRACKED._replace(steps=5), COMPLETED, stepped("", 0, 3), stepped("ended", 2, 4, 20.0), life=KILLED),
    judged(TRACKED._replace(steps=5), COMPLETED, stepped("GeneratorExit", 0, 2), stepped("ended", 2, 4, 20.0),
           windows=(DENIAL,)),
    judged(TRACKED._replace(at=5.0), Seen("running", verified=False), ran("ended"), windows=(DENIAL,)),
    judged(Push("j", sure=False), Seen("unknown", verified=False)),
    judged(DOUBLED, Seen("unknown"), ran("ended", 8.0), ran("ended", 8.5, number="2"), asked=asked("cancelled")),
])  # fmt: skip
def test_what_is_true_is_not_blamed(verdict: Verdict) -> None:
    assert verdict.complaints == []


@pytest.mark.parametrize(("verdict", "why"), [
    (judged(TRACKED, COMPLETED, ran("")), "is completed"),
    (judged(TRACKED, Seen("waiting"), ran("ended")), "is waiting"),
    (judged(TRACKED, Seen("unknown", verified=False)), "is unknown"),
    (judged(TRACKED, Seen("completed", verified=False), ran("ended")), "is completed, and not verified"),
    (judged(TRACKED._replace(at=13.0), Seen("running", verified=False), windows=(DENIAL,)),
     "is running, and not verified"),
    (judged(RETAINED, Seen("completed", result=f"j 0 2 {PID}"), ran("ended")), "is completed"),
    (judged(TRACKED, DEAD, ran("ended")), "is dead"),
    (judged(Push("j", dies_of="KillJob"), COMPLETED, ran("KillJob")), "a run was settled as dead"),
    (judged(TRACKED, CONVICTED, ran("ended")), "is dead"),
    (judged(TRACKED, INTERRUPTED, ran("JobCancelled"), asked=asked("requested")), "is dead"),
    (judged(TRACKED, CANCELLED), "is cancelled"),
    (judged(TRACKED, CANCELLED, asked=asked("interrupted", retry=True)), "is cancelled"),
    (judged(TRACKED, CANCELLED, ran("ended"), asked=asked("cancelled", 11.0 + QUIET_S, 20.0)), "settled as completed"),
    (judged(TRACKED, CANCELLED, asked=asked("too late")), "the answer was too late"),
    (judged(TRACKED, COMPLETED, ran("ended"), asked=asked("cancelled", 11.0, 11.1)), "the answer was cancelled"),
    (judged(TRACKED, CANCELLED, ran(""), asked=asked("cancelled")), "began 0.900 s after the answer cancelled"),
    (judged(DOUBLED, Seen("unknown"), ran("ended", 8.0), ran("ended"), asked=asked("cancelled")), "began 0.900 s"),
    (judged(TRACKED, COMPLETED, ran("ended"), asked=asked("not found")), "was not found"),
    (judged(TRACKED, EXPIRED), "is expired"),
    (judged(EXPIRING, EXPIRED, ran("ended")), "settled as completed"),
    (judged(EXPIRING, COMPLETED, ran("ended", began=21.0)), "began 1.000 s after it had expired"),
    (judged(TRACKED, COMPLETED, ran("ended"), ran("ended", 20.0, number="2")), "was run again"),
    (judged(TRACKED._replace(steps=2), COMPLETED, stepped("ended", 0, 0)), "has ended after step 0 of 2"),
    (judged(TRACKED._replace(steps=5), COMPLETED, stepped("", 0, 1), stepped("ended", 3, 4, 20.0)), "from step 1 to 3"),
    (judged(TRACKED._replace(steps=5), COMPLETED, stepped("GeneratorExit", 0, 2), stepped("ended", 2, 4, 20.0)),
     "did step 2 again after a run that told it would go on later"),
    (judged(TRACKED._replace(steps=MANY), COMPLETED, stepped("", 0, MANY - 1), stepped("ended", 0, MANY - 1, 20.0),
            life=KILLED), "did step 0 again, "),
])  # fmt: skip
def test_what_is_wrong_is_found(verdict: Verdict, why: str) -> None:
    assert any(why in complaint for complaint in verdict.complaints), verdict.complaints


def test_a_job_that_is_begun_long_after_a_pause_is_found() -> None:
    late = ran("", began=FREEZE.ended + 2 * BEGIN_S)
    verdict = judged(TRACKED, CANCELLED, late, asked=asked("cancelled"), windows=(FREEZE,))
    assert "after the answer cancelled" in verdict.complaints[0]


def test_steps_that_are_done_again_are_counted() -> None:
    push = TRACKED._replace(steps=5)
    verdict = judged(push, COMPLETED, stepped("", 0, 3), stepped("ended", 2, 4, 20.0), life=KILLED)
    assert verdict.repeated_steps == 2
    assert verdict.repeated == {"killed while it ran": 1}


def test_steps_may_be_done_again_when_their_process_was_disturbed() -> None:
    push, pause = TRACKED._replace(steps=MANY), Window(SHORTLY, NODE, 10.0, 11.0)
    runs = stepped("", 0, MANY - 1), stepped("ended", 0, MANY - 1, 20.0)
    assert judged(push, COMPLETED, *runs, windows=(pause,), life=KILLED).complaints == []


def test_the_end_and_the_steps_of_a_run_are_read(tmp_path: Path) -> None:
    (tmp_path / f"states-{LIFE}").write_text(
        "began 1.0 j 0 1\nstep0 1.1 j 0 1\nstep1 1.2 j 0 1\nGeneratorExit 1.3 j 0 1\nbegan 2.0 j 0 2\nend"
    )
    first = StatedRun("j", 0, LIFE, 1.0, 1.3, number="1", how="GeneratorExit", steps=[(0, 1.1), (1, 1.2)])
    assert read_stated_runs(tmp_path) == [first, StatedRun("j", 0, LIFE, 2.0, number="2")]
