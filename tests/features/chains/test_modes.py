"""Chains in the test modes."""

from __future__ import annotations

from typing import Any

import pytest

import goworkers_py
from goworkers_py import testing
from goworkers_py.api.app import App


@pytest.fixture
def app() -> App:
    return App()


def test_a_chain_runs_in_a_test(app: App) -> None:
    ran: list[Any] = []

    @app.job("Add")
    def add(one: int, other: int) -> int:
        return one + other

    tell = app.job("Tell")(ran.append)
    with testing.fake(app=app):
        parts = app.parallel(add.s(1, goworkers_py.PREVIOUS), add.s(2, goworkers_py.PREVIOUS))
        cid = app.chain(add.s(1, 2), parts, tell.s(goworkers_py.PREVIOUS)).enqueue()
        testing.run_all()
        assert ran == [[4, 5]]
        assert app.chains.status(cid).state == "ended"  # type: ignore[union-attr]
