"""`pyworkers locks`: what it prints and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from calls import Call, one_line

from goworkers_py.api.app import App

pytestmark = pytest.mark.usefixtures("on_this_server")


def test_locks_are_listed_shown_and_freed(call: Call, app: App) -> None:
    sync = app.job("Shop::Sync", queue="q", unique_for=60)(print)
    jid = sync.enqueue(7)
    held = json.loads(call("locks", "list", "--class", "Shop::Sync", "--json").stdout)
    assert held["holder"]["jid"] == jid
    assert str(jid) in call("locks", "show", held["name"]).stdout
    assert call("locks", "free", held["name"], "--dry-run").stdout == f"{held['name']}: would be freed\n"
    assert call("locks", "free", held["name"]).stdout == f"{held['name']}: freed\n"
    again = call("locks", "free", held["name"])
    assert (again.returncode, again.stdout) == (1, f"{held['name']}: no job holds it\n")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Shop::Sync:0a1b", "no job holds the lock Shop::Sync:0a1b: it is free, or its name is wrong"),
        ("Shop::Sync:0a1b", "pyworkers locks list --class Shop::Sync"),
        ("sync", "sync names no lock: the name of a lock is the class of its job, a colon and a digest; "),
    ],
)
def test_a_lock_that_nobody_holds_is_not_called_free(call: Call, name: str, told: str) -> None:
    shown = call("locks", "show", name)
    assert shown.returncode == 1
    assert told in one_line(shown.stderr)


def test_a_push_that_meets_a_lock_names_it(call: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "unique", raising=False)
    job = "@goworkers_py.job('Shop::Sync', queue='q', unique_for=60)"
    (here / "unique.py").write_text(f"import goworkers_py\n{job}\ndef sync(number): ...\n")
    assert call("enqueue", "-r", "unique", "Shop::Sync", "[7]").returncode == 0
    again = call("enqueue", "-r", "unique", "Shop::Sync", "[7]")
    assert (again.returncode, again.stdout) == (1, "")
    assert one_line(again.stderr).startswith("not pushed: another job holds its lock, ")
    assert one_line(again.stderr).endswith("pyworkers locks list --class Shop::Sync")


@pytest.mark.parametrize("what", ["locks", "groups", "batches", "chains", "periodic jobs", "limits"])
def test_an_empty_list_is_told_on_stderr(call: Call, what: str) -> None:
    listed = call(what.split()[0], "list")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert one_line(listed.stderr).startswith(f"no {what}")
    assert call(what.split()[0], "list", "--json").stderr == ""
