"""The proof that the account of atomic jobs would find what goes wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chaos.families import ENDED, HALF, LOST, PARENTS, SECOND, WHOLE
from chaos.judge import Judge
from chaos.ledger import POISON, Account, Left, account
from chaos.monkeys import LEASE_S, LONG, Window
from chaos.nodes import Life
from chaos.notes import Pushes, Run, read_runs

LIVES = [Life(1, "n1", began=0.0), Life(2, "n2", began=0.0)]
FIRST, OTHER = ("child1-1-1-1", "child1-1-1-2"), ("child1-2-1-1", "child1-2-1-2")


def parent(life: int = 1, ended: float = 11.0, failed: bool = False, attempt: int = 0) -> Run:
    """A run that began at 10 on the first life, and at 17 on the second."""
    children = dict.fromkeys(FIRST if life == 1 else OTHER, 0)
    return Run("parent1", attempt, life, 10.0 if life == 1 else 17.0, ended, failed=failed, children=children)


def children(*jids: str) -> list[Run]:
    return [Run(jid, 0, 2, 30.0, 31.0) for jid in jids]


def settle(*runs: Run, failures: int = 0, left: Left | None = None, judge: Judge | None = None) -> Account:
    return account(Pushes({"parent1": failures}), list(runs), left or Left(), judge or Judge(LIVES, []))


def test_a_parent_that_ended_with_all_its_children_is_in_order() -> None:
    result = settle(parent(), *children(*FIRST))
    assert result.fine
    assert result.families[PARENTS] == result.families[ENDED] == result.families[WHOLE] == 1


def test_children_that_wait_or_are_dead_exist() -> None:
    assert settle(parent(), left=Left({"schedule": FIRST})).fine
    left = Left({"schedule": FIRST[:1]}, {FIRST[1]: POISON})
    assert not settle(parent(), left=left).lost


def test_a_child_that_never_ends_is_lost() -> None:
    assert settle(parent(), *children(FIRST[0]), Run(FIRST[1], 0, 2, 30.0)).lost == [FIRST[1]]
    failing = Run("parent1", 0, 1, 10.0, 11.0, children=dict.fromkeys(FIRST, 1))
    assert settle(failing, *children(*FIRST)).lost == [*FIRST]


def test_a_parent_that_ended_without_its_children_has_lost_them() -> None:
    result = settle(parent())
    assert result.lost == ["the children of parent1"]
    assert result.families[LOST] == 1


def test_half_of_the_children_are_found() -> None:
    result = settle(parent(), *children(FIRST[0]))
    assert result.families[HALF] == 1
    assert "half of the children, without child1-1-1-2" in str(result)


@pytest.mark.parametrize("early", [parent(ended=math.inf), parent(failed=True)], ids=["never ended", "failed"])
def test_children_of_a_run_that_did_not_end_well_are_found(early: Run) -> None:
    late = parent(life=2, ended=18.0, attempt=1)
    assert settle(early, late, *children(*OTHER), failures=1).fine
    result = settle(early, late, *children(*FIRST), failures=1)
    assert "children of a run that did not end well" in str(result)
    assert not result.fine


FREEZE = Window(LONG, "n1", 10.5, 10.5 + LEASE_S + 1)


def test_a_parent_may_run_twice_but_has_the_children_of_one_run() -> None:
    """Its first process lost its lease meanwhile, and so the server did not take the end of that run."""
    judge = Judge(LIVES, [FREEZE], {1: [18.0]})
    twice = (parent(ended=18.0), parent(life=2, ended=18.0))
    assert settle(*twice, *children(*OTHER), judge=judge).fine
    result = settle(*twice, *children(*FIRST, *OTHER), judge=judge)
    assert result.families[SECOND] == 1
    assert "parent1 has the children of 2 runs" in str(result)


@pytest.mark.parametrize("left", [Left({"retry": ["parent1"]}), Left(buried={"parent1": POISON})])
def test_children_of_a_parent_that_is_still_there_are_found(left: Left) -> None:
    assert settle(parent(), left=left).lost == []
    assert "parent1 has children, and has not ended" in str(settle(parent(), *children(*FIRST), left=left))


def test_a_child_that_its_block_had_dropped_is_found() -> None:
    result = settle(parent(), *children(*FIRST, "child1-1-1-0"))
    assert "child1-1-1-0 exists, but its block was dropped" in str(result)


def test_a_run_notes_its_children_with_its_begin(tmp_path: Path) -> None:
    (tmp_path / "runs-1").write_text(
        "began 10.0 parent1 0 1 child1-1-1-1:0 child1-1-1-2:0\nfailed 11.0 parent1 0 1\nbegan 12.0 parent2 1 2\n"
    )
    assert read_runs(tmp_path) == [parent(failed=True), Run("parent2", 1, 1, 12.0)]
