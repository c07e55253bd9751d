"""The proof that the account of doubles would find one that nothing explains, and the short form of `cluster`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chaos.cluster import chaos
from chaos.doubles import BACK_S, SETTLE_S, Doubles, Run, account_for_doubles, await_runs, ran_well, read_runs
from chaos.monkeys import Window

FORGIVEN = ("killed", "outage")
FIRST, SECOND = Run(1, 0, 7, 10.0, 11.0, well=True), Run(1, 0, 8, 20.0, 21.0, well=True)


def judged(*windows: Window, runs: tuple[Run, ...] = (FIRST, SECOND)) -> Doubles:
    return account_for_doubles(runs, windows, FORGIVEN)


@pytest.mark.parametrize("window", [
    Window("killed", "7", 10.5, 10.5),
    Window("killed", "7", 11.0 + SETTLE_S, 13.0),
    Window("outage", "", 5.0, 10.0 - BACK_S),
    Window("outage", "", 5.0, 30.0),
    Window("outage", "8", 10.5, 19.0),
])  # fmt: skip
def test_what_touches_a_run_explains_its_double(window: Window) -> None:
    told = judged(window)
    assert told.reasons == {window.kind: 1}
    assert told.complaints == []


@pytest.mark.parametrize("window", [
    Window("killed", "7", 11.1 + SETTLE_S, 13.0),  # after it was settled
    Window("outage", "", 5.0, 9.9 - BACK_S),  # over before it began
    Window("killed", "9", 10.5, 10.5),  # another process
    Window("slot moved", "", 10.5, 10.6),  # doubles nothing
])  # fmt: skip
def test_a_double_that_nothing_explains_is_a_complaint(window: Window) -> None:
    told = judged(window)
    assert told.reasons == {}
    assert "job 1 ran again" in told.complaints[0]


def test_the_end_of_a_run_waits_in_its_process_while_the_server_is_away() -> None:
    kill, outage = Window("killed", "7", 18.0, 18.0), Window("bounced", "", 11.5, 17.5)
    next_outage = Window("bounced", "", 18.0, 18.4)
    windows = [outage, next_outage, kill]
    assert account_for_doubles([FIRST, SECOND], windows, FORGIVEN).complaints != []
    assert account_for_doubles([FIRST, SECOND], windows, FORGIVEN, ["bounced"]).complaints == []
    late = Window("killed", "7", 18.5 + SETTLE_S, 19.6)
    assert (
        account_for_doubles([FIRST, SECOND], [outage, next_outage, late], FORGIVEN, ["bounced"], 0.2).complaints == []
    )
    assert account_for_doubles([FIRST, SECOND], [outage, next_outage, late], FORGIVEN, ["bounced"]).complaints != []
    assert account_for_doubles(
        [FIRST, SECOND], [kill, Window("bounced", "9", 11.5, 17.5)], FORGIVEN, ["bounced"]
    ).complaints


def test_a_kill_after_the_second_run_has_begun_explains_nothing() -> None:
    endless = Run(1, 0, 7, 10.0, math.inf)
    assert judged(Window("killed", "7", 19.9, 20.0), runs=(endless, SECOND)).complaints == []
    assert judged(Window("killed", "7", 20.1, 20.2), runs=(endless, SECOND)).complaints != []


def test_each_run_but_the_first_of_an_attempt_needs_a_reason() -> None:
    retried, third = Run(1, 1, 8, 20.0, 21.0), Run(1, 0, 8, 30.0, 31.0)
    assert judged(runs=(FIRST, retried)).complaints == []
    told = judged(Window("killed", "7", 10.5, 10.5), runs=(FIRST, SECOND, third))
    assert told.reasons == {"killed": 1}
    assert len(told.complaints) == 1


def test_a_retry_that_was_pushed_twice_is_explained_by_what_touched_the_run_before() -> None:
    failed = Run(1, 0, 7, 10.0, 11.0)
    twice = Run(1, 1, 8, 20.0, 21.0), Run(1, 1, 9, 22.0, 23.0)
    assert judged(Window("outage", "7", 11.0, 11.5), runs=(failed, *twice)).reasons == {"its retry was pushed twice": 1}
    assert judged(Window("outage", "7", 13.0, 13.5), runs=(failed, *twice)).complaints != []


def test_a_retry_that_another_process_moved_twice_while_it_waited_is_explained_where_they_do_that() -> None:
    runs = [Run(1, 0, 7, 10.0, 11.0), Run(1, 1, 8, 20.0, 21.0), Run(1, 1, 8, 22.0, 23.0)]
    for window, is_moved in [(Window("killed", "9", 15.0, 15.0), True), (Window("killed", "9", 20.5, 20.5), False)]:
        assert account_for_doubles(runs, [window], FORGIVEN).complaints != []
        told = account_for_doubles(runs, [window], FORGIVEN, moving=["killed"])
        assert bool(told.complaints) is not is_moved


def test_notes_are_read_to_the_last_whole_line(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(
        "began 1.0 5 0 77 1\nfailed 1.5 5 0 77 1\nbegan 2.0 5 1 78 1\nended 2.5 5 1 78 1\nbegan 3.0 6 0 78 2\nend"
    )
    assert read_runs(tmp_path) == [Run(5, 0, 77, 1.0, 1.5), Run(5, 1, 78, 2.0, 2.5, well=True), Run(6, 0, 78, 3.0)]
    assert ran_well(tmp_path) == {5}
    assert await_runs({5}, tmp_path) == set()
    assert await_runs({5, 6}, tmp_path, stalled_s=0) == {6}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cluster_loses_nothing_that_wait_confirmed_and_doubles_nothing_without_a_reason(
    server_program: str, tmp_path: Path
) -> None:
    account = chaos(15, 2, tmp_path)
    print(account)
    assert account.fine
    assert account.confirmed > 100
    assert len(account.deeds) > 2
