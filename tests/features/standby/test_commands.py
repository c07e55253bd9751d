"""`pyworkers leader`: what it prints and its exit codes."""

from __future__ import annotations

import json

import pytest
from calls import Call, one_line

from goworkers_py.api.app import App
from goworkers_py.core.fence import Fence
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Standing

pytestmark = pytest.mark.usefixtures("on_this_server")


@pytest.fixture
def leads(app: App) -> str:
    """The identity of a leader, in epoch 7."""
    identity = "host:1:aaaaaaaaaaaa"
    bid = Bid(identity, "token", False, Standing(None, 6, ""))
    assert app.broker.require_part(Leadership).win("main", bid, 600) == 7
    return identity


def test_the_leader_is_shown(call: Call, leads: str) -> None:
    headers, row = call("leader", "show").stdout.splitlines()
    assert headers.split("  ")[0] == "election"
    assert row.split()[:3] == ["main", leads, "7"]
    told = json.loads(call("leader", "show", "--json").stdout)
    assert (told["election"], told["leader"], told["epoch"]) == ("main", leads, 7)
    assert 0 < told["lease_left"] <= 600


def test_an_election_without_a_leader_says_none(call: Call) -> None:
    assert call("leader", "show").stdout.splitlines()[1].split()[:2] == ["main", "none"]
    assert json.loads(call("leader", "show", "--json").stdout)["leader"] is None
    asked = call("leader", "step-down")
    assert asked.returncode == 1
    assert "there is no leader" in one_line(asked.stderr)


def test_a_leader_is_asked_to_step_down_and_it_is_shown_who_has_asked(call: Call, app: App, leads: str) -> None:
    assert call("leader", "step-down").stdout == f"main: {leads} asked to step down\n"
    asked = app.broker.require_part(Leadership).renew("main", _fence(), leads, 600)
    assert "@" in asked
    assert asked in call("leader", "show").stdout


def _fence() -> Fence:
    fence = Fence("main", "token")
    fence.epoch = 7
    return fence
