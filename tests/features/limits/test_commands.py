"""`pyworkers limits`: what it prints and its exit codes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apps import own_app, working
from calls import Call

import goworkers_py
from goworkers_py.admin.doctor import Doctor
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import PARKED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Slot

pytestmark = pytest.mark.usefixtures("on_this_server")


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=1)) as app:
        limit = app.limit("order", concurrent=1, by=lambda key: key)

        @app.job("Event", queue="q", limits=[limit])
        def event(key: int) -> None: ...

        app.limit("api", rate="10/s")
        event.enqueue_bulk([[1], [1], [1], [2]])
        app.broker.require_part(Limits).declare([limit.spec.settings])
        yield app


@pytest.fixture
def told(call: Call) -> Callable[..., dict[str, object]]:
    return lambda *arguments: dict(json.loads(call(*arguments, "--json").stdout))


@pytest.mark.usefixtures("app")
def test_limits_are_listed_and_shown_with_who_waits(call: Call, told: Callable[..., dict[str, object]]) -> None:
    wanted = {"name": "order", "concurrent": 1, "rate": None, "burst": None, "set": False}
    assert told("limits", "list") == {**wanted, "declared": True, "keys": 2, "places": 2, "waiting": 2}
    shown = told("limits", "show", "order")
    assert sorted(slot["waiting"] for slot in shown["slots"]) == [0, 2]  # type: ignore[attr-defined]
    assert {str(slot["next"] and slot["next"]["args"]) for slot in shown["slots"]} == {"[1]", "None"}  # type: ignore[attr-defined]
    assert "none: it waits" in call("limits", "show", "order").stdout
    assert "Event [1]" in call("limits", "show", "order").stdout
    assert "order" in call("limits", "list").stdout


@pytest.mark.usefixtures("app")
def test_a_limit_is_set_and_unset(call: Call, told: Callable[..., dict[str, object]]) -> None:
    assert call("limits", "set", "order", "--concurrent", "3", "--dry-run").stdout == "order: would be set\n"
    assert told("limits", "list")["concurrent"] == 1
    assert call("limits", "set", "order", "--concurrent", "3", "--rate", "5/minute", "--burst", "2").returncode == 0
    assert {**told("limits", "list")}.items() >= {"concurrent": 3, "rate": "5/minute", "burst": 2, "set": True}.items()
    assert "burst 2, set by hand" in call("limits", "show", "order").stdout
    assert call("limits", "set", "order", "--concurrent", "any").returncode == 0
    assert told("limits", "list")["concurrent"] is None
    assert call("limits", "unset", "order").stdout == "order: unset\n"
    assert call("limits", "unset", "order").returncode == 1
    assert told("limits", "list")["concurrent"] == 1


def test_a_limit_is_forgotten_when_no_job_needs_it(call: Call, app: App) -> None:
    app.inspector.set_limit("order", 3)
    refused = call("limits", "forget", "order")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "limit order: jobs wait for it or have places in it" in refused.stderr
    with pytest.raises(ArgumentError, match="limit order: jobs wait for it"):
        app.inspector.forget_limit("order")
    for place in (waiting_in("q"), PARKED, waiting_in("q"), PARKED):
        for _ in app.inspector.delete(place, Filter()):
            pass
    assert call("limits", "forget", "order", "--dry-run").stdout == "order: would be forgotten\n"
    assert call("limits", "forget", "order").stdout == "order: forgotten\n"
    assert call("limits", "list").stderr.startswith("pyworkers: no limits; ")


@pytest.mark.usefixtures("app")
def test_a_limit_is_forgotten_whose_places_nobody_has_any_more(call: Call, app: App) -> None:
    """Of a program that has died in a block, and of jobs that another program has deleted."""
    for _ in app.inspector.delete(PARKED, Filter()):
        pass
    app.broker.admin.jobs_in(waiting_in("q")).clear()
    owner = "host:1:00000000000b"
    app.broker.recoverable.beat(Presence(owner, {}, blocks=True))
    app.broker.require_part(Limits).take(Slot("order", "k"), "block-1", owner)
    assert call("limits", "forget", "order").returncode == 1
    app.broker.recoverable.end_blocks(owner)
    assert call("limits", "forget", "order").stdout == "order: forgotten\n"


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("verb", ["forget", "unset"])
def test_a_limit_of_the_configuration_only_has_nothing_to_remove(call: Call, tmp_path: Path, verb: str) -> None:
    (tmp_path / "c.ini").write_text("[limit:api]\nconcurrent = 1\n")
    refused = call("limits", verb, "api", "-c", str(tmp_path / "c.ini"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "no process has declared limit api, so there is nothing to remove" in refused.stderr


@pytest.mark.usefixtures("app")
def test_a_job_that_waits_for_a_limit_says_so(call: Call, app: App, told: Callable[..., dict[str, object]]) -> None:
    """The command that tells who has the places is named."""
    [job, _] = app.inspector.first(PARKED, 10)
    shown = call("job", "show", job.jid).stdout
    assert "of limit order; `pyworkers limits show order` tells who has the places" in shown
    assert told("job", "show", job.jid).items() >= {"state": "waiting", "line": job.line}.items()


def test_a_server_without_limits_is_told(call: Call) -> None:
    listed = call("limits", "list")
    assert (listed.stdout, listed.stderr.count("pyworkers: no limits; ")) == ("", 1)


@pytest.fixture
def before_any_process(called_app: App, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration has two limits, of which the code declares one. No process has run it."""
    monkeypatch.setattr(goworkers_py, "limit", called_app.limit)
    (here / "limited.py").write_text("import goworkers_py\ngoworkers_py.limit('order', concurrent=1)\n")
    monkeypatch.delitem(sys.modules, "limited", raising=False)
    sections = "[limit:order]\nrate = 5/minute\n[limit:other]\nconcurrent = 7\n"
    (here / "conf.ini").write_text(f"[pyworkers]\nrequire = limited\n{sections}")


