"""`pyworkers chains`: lists, shows and cancels."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from apps import own_app, working
from click.testing import CliRunner, Result
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.cli.pyworkers import main
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import KillJob

pytestmark = pytest.mark.server


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=1), timeout=1) as app:
        yield app


def call(app: App, *words: str) -> Result:
    return CliRunner().invoke(main, ["chains", *words, "--broker", app.config.broker])


def test_chains_are_listed_and_shown(app: App) -> None:
    @app.job("Dies", queue="q")
    def dies() -> None:
        raise KillJob("no more")

    cid = app.chain(dies.s(), dies.s()).enqueue()
    assert "1 of 2" in call(app, "list").stdout
    assert cid not in call(app, "list", "--stopped").stdout
    [at_work] = json.loads(call(app, "show", cid, "--json").stdout)["jobs"]
    assert f"ago: Dies in queue q, jid {at_work['jid']}\n" in call(app, "show", cid).stdout
    with working(app):
        assert eventually(lambda: app.chains.status(cid).state == "stopped")  # type: ignore[union-attr]
    shown = json.loads(call(app, "show", cid, "--json").stdout)
    assert (shown["state"], shown["why"], shown["job_class"]) == ("stopped", "dead", "Dies")
    assert f"pyworkers dead retry --jid {shown['jid']}" in call(app, "show", cid).stdout
    assert "error: goworkers_py.KillJob: no more" in call(app, "show", cid).stdout
    assert cid in call(app, "list", "--stopped").stdout
    missing = call(app, "show", "none")
    assert (missing.exit_code, missing.stderr) == (1, "pyworkers: there is no chain none, or not any more\n")


def test_chains_are_cancelled(app: App) -> None:
    @app.job("Job", queue="q")
    def job() -> None: ...

    cid = app.chain(job.s()).enqueue()
    assert call(app, "cancel", cid, "--dry-run").stdout == f"{cid}: would be cancelled\n"
    assert call(app, "cancel", cid).stdout == f"{cid}: cancelled\n"
    gone = call(app, "cancel", cid, "none")
    assert (gone.exit_code, gone.stdout.count("has ended or is not there")) == (1, 2)
