"""The proof that the judge of shapes would find what goes wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from chaos.judge import Judge
from chaos.monkeys import LEASE_S, LONG, Window
from chaos.nodes import Life
from chaos.shape_judge import ShapedRun, ShapeJudge, Verdict, read_shaped_runs
from chaos.shaped_jobs import CALLBACK, GATHERED, LINED, LINK, ONE, PART, TICK, TICKS_S, TWO
from chaos.shaper import Pushed

LIVES = (Life(1, "n1", 0.0), Life(2, "n2", 0.0), Life(3, "n3", 0.0, ended=11.5, how="killed"))


def ran(
    jid: str,
    began: float,
    ended: float = math.inf,
    life: int = 1,
    kind: str = ONE,
    key: str = "k",
    failed: bool = False,
    words: tuple[str, ...] = (),
) -> ShapedRun:
    return ShapedRun(jid, 0, life, began, ended, failed=failed, kind=kind, key=key, words=words)


def ticked(jid: str, slot: int, ended: float = 2) -> ShapedRun:
    return ran(jid, 1, ended, kind=TICK, key=str(slot))


def judged(
    *runs: ShapedRun,
    left: tuple[str, ...] = (),
    buried: dict[str, Any] | None = None,
    sure: tuple[str, ...] = (),
    members: dict[int, bool] | None = None,
    batches: dict[str, int] | None = None,
    chains: dict[str, int] | None = None,
) -> Verdict:
    windows = [Window(LONG, "n1", 10.5, 10.5 + LEASE_S + 1)]
    judge = Judge(LIVES, windows, {1: [18.0]})
    ordered = sorted(runs, key=lambda run: run.began)
    pushed = Pushed(dict.fromkeys(sure, ONE), members=members or {}, batches=batches or {}, chains=chains or {})
    return ShapeJudge(judge, ordered, buried or {}).verdict(pushed, left)


def test_a_job_that_ended_well_is_in_order() -> None:
    assert judged(ran("j1", 1, 2)).complaints == []


@pytest.mark.parametrize("runs", [(), (ran("j1", 1),), (ran("j1", 1, 2, failed=True),)], ids=["none", "cut", "failed"])
def test_a_job_that_never_ended_well_is_lost(runs: tuple[ShapedRun, ...]) -> None:
    assert judged(*runs, sure=("j1",)).complaints == ["lost: j1, of kind one"]
    assert judged(*runs, sure=("j1",), buried={"j1": ("One", [])}).complaints == []


def test_a_second_run_needs_a_reason() -> None:
    assert "nothing explains it" in judged(ran("j1", 1, 2), ran("j1", 3, 4)).complaints[0]
    assert judged(ran("j1", 11, life=3), ran("j1", 12, 13)).repeated == {"killed while it ran": 1}


def test_a_thing_that_is_left_is_found() -> None:
    assert judged(ran("j1", 1, 2), left=("pyworkers:lock:x",)).complaints == ["left at the end: pyworkers:lock:x"]


def test_two_jobs_of_a_key_at_once_are_found() -> None:
    assert judged(ran("j1", 1, 3), ran("j2", 3.1, 4, life=2)).complaints == []
    assert judged(ran("j1", 1, 3), ran("j2", 2, 4, life=2, key="other")).complaints == []
    assert len(judged(ran("j1", 1, 3), ran("j2", 2, 4, life=2)).complaints) == 1


def test_a_killed_run_is_over() -> None:
    assert judged(ran("j2", 11, life=3), ran("j1", 11.6, 12)).complaints == []
    assert len(judged(ran("j2", 11, life=3), ran("j1", 11.4, 12)).complaints) == 1


def test_a_run_whose_job_another_process_has_ended_counts_no_more() -> None:
    stale, taken_over = ran("j1", 10, 18.2), ran("j1", 17, 17.5, life=2)
    assert judged(stale, taken_over, ran("j2", 18, 19, life=2)).complaints == []
    assert len(judged(stale, taken_over, ran("j2", 17.2, 19, life=2)).complaints) == 1


def test_each_slot_has_one_job() -> None:
    slots = [10 * TICKS_S, 11 * TICKS_S, 12 * TICKS_S]
    assert judged(*map(ticked, "abc", slots)).complaints == []
    assert judged(ticked("a", slots[0]), ticked("c", slots[2])).complaints == ["slot 22 has 0 jobs: "]
    assert judged(ticked("a", slots[0]), ticked("b", slots[0])).complaints == ["slot 20 has 2 jobs: a, b"]
    assert judged(ticked("a", slots[0], math.inf)).complaints == ["lost: a, of slot 20"]


def test_a_third_job_of_a_key_at_once_is_found() -> None:
    two = ran("j1", 1, 3, kind=TWO), ran("j2", 2, 4, kind=TWO, life=2)
    assert judged(*two).complaints == []
    assert len(judged(*two, ran("j3", 2.5, 4, kind=TWO)).complaints) == 1


def test_jobs_of_a_line_that_begin_in_another_order_are_found() -> None:
    first, second = ran("j1", 1, 2, kind=LINED), ran("j2", 3, 4, kind=LINED)
    assert judged(first, second, sure=("j1", "j2")).complaints == []
    turned = ran("j2", 1, 2, kind=LINED), ran("j1", 3, 4, kind=LINED)
    assert judged(*turned, sure=("j1", "j2")).complaints == ["j2 of k began before j1"]
    assert judged(*turned, sure=("j1",)).complaints == []


def linked(number: int, *before: int, jid: str = "", began: float | None = None) -> ShapedRun:
    began = 10.0 * number if began is None else began
    words = tuple(map(str, (number, *before)))
    return ran(jid or f"link{number}", began, began + 1, kind=LINK, key="c", words=words)


def test_each_link_is_one_job_that_begins_with_all_results() -> None:
    whole = linked(0), linked(1, 0), linked(2, 0, 1)
    assert judged(*whole, chains={"c": 3}).complaints == []
    assert judged(*whole[:2], chains={"c": 3}).complaints == ["lost: link 2 of c"]
    assert judged(*whole[:2], chains={"c": 3}, buried={"x": ("Link", ["c", 2])}).complaints == []
    assert judged(*whole[:2], chains={"c": 0}).complaints == []
    assert "several links 1" in judged(*whole, linked(1, 0, jid="other"), chains={"c": 3}).complaints[0]
    assert "with the results of [0]" in judged(linked(0, began=20), linked(1, 0), chains={"c": 2}).complaints[0]


def gathered(jid: str, *numbers: str) -> ShapedRun:
    return ran(jid, 1, 2, kind=GATHERED, words=numbers)


def test_each_member_is_in_one_job() -> None:
    assert judged(gathered("a", "1", "2"), gathered("b", "3"), members={1: True, 2: True, 3: False}).complaints == []
    assert judged(members={1: False}).complaints == []
    assert judged(members={1: True}).complaints == ["member 1 is in 0 jobs: "]
    twice = gathered("a", "1"), gathered("b", "1")
    assert judged(*twice, members={1: False}).complaints == ["member 1 is in 2 jobs: a, b"]
    assert judged(gathered("a", "1"), members={1: True}, buried={"b": ("Gathered", [[1]])}).complaints != []
    assert judged(members={1: True}, buried={"b": ("Gathered", [[1]])}).complaints == []


def part(number: str, ended: float = 2) -> ShapedRun:
    return ran(f"part{number}", 1, ended, kind=PART, key="b", words=(number,))


def callback(event: str, jid: str = "", began: float = 3) -> ShapedRun:
    return ran(jid or event, began, began + 1, kind=CALLBACK, key="b", words=(event,))


def test_a_batch_has_each_callback_once_when_all_parts_have_ended() -> None:
    whole = part("0"), part("1"), callback("success"), callback("complete")
    assert judged(*whole, batches={"b": 2}).complaints == []
    assert judged(*whole[:3], batches={"b": 2}).complaints == ["b has the callbacks ['success']"]
    assert judged(*whole[1:], batches={"b": 2}).complaints == ["b: 1 of 2 parts had ended before its first callback"]
    assert judged(*whole[1:], part("0", 3.5), batches={"b": 2}).complaints != []
    again = callback("success", "another")
    assert judged(*whole, again, batches={"b": 2}).complaints == ["b has 2 callbacks `success`"]
    assert judged(*whole, again, batches={"b": 0}).complaints == ["b has 2 callbacks `success`"]
    assert judged(part("0"), batches={"b": 0}).complaints == []
    assert judged(part("0"), callback("death"), batches={"b": 2}, buried={"x": ("Part", ["b", 1])}).complaints == []


def test_notes_are_read_to_the_last_whole_line(tmp_path: Path) -> None:
    (tmp_path / "shaped-7").write_text(
        "began 2.0 j1 0 1 one k w1 w2\nended 2.5 j1 0 1\nbegan 3.0 j2 1 2 one k\nfailed 3.5 j2 1 2\nbegan 4.0 j3"
    )
    assert read_shaped_runs(tmp_path) == [
        ShapedRun("j1", 0, 7, 2.0, 2.5, kind="one", key="k", words=("w1", "w2")),
        ShapedRun("j2", 1, 7, 3.0, 3.5, failed=True, kind="one", key="k"),
    ]
