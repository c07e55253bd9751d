"""The proof that the judge of limits and locks would find what goes wrong, and that of the keys that are left."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from proxy import Proxy

from chaos.at_once import ShapedRun
from chaos.bound_judge import LOCK_MARGIN_S, SLACK, BoundJudge, Verdict
from chaos.bounded_jobs import (
    AT_ONCE,
    BRIEF,
    BRIEF_S,
    BURST,
    CROWD,
    DOOR,
    PACED,
    RATE_PER_S,
    ROOM,
    SOLE,
    STARTED,
)
from chaos.bounder import Locked, Pushed
from chaos.judge import BEGIN_S, Judge
from chaos.left_keys import held_by_the_dead, what_is_left_behind
from chaos.monkeys import LEASE_S, LONG, OUTAGE, SHORTLY, Chronicle, Window
from chaos.nodes import STOP_TIMEOUT_S, Life
from chaos.notes import read_given_back
from chaos.outage import Outage
from chaos.run import faults

FROZEN = Window(LONG, "n1", 10.0, 10.0 + LEASE_S + 1)
DECLARED_DEAD = {1: [FROZEN.ended + 0.5]}
THE_OUTAGE = Window(OUTAGE, "", 10.0, 100.0)
LIVES = (
    Life(1, "n1", 0.0), Life(2, "n2", 0.0), Life(3, "n3", 0.0, ended=15.0, how="killed"),
    Life(4, "n4", 0.0, asked_to_stop=12.0, ended=15.0, how="stopped"),
)  # fmt: skip


def ran(
    jid: str, began: float, ended: float = math.inf, life: int = 1, kind: str = DOOR, key: str = "k", attempt: int = 0
) -> ShapedRun:
    return ShapedRun(jid, attempt, life, began, ended, kind=kind, key=key)


def locked(jid: str, began: float, kind: str = SOLE, call: int = 0, key: str = "k") -> Locked:
    return Locked(jid, kind, key, began, began + 0.1, call or int(1000 * began))


def judged(
    *runs: ShapedRun,
    windows: tuple[Window, ...] = (),
    deaths: dict[int, list[float]] | None = None,
    pushes: tuple[Locked, ...] = (),
    buried: tuple[str, ...] = (),
    given_back: tuple[str, ...] = (),
    sure: tuple[str, ...] = (),
) -> Verdict:
    ordered = sorted(runs, key=lambda run: run.began)
    pushed = Pushed(dict.fromkeys(sure, DOOR), {push.jid: push.began for push in pushes}, list(pushes))
    return BoundJudge(Judge(LIVES, windows, deaths), ordered, buried, given_back).verdict(pushed)


@pytest.mark.parametrize("kind", [DOOR, ROOM, CROWD])
def test_more_jobs_of_a_limit_at_once_than_it_allows_are_found(kind: str) -> None:
    most = AT_ONCE[kind]
    runs = [ran(f"j{n}", 1 + n / 10, 3, kind=kind, key=str(n), life=1 + n % 2) for n in range(most + 1)]
    verdict = judged(*runs[:-1])
    assert verdict.complaints == []
    assert verdict.most[f"{kind}, of {most}"] == most
    [complaint] = judged(*runs).complaints
    assert complaint.startswith(f"{most + 1} of {kind}, of {most}, ran at ")


def test_a_block_counts_as_a_job_does() -> None:
    assert judged(ran("j1", 1, 2), ran("block-7-1", 2.1, 3)).complaints == []
    assert len(judged(ran("j1", 1, 2), ran("block-7-1", 1.9, 3)).complaints) == 1
    assert len(judged(ran("block-7-1", 1, 2), ran("block-7-2", 1.9, 3)).complaints) == 1


def test_each_key_of_a_crowd_has_one_job() -> None:
    first, second = ran("j1", 1, 3, kind=CROWD), ran("j2", 2, 3, kind=CROWD)
    assert judged(first, ran("j2", 2, 3, kind=CROWD, key="other")).complaints == []
    [complaint] = judged(first, second).complaints
    assert complaint.startswith("2 of crowd by key, of 1, ran at ")


def test_an_outage_for_all_is_no_excuse_whatever_a_process_says() -> None:
    runs = ran("j1", 5, 110), ran("j2", 105, 106, life=2)
    verdict = judged(*runs, windows=(THE_OUTAGE,))
    assert len(verdict.complaints) == 1
    assert verdict.outlasted == {"door": 1}
    assert len(judged(*runs, windows=(THE_OUTAGE,), deaths={1: [104.0]}).complaints) == 1
    shortly = Window(SHORTLY, "n1", 98.0, 102.0)  # nobody can declare it dead so soon after the outage
    assert len(judged(*runs, windows=(THE_OUTAGE, shortly), deaths={1: [104.0]}).complaints) == 1


@pytest.mark.parametrize("runs", [
    (ran("j1", 5, 110), ran("block-7-1", 105, 106, life=2)),
    (ran("block-7-1", 5, 110), ran("j2", 105, 106, life=2)),
])  # fmt: skip
def test_a_block_that_lives_through_an_outage_keeps_its_place(runs: tuple[ShapedRun, ...]) -> None:
    assert len(judged(*runs, windows=(THE_OUTAGE,)).complaints) == 1


def test_a_process_that_was_frozen_and_declared_dead_holds_nothing_more() -> None:
    runs = ran("j1", 9, 18), ran("j2", 16.5, 17, life=2)
    verdict = judged(*runs, windows=(FROZEN,), deaths=DECLARED_DEAD)
    assert verdict.complaints == []
    assert verdict.explained == {"door: lease lost": 1}
    assert len(judged(*runs, windows=(FROZEN,)).complaints) == 1, "nobody has declared it dead"
    early = ran("j1", 9, 18), ran("j2", 11, 17, life=2)
    assert len(judged(*early, windows=(FROZEN,), deaths=DECLARED_DEAD).complaints) == 1, "its lease had not expired"


def test_a_block_whose_program_was_frozen_for_longer_than_a_lease_holds_nothing_more() -> None:
    runs = ran("block-7-1", 9, 18), ran("j2", 16.5, 17, life=2)
    assert judged(*runs, windows=(FROZEN,)).complaints == []
    assert len(judged(*runs).complaints) == 1
    shortly = Window(SHORTLY, "n1", 10, 12)
    assert len(judged(*runs, windows=(shortly,)).complaints) == 1


def test_a_frozen_process_before_an_outage_may_learn_of_its_death_after_it() -> None:
    before = Window(LONG, "n1", 10.0 - 2 * LEASE_S, 20.0)
    judge = Judge(LIVES, (before, THE_OUTAGE), {1: [103.0]})
    assert judge.lives_declared_dead_without_a_reason() == []
    judge = Judge(LIVES, (Window(LONG, "n1", 9.0, 20.0), THE_OUTAGE), {1: [103.0]})
    assert len(judge.lives_declared_dead_without_a_reason()) == 1


def test_a_place_is_held_until_the_process_ends_or_gives_the_job_back() -> None:
    assert judged(ran("j1", 9, life=3), ran("j2", 15.1, 16)).complaints == []
    assert len(judged(ran("j1", 9, life=3), ran("j2", 14.9, 16)).complaints) == 1
    back = 12.0 + STOP_TIMEOUT_S
    assert judged(ran("j1", 9, life=4), ran("j2", back + 0.1, 16)).explained == {"door: given back at a stop": 1}
    assert len(judged(ran("j1", 9, life=4), ran("j2", back - 0.1, 16)).complaints) == 1
    assert len(judged(ran("block-7-1", 9, life=4), ran("j2", back + 0.1, 16)).complaints) == 1


def test_a_second_run_of_a_job_takes_its_place_over() -> None:
    stale, again = ran("j1", 9, 18), ran("j1", 14, 15, life=2)
    assert judged(stale, again, ran("j2", 15.5, 17, life=2)).complaints == []
    assert len(judged(stale, again, ran("j2", 14.5, 17, life=2)).complaints) == 1


def test_a_lost_job_is_found() -> None:
    assert judged(ran("j1", 1), sure=("j1",)).complaints == ["lost: j1, of kind door"]
    assert judged(ran("j1", 1), sure=("j1",), buried=("j1",)).complaints == []


def test_two_jobs_of_one_lock_at_once_are_found() -> None:
    runs = ran("j1", 2, 4, kind=SOLE), ran("j2", 3, 4, kind=SOLE, life=2)
    assert any("of sole by key, of 1" in text for text in judged(*runs).complaints)


def test_a_lock_that_another_job_has_is_not_given() -> None:
    runs = ran("j1", 2, 2.5, kind=SOLE), ran("j1", 4, 5, kind=SOLE, attempt=1), ran("j2", 6, 7, kind=SOLE)
    runs[0].failed = True
    while_it_waits_for_its_retry = locked("j1", 1), locked("j2", 3)
    [complaint] = judged(*runs, pushes=while_it_waits_for_its_retry).complaints
    assert "got the lock that Locked(jid='j1'" in complaint
    assert judged(*runs, pushes=(locked("j1", 1), locked("j2", 5.1))).complaints == []
    assert judged(*runs, pushes=while_it_waits_for_its_retry, buried=("j1",)).complaints == []


def test_one_call_pushes_one_job_of_a_key() -> None:
    pushes = locked("j1", 1, call=7), locked("j2", 1, call=7)
    assert judged(pushes=pushes).complaints[0].startswith("two jobs of one key in one call: ")
    assert judged(pushes=(pushes[0], locked("j2", 1, call=7, key="other"))).complaints == []


def test_a_brief_lock_lasts_as_long_as_its_job_runs() -> None:
    runs = ran("j1", 2, 110, kind=BRIEF), ran("j2", 111, 112, kind=BRIEF, life=2)
    pushes = locked("j1", 1, kind=BRIEF), locked("j2", 104, kind=BRIEF)
    assert len(judged(*runs, pushes=pushes, windows=(THE_OUTAGE,)).complaints) == 1
    beside = ran("j2", 105, 106, kind=BRIEF, life=2)
    assert len(judged(runs[0], beside, pushes=pushes, windows=(THE_OUTAGE,)).complaints) == 2


def test_a_brief_lock_may_end_while_its_job_waits() -> None:
    begins = 1 + BRIEF_S + LOCK_MARGIN_S
    runs = ran("j1", begins, begins + 9, kind=BRIEF), ran("j2", begins + 1, begins + 2, kind=BRIEF, life=2)
    verdict = judged(*runs, pushes=(locked("j1", 1, kind=BRIEF), locked("j2", begins - 0.5, kind=BRIEF)))
    assert verdict.complaints == []
    assert verdict.explained == {"brief: lock ended while it waited": 1}


def test_two_jobs_of_a_lock_until_the_start_do_not_wait_at_once() -> None:
    pushes = locked("j1", 1, kind=STARTED), locked("j2", 2, kind=STARTED)
    late = ran("j1", 2.2 + BEGIN_S, 4, kind=STARTED)
    assert len(judged(late, pushes=pushes).complaints) == 1
    assert judged(late, pushes=pushes, given_back=("j1",)).complaints == []
    assert judged(ran("j1", 1.9, 4, kind=STARTED), pushes=pushes).complaints == []


def paced(count: int, interval_s: float, pushed_at: float = 1.0, began: float = 1.0, **of: Any) -> Verdict:
    runs = [ran(f"j{n}", began + n * interval_s, math.inf, kind=PACED) for n in range(count)]
    pushed = Pushed(began={run.jid: pushed_at for run in runs})
    return BoundJudge(Judge(LIVES, **{"windows": (), **of}), runs, ()).verdict(pushed)


def test_too_many_begins_of_a_rate_are_found() -> None:
    assert paced(200, 1 / RATE_PER_S).complaints == []
    assert paced(BURST + SLACK, 0.0).complaints == []
    assert paced(BURST + SLACK + 3, 0.0).complaints[0].startswith("too many jobs of a rate had begun by ")
    assert paced(200, 0.8 / RATE_PER_S).complaints != []


def test_jobs_of_a_rate_that_found_no_thread_may_begin_together_but_not_those_that_found_no_server() -> None:
    many = BURST + SLACK + 3
    assert paced(many, 0.0, began=11.0).complaints == []
    assert paced(many, 0.0, pushed_at=10.9, began=11.0).complaints != []
    assert paced(many, 0.0, began=11.0, windows=(Window(OUTAGE, "", 1.0, 11.0),)).complaints != []


def test_the_jobs_that_were_recovered_or_requeued_are_read(tmp_path: Path) -> None:
    (tmp_path / "log-7-n1").write_text(
        "x WARNING: recovered from dead process vm:1:a: class=A jid=j1 queue=q\n"
        "x WARNING: finished, requeued: class=A jid=j2 queue=q\n"
        "x WARNING: something else: class=A jid=j3 queue=q\n"
    )
    assert read_given_back(tmp_path) == {"j1", "j2"}


def test_failed_threads_are_found_but_not_half_an_event_loop(tmp_path: Path) -> None:
    loop = "Exception ignored in: <function BaseEventLoop.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    (tmp_path / "log-7-n1").write_text(f"{loop}x pid=1 manager CRITICAL: a thread ended\nTraceback (most recent ...\n")
    assert faults(tmp_path) == [
        "log-7-n1: x pid=1 manager CRITICAL: a thread ended",
        "log-7-n1: Traceback (most recent ...",
    ]


def test_keys_that_are_left_behind_are_found(redis: redis_py.Redis) -> None:
    redis.sadd("queues", "q")
    redis.set("pyworkers:lease:vm:1:a", 1, ex=60)
    redis.hset("pyworkers:slot:paced", "tat", 1)
    redis.expire("pyworkers:slot:paced", 60)
    redis.hset("pyworkers:owners", "vm:1:a", "{}")
    redis.hset("pyworkers:gone", "vm:1:a", 1)
    redis.expire("pyworkers:gone", 60)
    redis.hset("pyworkers:chain:c", "state", "ended")
    redis.expire("pyworkers:chain:c", 60)
    redis.lpush("queue:short", '{"class":"Tick"}')
    assert what_is_left_behind(redis)[1] == []

    redis.lpush("queue:short", '{"class":"Task"}')
    redis.hset("pyworkers:lock:Sole:a", "jid", "j1")
    redis.lpush("pyworkers:line:limit:door", "j2")
    redis.persist("pyworkers:lease:vm:1:a")
    redis.hset("pyworkers:slot:door", "s:j1", "vm:1:a 1 q")
    redis.hset("pyworkers:owners", "vm:0:b", "{}")
    redis.hset("pyworkers:chain:c", "state", "running")
    redis.set("other", 1, ex=60)
    assert what_is_left_behind(redis)[1] == [
        "left behind: other (string)",
        "left behind: pyworkers:chain:c runs",
        "left behind: pyworkers:lease:vm:1:a has no end of life",
        "left behind: pyworkers:line:limit:door (list)",
        "left behind: pyworkers:lock:Sole:a (hash)",
        "left behind: pyworkers:owners has processes that were not declared dead: ['vm:0:b']",
        "left behind: pyworkers:slot:door has the places ['s:j1']",
        "left behind: queue:short has jobs of ['Task', 'Tick']",
    ]
    assert held_by_the_dead(redis) == ["vm:0:b", "pyworkers:slot:door s:j1", "pyworkers:lock:Sole:a"]


def test_an_outage_is_told_before_it_begins_and_leaves_others_in_peace(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.outage.BEFORE_S", 0.05)
    monkeypatch.setattr("chaos.outage.AFTER_S", 0.05)
    resting, longer = (type("Resting", (), {"turn": threading.Lock()})() for _ in range(2))
    chronicle, told = Chronicle(), []
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy, redis_py.Redis.from_url(proxy.url, socket_timeout=10) as client:
        # With seed 4 the proxies refuse: there is no server to stop or to kill.
        outage = Outage(
            time.monotonic(), 0.2, 4, None, [proxy], [resting], [longer], chronicle, tmp_path / "outage",  # type: ignore[arg-type]
            lambda began, ended: told.append((began, ended)),
        )  # fmt: skip
        outage.start()
        outage.join()
        assert client.ping()
    assert outage.error is None
    [window], [(began, ended)] = chronicle.windows, told
    assert window.kind == OUTAGE
    assert began <= window.began < ended <= window.ended
    assert (tmp_path / "outage").read_text() == f"{began} {ended}"
    assert not resting.turn.locked()
    assert not longer.turn.locked()
