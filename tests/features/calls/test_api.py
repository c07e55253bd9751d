"""Reports: what a program tells people."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from apps import own_app, working
from calls import Call

from goworkers_py.api.app import App
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.calls.api import AT_ONCE, PER_SECOND, ReportRate


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address) as app:
        yield app


def test_a_report_is_shown_with_the_process_that_gave_it(app: App) -> None:
    assert app.report("import", {"rows": 1})
    app.process("q", print, 1)
    with working(app):
        assert app.report("import", {"rows": 2})
        assert app.report("export", {})
    first, second = app.inspector.reports("import")
    assert (first.body, second.body) == ({"rows": 1}, {"rows": 2})
    assert first.identity.count(":") == 1
    assert second.identity.count(":") == 2
    assert [one.name for one in app.inspector.reports(after=first.position)] == ["import", "export"]


def test_a_report_is_a_small_json_object_with_a_name(app: App) -> None:
    for name, body in (("", {}), ("x" * 101, {}), ("a", [1]), ("a", {"b": object()}), ("a", {"b": "x" * 5_000})):
        with pytest.raises(ArgumentError):
            app.report(name, body)  # type: ignore[arg-type]
    assert app.inspector.reports() == []


def test_reports_beyond_the_rate_are_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    rate = ReportRate(lambda: now[0])
    assert [rate.admits() for _ in range(int(AT_ONCE) + 2)] == [*[True] * int(AT_ONCE), False, False]
    assert caplog.text.count("reports are dropped") == 1
    now[0] += 1.0
    assert sum(rate.admits() for _ in range(100)) == int(PER_SECOND)


def test_an_outage_drops_a_report_and_breaks_no_job() -> None:
    with own_app("redis://127.0.0.1:1/0") as app:
        assert app.report("import", {}) is False


@pytest.mark.server
def test_the_command_shows_reports_in_one_line_each(redis_url: str, call: Call, called_app: App) -> None:
    with own_app(redis_url) as app:
        app.report("import", {"text": "a\nb"})
        app.report("export", {"rows": 2})
    [line] = call("reports", "--name", "import", PYWORKERS_REDIS=redis_url).stdout.splitlines()
    assert line.endswith('import  {"text": "a\\nb"}')
    told = [
        json.loads(one) for one in call("reports", "--json", "-n", "1", PYWORKERS_REDIS=redis_url).stdout.splitlines()
    ]
    assert [(one["name"], one["body"]) for one in told] == [("export", {"rows": 2})]
