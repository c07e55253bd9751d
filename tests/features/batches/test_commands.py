"""`pyworkers batches`: lists, shows, cancels and closes."""

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
    return CliRunner().invoke(main, ["batches", *words, "--broker", app.config.broker])


def test_batches_are_listed_and_shown(app: App) -> None:
    @app.job("Dies", queue="q")
    def dies() -> None:
        raise KillJob("no more")

    with app.batch("import") as batch:
        dies.enqueue()
        assert "open (held by a program)" in call(app, "list").stdout
        told = json.loads(call(app, "list", "--json").stdout)
        assert (told["state"], told["pending"]) == ("open", 1)
    listed = call(app, "list")
    assert "opened" in listed.stdout.split()
    assert batch.bid in listed.stdout
    assert "import" in listed.stdout
    assert "held by a program" not in listed.stdout
    assert "\n1 job has not ended" in call(app, "show", batch.bid).stdout
    with working(app):
        assert eventually(lambda: app.batches.status(batch.bid).state == "ended")  # type: ignore[union-attr]
    shown = json.loads(call(app, "show", batch.bid, "--json").stdout)
    assert (shown["state"], shown["failed"], shown["pending"]) == ("ended", 1, 0)
    assert shown["deaths"][0]["job_class"] == "Dies"
    assert "no more" in call(app, "show", batch.bid).stdout
    assert batch.bid not in call(app, "list", "--open").stdout
    missing = call(app, "show", "none")
    assert (missing.exit_code, missing.stderr) == (1, "pyworkers: there is no batch none, or not any more\n")


def test_the_error_of_a_job_without_retries_is_shown(app: App) -> None:
    @app.job("Fails", queue="q", retry=False)
    def fails() -> None:
        raise ValueError("no such row")

    with app.batch() as batch:
        fails.enqueue()
    with working(app):
        assert eventually(lambda: app.batches.status(batch.bid).state == "ended")  # type: ignore[union-attr]
    assert "ValueError: no such row" in call(app, "show", batch.bid).stdout


def test_batches_are_cancelled_and_closed(app: App) -> None:
    for word, done in (("cancel", "cancelled"), ("close", "closed")):
        batch = app.batch()
        batch.__enter__()
        app.enqueue("q", "Job", [])
        told = call(app, word, batch.bid, "--dry-run")
        assert (told.exit_code, told.stdout) == (0, f"{batch.bid}: would be {done}\n")
        assert "1 programs keep it open" in call(app, "show", batch.bid).stdout
        assert call(app, word, batch.bid).stdout == f"{batch.bid}: {done}\n"
        assert app.batches.status(batch.bid).holds == 0  # type: ignore[union-attr]
        batch.__exit__(None, None, None)
    assert call(app, "close", "--force", batch.bid).exit_code == 0
    gone = call(app, "close", batch.bid)
    assert (gone.exit_code, gone.stdout) == (1, f"{batch.bid}: has ended or is not there\n")
