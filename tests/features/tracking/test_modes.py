"""States and results in the test modes."""

from __future__ import annotations

import pytest
from apps import without_server

from goworkers_py.api.app import App
from goworkers_py.core.errors import NoResult
from goworkers_py.testing.sandbox import Sandbox


@pytest.fixture
def app() -> App:
    return without_server()


def test_a_result_is_there_when_the_job_has_run(app: App, sandbox: Sandbox) -> None:
    double = app.job("Double", retain=60)(lambda number: 2 * number)
    jid = str(double.enqueue(21))
    assert app.status(jid).state == "waiting"
    with pytest.raises(NoResult, match=r"call workers\.testing\.run_all"):
        app.result(jid)
    sandbox.run_all()
    assert app.result(jid) == 42
    sandbox.travel(61)
    assert app.status(jid).state == "unknown"