@pytest.mark.usefixtures("before_any_process")
def test_limits_of_code_and_configuration_are_listed_before_a_process_has_run(call: Call, called_app: App) -> None:
    listed = call("limits", "list", "-c", "conf.ini", "--json").stdout.splitlines()
    told = [(one["name"], one["concurrent"], one["rate"], one["declared"]) for one in map(json.loads, listed)]
    assert told == [("order", 1, "5/minute", False), ("other", 7, None, False)]
    listed_for_people = call("limits", "list", "-c", "conf.ini")
    assert "order, other: in code or configuration only" in listed_for_people.stderr
    shown = call("limits", "show", "order", "-c", "conf.ini")
    assert "5/minute" in shown.stdout
    assert shown.stderr == "pyworkers: no jobs have places in it, and none wait for it\n"
    assert called_app.inspector.limits() == []


@pytest.mark.usefixtures("before_any_process")
def test_a_limit_is_set_before_a_process_has_run(call: Call, called_app: App) -> None:
    unknown = call("limits", "set", "order", "--concurrent", "4")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "or by `-r MODULE`" in unknown.stderr
    assert call("limits", "set", "order", "--concurrent", "4", "-c", "conf.ini", "--dry-run").returncode == 0
    assert called_app.inspector.limits() == []
    assert call("limits", "set", "order", "--concurrent", "4", "-c", "conf.ini").stdout == "order: set\n"
    told = json.loads(call("limits", "list", "--json").stdout)
    assert (told["concurrent"], told["rate"], told["set"], told["declared"]) == (4, "5/minute", True, True)


def test_limits_are_listed_though_the_code_cannot_be_imported(call: Call, app: App) -> None:
    listed = call("limits", "list", "-r", "no_such_module")
    assert (listed.returncode, listed.stdout.count("\norder ")) == (0, 1)
    assert "there is no module 'no_such_module'" in listed.stderr


def test_the_keys_of_a_limit_are_shown_with_the_arguments_of_their_jobs(call: Call, app: App) -> None:
    shown = call("limits", "show", "order")
    assert shown.stdout.count("Event [1]") == 2  # the job with the place, and the next one
    assert shown.stdout.count("Event [2]") == 1  # nobody waits for this key
    assert "the digest of the value that `by` has returned" in shown.stderr
    with app.limit("block", concurrent=1).acquire(timeout=1):
        assert "a block of code" in call("limits", "show", "block").stdout


def test_the_arguments_of_a_job_that_runs_with_a_place_are_shown(app: App, told: Callable[..., dict[str, Any]]) -> None:
    begun, end = threading.Event(), threading.Event()

    @app.job("Long", queue="q", limits=[app.limit("long", concurrent=2, by=lambda key: key)])
    def long(key: str) -> None:
        begun.set()
        end.wait(30)

    long.enqueue("ada")
    try:
        with working(app):
            assert begun.wait(30)
            [slot] = told("limits", "show", "long")["slots"]
            end.set()
    finally:
        end.set()
    [holder] = slot["holders"]
    assert (holder["class"], holder["args"]) == ("Long", ["ada"])


def test_a_retry_leaves_jobs_that_wait_for_a_limit_in_their_order(call: Call, app: App) -> None:
    before = [job.payload for job in app.inspector.first(PARKED, 10)]
    done = call("parked", "retry", "--all")
    assert (
        "it waits for limit order; `pyworkers limits show order` tells who has the place" in done.stdout + done.stderr
    )
    assert [job.payload for job in app.inspector.first(PARKED, 10)] == before


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (
            ["set", "other", "--concurrent", "3"],
            1,
            "no limit other is known; known limits: order; a limit is known when",
        ),
        (["set", "order"], 2, "give --concurrent, --rate or --burst"),
        (["set", "order", "--concurrent", "-2"], 2, "--concurrent must be a number of jobs or any, is '-2'"),
        (["set", "order", "--rate", "often"], 2, "--rate must be a number of jobs per time"),
        (["set", "order", "--burst", "3"], 2, "--burst: limit order has no rate; give --rate too"),
        (["set", "order", "--rate", "any", "--burst", "3"], 2, "--burst: a rate of any has none"),
        (["unset", "other"], 1, "no limit other is known; known limits: order\n"),
        (["show", "other"], 1, "no limit other is known"),
    ],
)
def test_an_error_is_one_line(call: Call, arguments: list[str], code: int, error: str) -> None:
    done = call("limits", *arguments)
    assert done.returncode == code
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_doctor_names_a_limit_whose_queue_nobody_works(app: App) -> None:
    found = [one for one in Doctor(app.inspector, None).findings() if one.check == "limits"]
    assert [one.what for one in found] == ["limit order: 2 jobs of queue q wait, but no live process fetches from it"]
    assert found[0].todo.endswith("pyworkers run -q q -r MODULE; it lets the next jobs go")


def test_the_doctor_names_a_limit_that_was_set_to_zero(app: App) -> None:
    app.inspector.set_limit("order", 0)
    found = [one.what for one in Doctor(app.inspector, None).findings() if one.check == "limits"]
    assert "limit order: set to 0 by hand, and jobs wait for it" in found
