"""The short form of chaos, and the proof that its ledger would find what goes wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import redis as redis_py

from chaos.families import WHOLE
from chaos.judge import KILLED_BY_A_JOB, SETTLE_S, Judge, find_killed_by_jobs
from chaos.ledger import POISON, UNREADABLE, Account, Left, account
from chaos.monkeys import DENIED, LEASE_S, LONG, SHORTLY, STANDSTILL, Window
from chaos.nodes import Life
from chaos.notes import PIDS, Pushes, Run, read_deaths, read_pushes, read_runs
from chaos.run import Plan, retry_aggregations, run

SEED_VARIABLE = "PYWORKERS_TEST_CHAOS_SEED"
SEED = 31  # with kills from the begin on, and a server that is there at most times


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_nothing_runs_twice_without_a_reason(tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, SEED))
    result = run(Plan(seconds=12, seed=seed, pause_s=(0.3, 3.0), calm_s=2), tmp_path, print)
    print(result)
    assert result.fine
    assert result.pushed > 100
    assert result.repeated
    assert result.convicted["killer"]
    assert result.buried[UNREADABLE]
    assert result.families[WHOLE]
    assert len(result.processes) == 3
    assert result.states.states["completed"]
    assert result.states.answers  # of cancels: on a busy machine, none of them may be confirmed in time
    assert result.bounds.most


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_by_parents_whose_children_are_killed_one_by_one_or_all_at_once(tmp_path: Path) -> None:
    result = run(
        Plan(seconds=40, seed=SEED, jobs_per_s=30, pause_s=(0.3, 5.0), calm_s=2, parents=True), tmp_path, print
    )
    print(result)
    assert result.fine
    assert result.repeated
    assert result.states.states["completed"]


# --- what the ledger finds

STANDING = Window(STANDSTILL, "", 11.1, 13.9)
A_LIFE = Life(1, "n1", began=0.0)
B_LIFE = Life(2, "n2", began=0.0)
PUSHED = Pushes({"j1": 0})


def ran(life: int, began: float, ended: float, jid: str = "j1", attempt: int = 0) -> Run:
    return Run(jid, attempt, life, began, ended)


def settle(*runs: Run, windows: tuple[Window, ...] = (), left: Left | None = None, **of: object) -> Account:
    lives, deaths = of.get("lives", (A_LIFE, B_LIFE)), of.get("deaths", {})
    pushes = of.get("pushes", PUSHED)
    return account(pushes, list(runs), left or Left(), Judge(lives, windows, deaths))  # type: ignore[arg-type]


def test_a_job_that_ran_once_is_in_order() -> None:
    result = settle(ran(1, 10, 11))
    assert result.fine
    assert (result.pushed, result.runs, result.finished, result.repeated) == (1, 1, 1, {})


@pytest.mark.parametrize("runs", [(), (ran(1, 10, float("inf")),)], ids=["never begun", "never ended"])
def test_a_job_that_never_ran_to_its_end_is_lost(runs: tuple[Run, ...]) -> None:
    assert settle(*runs).lost == ["j1"]
    assert "LOST: j1" in str(settle(*runs))


def test_a_job_that_failed_as_it_should_and_was_not_run_again_is_lost() -> None:
    assert settle(ran(1, 10, 11), pushes=Pushes({"j1": 1})).lost == ["j1"]
    assert settle(ran(1, 10, 11), ran(1, 12, 13, attempt=1), pushes=Pushes({"j1": 1})).fine


def test_a_job_whose_push_was_unsure_is_lost_only_if_it_had_begun() -> None:
    pushes = Pushes({}, {"j1": 0})
    assert settle(pushes=pushes).fine
    assert settle(ran(1, 10, float("inf")), pushes=pushes).lost == ["j1"]


def test_a_job_that_is_still_in_a_list_is_not_lost() -> None:
    assert settle(left=Left({"queue:q": ["j1"]})).lost == []
    assert settle(left=Left(buried={"j1": "ValueError"})).lost == []
    assert not settle(left=Left(buried={"j1": "ValueError"})).fine


KILLER_LIFE = Life(1, "n1", 0, ended=10.1, how=KILLED_BY_A_JOB, pid=77)
MONKEYS_KILL = Life(1, "n1", 0, ended=11, how="killed", pid=77)
AS_FROZEN = Life(1, "n1", 0, ended=50, how="stopped", pid=77)


@pytest.mark.parametrize(
    ("jid", "life", "beside", "why"),
    [
        pytest.param("killer1", KILLER_LIFE, 10.05, "killer", id="a killer"),
        pytest.param("killer1", KILLER_LIFE, float("inf"), None, id="a killer, but others ran too"),
        pytest.param("j1", KILLER_LIFE, 10.05, None, id="a bystander"),
        pytest.param("j1", MONKEYS_KILL, 10.05, "killed by a monkey", id="killed alone"),
        pytest.param("j1", MONKEYS_KILL, float("inf"), None, id="killed, but others ran too"),
        pytest.param("j1", AS_FROZEN, 10.05, "lease lost while it ran", id="frozen"),
        pytest.param("j9", AS_FROZEN, 10.05, None, id="frozen, but it did not run"),
        pytest.param("j1", Life(1, "n1", 0, 9, 11, "stopped", 77), 10.05, None, id="stopped"),
        pytest.param("j1", Life(1, "n1", 0, ended=11, how="killed", pid=78), 10.05, None, id="another process"),
    ],
)
def test_only_killers_are_taken_for_poison(jid: str, life: Life, beside: float, why: str | None) -> None:
    left = Left(buried={jid: POISON}, convicting={jid: 77})
    runs = [ran(2 if jid == "j9" else 1, 10, float("inf"), jid), ran(1, 10, beside, "j2")]
    windows, deaths = ((FREEZE,), {1: [18.0]}) if life is AS_FROZEN else ((), {})
    pushes = Pushes({jid: 0, "j2": 0})
    result = settle(*runs, windows=windows, lives=(life, B_LIFE), deaths=deaths, left=left, pushes=pushes)
    assert result.convicted == {why or "WITHOUT A REASON": 1}
    assert any("was taken for poison" in text for text in result.complaints) is (why is None)


def test_a_process_that_was_killed_after_it_had_interrupted_others_was_alone() -> None:
    runs = [ran(1, 10, float("inf"), "j1"), ran(1, 10, float("inf"), "j2")]
    judge = Judge([MONKEYS_KILL], [])
    assert judge.why_convicted("j1", 77, runs) is None
    runs[1].interrupted = True
    assert judge.why_convicted("j1", 77, runs) == "killed by a monkey"


def test_a_killer_ends_its_process_when_the_last_note_was_written() -> None:
    lives = [Life(1, "n1", 0, ended=15, how="died"), Life(2, "n2", 0, ended=15, how="died")]
    runs = [ran(1, 10, 11, "killer1"), ran(1, 10.5, 11.5), ran(1, 11.4, float("inf"), "j2"), ran(2, 12, 13)]
    find_killed_by_jobs(lives, runs)
    assert [(life.how, life.ended) for life in lives] == [(KILLED_BY_A_JOB, 11.5), ("died", 15)]
    judge = Judge(lives, [])
    assert judge.explain(runs[2], ran(2, 20, 21, "j2")) == "killed by a job while it ran"
    assert judge.explain(runs[3], ran(1, 20, 21)) is None


def test_an_odd_payload_runs_or_is_dead_as_what_it_is() -> None:
    pushes = Pushes({"odd1": 0})
    assert settle(pushes=pushes).lost == ["odd1"]
    assert settle(ran(1, 10, 11, "odd1"), pushes=pushes).fine
    assert settle(pushes=pushes, left=Left(buried={"odd1": UNREADABLE})).fine
    assert not settle(left=Left(buried={"j1": UNREADABLE})).fine


def test_a_process_may_be_refused_at_its_start_but_not_end_later() -> None:
    judge = Judge([A_LIFE], [Window(DENIED, "", 10, 12)])
    refused = Life(1, "n1", 11, ended=13, how="died")
    assert judge.refused_at_its_start(refused, [])
    assert not judge.refused_at_its_start(refused, [ran(1, 11.5, 12)])
    assert not judge.refused_at_its_start(Life(1, "n1", 12.5, ended=13, how="died"), [])


def test_accounts_are_added_up() -> None:
    one, other = settle(ran(1, 10, 11)), settle(ran(1, 10, 11), ran(2, 12, 13))
    both = one + other
    assert (both.pushed, both.runs, both.repeated) == (2, 3, {"UNEXPLAINED": 1})
    assert not both.fine


def test_a_second_run_without_a_reason_is_found() -> None:
    result = settle(ran(1, 10, 11), ran(2, 12, 13))
    assert result.repeated == {"UNEXPLAINED": 1}
    assert not result.fine


@pytest.mark.parametrize(
    ("first", "life", "why"),
    [
        pytest.param(
            ran(1, 10, float("inf")), Life(1, "n1", 0, ended=11, how="killed"), "killed while it ran", id="killed"
        ),
        pytest.param(
            ran(1, 10, 10.9), Life(1, "n1", 0, ended=11, how="killed"), "killed before it was settled", id="late"
        ),
        pytest.param(ran(1, 10, 11), Life(1, "n1", 0, ended=11.1 + SETTLE_S, how="killed"), None, id="long settled"),
        pytest.param(ran(1, 10, float("inf")), Life(1, "n1", 0, ended=40, how="killed"), None, id="killed too late"),
        pytest.param(ran(1, 10, float("inf")), Life(1, "n1", 0, ended=11, how="died"), None, id="died by itself"),
        pytest.param(
            ran(1, 10, float("inf")), Life(1, "n1", 0, 9, ended=11, how="stopped"), "given back at a stop", id="stopped"
        ),
        pytest.param(ran(1, 5, 6), Life(1, "n1", 0, 9, ended=11, how="stopped"), None, id="stopped, long settled"),
        pytest.param(
            ran(1, 10, float("inf")), Life(1, "n1", 0, 9, 31, "stopped"), "given back at a stop", id="stops still"
        ),
        pytest.param(ran(1, 10, float("inf")), Life(1, "n1", 0, 31, 32, "stopped"), None, id="stopped too late"),
    ],
)
def test_the_end_of_a_process_explains_a_second_run(first: Run, life: Life, why: str | None) -> None:
    assert settle(first, ran(2, 30, 31), lives=(life, B_LIFE)).repeated == {why or "UNEXPLAINED": 1}


def test_a_job_that_could_not_be_settled_during_an_outage_may_run_again() -> None:
    life = Life(1, "n1", 0, ended=20, how="killed")
    assert not settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE)).fine
    outage = Window("Redis killed", "", 11.5, 19)
    assert settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE), windows=(outage,)).fine
    elsewhere = Window("connections refused", "n2", 11.5, 19)
    assert not settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE), windows=(elsewhere,)).fine


def test_a_job_that_could_not_be_settled_while_the_machine_stood_still_may_run_again() -> None:
    life = Life(1, "n1", 0, ended=14, how="killed")
    assert not settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE)).fine
    assert settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE), windows=(STANDING,)).fine
    earlier = Window(STANDSTILL, "", 7.0, 8.0)
    assert not settle(ran(1, 10, 11), ran(2, 30, 31), lives=(life, B_LIFE), windows=(earlier,)).fine


def test_another_process_may_run_a_job_before_the_end_of_a_killed_one_is_noted() -> None:
    runs = ran(1, 10, float("inf")), ran(2, 11.2, 12)
    for signalled, fine in [(11.0, True), (11.3, False), (float("inf"), False)]:
        life = Life(1, "n1", 0, ended=11.5, how="killed", signalled=signalled)
        assert settle(*runs, lives=(life, B_LIFE)).fine is fine


def test_a_job_may_begin_late_when_the_machine_stood_still() -> None:
    judge = Judge([A_LIFE], [STANDING])
    assert judge.is_begun_after_a_pause(ran(1, 13.0, 14))
    assert not judge.is_begun_after_a_pause(ran(1, 15.0, 16))
    assert not judge.is_begun_after_a_long_pause(ran(1, 13.0, 14))


FREEZE = Window(LONG, "n1", 10.5, 10.5 + LEASE_S + 1)


@pytest.mark.parametrize(
    ("windows", "deaths", "fine"),
    [
        pytest.param((FREEZE,), {1: [18.0]}, True, id="long enough"),
        pytest.param((FREEZE,), {}, False, id="but it kept its lease"),
        pytest.param((Window(SHORTLY, "n1", 10.5, 12.5),), {1: [13.0]}, False, id="too short"),
        pytest.param((Window(LONG, "n2", 10.5, 18),), {1: [18.0]}, False, id="another process"),
        pytest.param((Window("packets swallowed", "n1", 10.5, 18),), {1: [18.0]}, True, id="cut off"),
        pytest.param((Window("SCRIPT FLUSH", "", 10.5, 18),), {1: [18.0]}, False, id="harmless"),
        pytest.param((Window(LONG, "n1", 30, 38),), {1: [38.5]}, False, id="later"),
        pytest.param((Window("Redis killed", "", 10.5, 18),), {1: [18.0]}, False, id="all were cut off alike"),
        pytest.param(
            (Window("Redis killed", "", 10.5, 18), Window(SHORTLY, "n1", 18, 20)),
            {1: [20.5]},
            True,
            id="longer than all",
        ),
    ],
)
def test_a_lost_lease_explains_a_second_run(
    windows: tuple[Window, ...], deaths: dict[int, list[float]], fine: bool
) -> None:
    assert settle(ran(1, 10, 18), ran(2, 17, 20), windows=windows, deaths=deaths).fine is fine


@pytest.mark.parametrize(("began", "fine"), [(18.1, True), (19.0, False)])
def test_a_process_may_be_stopped_just_before_it_begins_a_job(began: float, fine: bool) -> None:
    """Others have run it by then. But what it begins later, it begins knowingly."""
    freeze = Window(LONG, "n2", 10.5, 18)
    assert settle(ran(1, 17, 18), ran(2, began, 20), windows=(freeze,), deaths={2: [18.5]}).fine is fine


def test_a_process_may_begin_a_job_before_the_end_of_its_pause_is_noted() -> None:
    for woken, fine in [(17.0, True), (17.6, False), (float("inf"), False)]:
        freeze = Window(LONG, "n2", 10.5, 18, woken)
        assert settle(ran(1, 17, 18), ran(2, 17.5, 20), windows=(freeze,), deaths={2: [18.5]}).fine is fine


def test_a_process_that_is_declared_dead_without_a_reason_is_found() -> None:
    result = settle(ran(1, 10, 11), deaths={1: [18.0]})
    assert "declared dead at 18.0 though nothing had kept it silent" in str(result)
    assert not result.fine


def test_the_ledger_in_redis_must_agree_with_the_files() -> None:
    one = Run("j1", 0, 1, 10, 11, effected=True)
    assert settle(one, left=Left(effects={"j1:0": 1})).fine
    assert not settle(one, left=Left(effects={})).fine, "the server has lost what it had acknowledged"
    assert not settle(one, left=Left(effects={"j1:0": 2})).fine
    assert not settle(one, left=Left(effects={"j1:0": 1, "j2:0": 1})).fine


def test_what_a_process_wrote_when_it_was_killed_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    (tmp_path / "pushes").write_text("pushes 1.0 j1 2\npushed 1.1 j1 2\npushes 1.2 j2 0\npushed 1.")
    (tmp_path / "runs-7").write_text(
        "began 2.0 j1 0 1\nended 2.5 j1 0 1\neffected 2.6 j1 0 1\nbegan 3.0 j1 1 2\ninterrupted 3.1 j1 1 2\nend"
    )
    (tmp_path / "log-7-n1").write_text(
        "1970-01-01T00:01:40.500Z pid=1 heartbeat ERROR: lease of x expired and its jobs were recovered; "
        "continuing as y\n"
    )
    assert read_pushes(tmp_path) == Pushes({"j1": 2}, {"j2": 0})
    assert read_runs(tmp_path) == [Run("j1", 0, 7, 2.0, 2.5, effected=True), Run("j1", 1, 7, 3.0, interrupted=True)]
    assert read_deaths(tmp_path, 90.0) == {7 * PIDS + 1: [10.5]}


def test_a_dead_job_that_aggregates_a_set_is_retried(redis: redis_py.Redis) -> None:
    others = [{"jid": "a", "pyworkers": {"group": {"name": "g"}}}, {"jid": "b"}]
    aggregates = {"jid": "c", "pyworkers": {"group": {"name": "g", "queue": "q", "set": "s"}}}
    redis.zadd("dead", {json.dumps(job): 1 for job in [*others, aggregates]})
    retry_aggregations(redis)
    assert redis.lrange("queue:q", 0, -1) == [json.dumps(aggregates).encode()]
    assert redis.zcard("dead") == 2
