"""The lease of this process: when it is fresh, and who waits for its confirmation."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from goworkers_py.core import machine
from goworkers_py.core.identity import new_identity
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.runtime.alive.lease import Lease


def test_a_lease_is_fresh_from_its_confirmation_until_it_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0
    monkeypatch.setattr(machine, "awake_and_asleep", lambda: now)
    lease = Lease(40)
    assert not lease.fresh
    lease.confirm(now)
    assert lease.fresh
    now = 44.9
    assert lease.fresh
    now = 45.0
    assert not lease.fresh
    lease.confirm(44.0)  # the time at which the beat was sent, not that of the reply
    assert lease.fresh


def test_a_process_that_was_declared_dead_carries_on_under_another_identity() -> None:
    lease = Lease(40)
    before, born = lease.identity, new_identity()
    lease.confirm(awake_and_asleep())
    lease.replace(born)
    assert lease.identity == born != before


def test_a_lease_that_lapsed_is_not_fresh_until_it_is_confirmed_anew() -> None:
    lease = Lease(40)
    lease.confirm(awake_and_asleep())
    lease.lapse()
    assert not lease.fresh
    lease.confirm(awake_and_asleep())
    assert lease.fresh


def test_a_process_with_a_fresh_lease_does_not_wait_for_a_confirmation() -> None:
    lease = Lease(40)
    lease.confirm(awake_and_asleep())
    assert lease.await_confirmation(lease.identity, 0)


def test_without_a_beat_no_lease_is_confirmed() -> None:
    lease = Lease(40)
    assert not lease.await_confirmation(lease.identity, 0.01)


@pytest.mark.parametrize("lives", [True, False])
def test_a_process_without_a_fresh_lease_waits_until_it_is_confirmed_or_replaced(lives: bool) -> None:
    lease = Lease(40)
    owner = lease.identity
    with ThreadPoolExecutor(1) as pool:
        confirmed = pool.submit(lease.await_confirmation, owner, 30)
        time.sleep(0.05)
        assert not confirmed.done()
        if lives:
            lease.confirm(awake_and_asleep())
        else:
            lease.replace(new_identity())
        assert confirmed.result(15) == lives


def test_a_replaced_identity_is_not_confirmed() -> None:
    lease = Lease(40)
    before = lease.identity
    lease.replace(new_identity())
    lease.confirm(awake_and_asleep())
    assert not lease.await_confirmation(before, 0)


def test_an_identity_that_is_replaced_during_the_check_does_not_count_as_fresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lease = Lease(50)
    old = lease.identity

    def replaced_meanwhile() -> float:
        now = awake_and_asleep()
        lease.replace(new_identity())
        lease.confirm(now)
        return now

    monkeypatch.setattr(machine, "awake_and_asleep", replaced_meanwhile)
    assert not lease.surely_of(old)
