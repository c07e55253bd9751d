"""Periodic jobs as programs and configuration files declare them."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.config.loader import load
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.schedule import PeriodicJob, Release, Rule
from goworkers_py.features.unique.lock import LockClaim


@pytest.fixture
def app() -> App:
    app = App()
    app.configure(broker="memory://test_periodic")
    return app


def configured(app: App, folder: Path, text: str) -> App:
    file = folder / "conf.ini"
    file.write_text(text)
    app.use(dataclasses.replace(load(file, environment={}), broker="memory://test_periodic"))
    return app


def only(app: App) -> PeriodicJob:
    [job] = app.runner.plan().of_features["periodic"].jobs
    return job


def pushed(job: PeriodicJob, slot: float = 0.0, args: list[Any] | None = None) -> tuple[dict[str, Any], Push]:
    drafted = job.draft(slot, args)
    assert drafted is not None
    jid, push = drafted
    fields = json.loads(push.payload)
    assert fields["jid"] == jid
    return fields, push


# --- code


def test_the_decorator_returns_the_job_and_may_be_given_several_times(app: App) -> None:
    @app.periodic("0 3 * * *", timezone="Europe/Berlin", args=["eu"])
    @app.periodic(every=datetime.timedelta(minutes=1), name="often", args=["us"], catch_up="none")
    @app.job("Sync", queue="sync", retry=5)
    def sync(region: str) -> None: ...

    assert sync.name == "Sync"
    often, nightly = app.runner.plan().of_features["periodic"].jobs
    assert (often.schedule.name, often.schedule.rule, often.catch_up) == ("often", Rule(every=60), "none")
    assert (nightly.schedule.name, nightly.schedule.rule) == ("Sync", Rule("0 3 * * *", 0, "Europe/Berlin"))
    assert json.loads(nightly.schedule.text) == {
        "cron": "0 3 * * *", "timezone": "Europe/Berlin", "class": "Sync", "queue": "sync", "catch_up": "latest",
        "overlap": "allow", "args": ["eu"],
    }  # fmt: skip
    fields, push = pushed(nightly)
    assert (fields["class"], fields["args"], fields["retry"], push.queue, push.ties) == (
        "Sync",
        ["eu"],
        5,
        "sync",
        (),
    )
    assert "pyworkers" not in fields  # every release runs it


@pytest.mark.parametrize(
    ("told", "options", "words"),
    [
        ({"overlap": "queue"}, {}, "use overlap='skip'"),
        ({"kwargs": {"key": 1}}, {}, "give them by position"),
        ({}, {"unique_for": 60, "unique_until": "start"}, "leave them out"),
    ],
)
def test_a_member_of_a_group_that_cannot_be_pushed_is_refused_at_the_start(
    app: App, told: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    job = app.job("Sync", **options)(lambda key=0: None)
    app.periodic(every=60, **told)(job.set(group="g"))
    with pytest.raises(ConfigError, match=words):
        app.runner.plan()


def test_the_options_of_set_count(app: App) -> None:
    @app.job
    def plain() -> None: ...

    app.periodic(every=5)(plain.set(queue="slow", tags=["x"]))
    fields, push = pushed(only(app))
    assert (push.queue, fields["tags"]) == ("slow", ["x"])


def test_typed_arguments_and_keyword_arguments_are_converted(app: App) -> None:
    @app.periodic(every=5, args=lambda slot: [slot.date()], kwargs={"full": True})
    @app.job
    def report(day: datetime.date, full: bool = False) -> None: ...

    assert json.loads(only(app).schedule.text)["kwargs"] == {"full": True}
    fields, _ = pushed(only(app), slot=1_700_000_000.0)
    assert (fields["args"], fields["kwargs"]) == (["2023-11-14"], {"full": True})
    assert sorted(fields["pyworkers"]["needs"]) == ["kwargs", "typed"]
    assert pushed(only(app), args=["2020-01-01"])[0]["args"] == ["2020-01-01"]


@pytest.mark.parametrize(("overlap", "conflict"), [("skip", "skip"), ("queue", "reschedule")])
def test_a_job_that_must_not_overlap_has_the_lock_of_its_schedule(app: App, overlap: Any, conflict: str) -> None:
    @app.periodic(every=5, overlap=overlap, name="mine")
    @app.job
    def slow() -> None: ...

    fields, push = pushed(only(app))
    lock = push.tie(LockClaim)
    assert lock is not None
    assert (lock.name, lock.jid, lock.on_conflict) == (
        "slow:periodic:default:mine", fields["jid"], conflict,
    )  # fmt: skip
    assert fields["pyworkers"]["needs"] == ["unique"]


def test_the_source_is_the_first_package_of_require_or_what_the_configuration_says(app: App, tmp_path: Path) -> None:
    @app.periodic(every=5)
    @app.job
    def report() -> None: ...

    def release(text: str = "[pyworkers]\n") -> Release:
        periodic = configured(app, tmp_path, text).runner.plan().of_features["periodic"]
        assert periodic is not None
        return periodic.release

    assert release() == Release("default")
    assert release("[pyworkers]\nsource = shop\ngeneration = 2.10.1\n") == Release("shop", "2.10.1")
    assert release("[pyworkers]\nrequire = json.tool\n") == Release("json")


def test_a_plan_without_periodic_jobs_has_none(app: App) -> None:
    assert app.runner.plan().of_features == {}


def test_a_module_that_is_imported_twice_declares_the_same_periodic_job(app: App) -> None:
    for _ in range(2):

        @app.periodic(every=5)
        @app.job
        def twice() -> None: ...

    only(app)


def test_generations_sort_as_people_count() -> None:
    written = ["", "9", "10", "1.9.2", "1.10", "2024-01-31", "2024-02-01", "v2", "v10"]
    pairs = [("", "1"), ("9", "10"), ("1.9.2", "1.10"), ("2024-01-31", "2024-02-01"), ("v2", "v10"), ("007", "8")]
    for older, newer in pairs:
        assert Release("a", older).order < Release("a", newer).order
    assert len({Release("a", one).order for one in written}) == len(written)


# --- configuration


def test_a_section_pushes_plain_jobs_of_a_class_of_another_program(app: App, tmp_path: Path) -> None:
    text = (
        '[periodic:nightly]\ncron = 0 3 * * *\ntimezone = UTC\nclass = Report::Job\nqueue = reports\nargs = ["eu", 7]\n'
    )
    job = only(configured(app, tmp_path, text))
    fields, push = pushed(job)
    assert set(fields) == {"retry", "queue", "class", "args", "jid", "created_at", "enqueued_at"}
    assert (fields["class"], fields["args"], fields["retry"]) == ("Report::Job", ["eu", 7], True)
    assert (push.queue, push.ties) == ("reports", ())


def test_a_section_takes_the_options_of_a_class_that_is_registered_here(app: App, tmp_path: Path) -> None:
    @app.job("Report", queue="reports", retry=2, track=True)
    def report() -> None: ...

    job = only(configured(app, tmp_path, "[periodic:r]\nevery = 30\nclass = Report\noverlap = skip\n"))
    fields, push = pushed(job)
    assert (push.queue, fields["retry"]) == ("reports", 2)
    assert [tie.word for tie in push.ties] == ["record", "lock"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every = 5", "[periodic:p] names no class: write class = Report::NightlyJob"),
        ("class = X", "[periodic:p] needs cron or every, and not both"),
        ("class = X\nevery = 5\ncron = 0 3 * * *", "[periodic:p] needs cron or every, and not both"),
        ("class = X\ncron = 0 3 * *", "[periodic:p]: cron: '0 3 * *' is no cron expression: Wrong number of fields"),
        ("class = X\ncron = 0 3 * * *\ntimezone = Berlin", "[periodic:p]: timezone: 'Berlin' is not known"),
        ("class = X\nevery = 5\nargs = 7", "[periodic:p] args must be a JSON list, such as [42, \"a\"], is '7'"),
        ("class = X\nevery = 5\nargs = [7", '[periodic:p] args must be a JSON list, such as [42, "a"]: '),
        ("class = X\nevery = 5\ntimezone = Europe/Berlin", "[periodic:p] timezone: a time zone belongs to cron"),
        ("class = X\nevery = 0", "[periodic:p] every must be at least 1, is 0"),
        ("class = X\nevery = 5\ncatch_up = last", "catch_up must be one of none, latest, all; did you mean 'latest'?"),
        (
            "class = X\nevery = 5\noverlap = skip",
            "[periodic:p] overlap = skip: no job is registered here as 'X', and only a process of pyworkers frees",
        ),
        ("class = X\nevry = 5", "[periodic:p] evry is not an option; did you mean 'every'?"),
    ],
)
def test_a_mistake_in_a_section_is_told_at_the_start(app: App, tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured(app, tmp_path, f"[periodic:p]\n{text}\n").runner.plan()
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "@periodic takes a cron expression or every="),
        ({"every": 0}, "every must be whole seconds from 1 on, or a timedelta, is 0"),
        ({"every": 1.5}, "every must be whole seconds from 1 on"),
        ({"every": 5, "catch_up": "some"}, "catch_up must be one of none, latest, all, is 'some'"),
        ({"every": 5, "overlap": "no"}, "overlap must be one of allow, skip, queue, is 'no'"),
        ({"every": 5, "args": [1]}, "@periodic plain: plain cannot be called with these arguments"),
        ({"every": 5, "args": "abc"}, "@periodic plain: args must be a list of arguments"),
        ({"every": 5, "timezone": "UTC"}, "a time zone belongs to a cron expression, not to every="),
        ({"every": 5, "name": "a\nb"}, "the name must be printable text"),
    ],
)
def test_a_mistake_in_code_is_told_at_the_start(app: App, given: Any, told: str) -> None:
    def plain() -> None: ...

    def start() -> None:
        app.periodic(**given)(app.job(plain))
        app.runner.plan()

    with pytest.raises(ConfigError) as error:
        start()
    assert told in str(error.value)
    assert str(error.value).count("@periodic plain") <= 1


def test_what_is_no_job_cannot_be_periodic(app: App) -> None:
    with pytest.raises(ConfigError, match=r"write it above @workers\.job"):

        @app.periodic(every=5)  # type: ignore[arg-type]
        def no_job() -> None: ...


def test_two_periodic_jobs_of_one_name_are_refused(app: App) -> None:
    @app.periodic(every=5)
    @app.periodic(every=6)
    @app.job
    def twice() -> None: ...

    with pytest.raises(ConfigError, match="there is another periodic job of this name; give one of them name="):
        app.runner.plan()


def test_two_locks_of_one_job_are_refused(app: App) -> None:
    @app.periodic(every=5, overlap="skip")
    @app.job(unique_for=60)
    def unique() -> None: ...

    with pytest.raises(ConfigError, match="are two locks of one job; leave one of them out"):
        app.runner.plan()


def test_a_broker_without_periodic_jobs_is_refused_at_the_start(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.periodic(every=5)(app.job(lambda: None))
    monkeypatch.setattr(MemoryBroker, "own_parts", {Periodic: lambda broker: None})
    with pytest.raises(ConfigError, match="memory has no periodic jobs: set another broker"):
        app.runner.launcher()


def test_a_process_without_periodic_jobs_has_no_thread_for_them(app: App) -> None:
    assert "periodic" not in [service.name for service in app.runner.launcher()._services]
    app.periodic(every=5)(app.job(lambda: None))
    assert "periodic" in [service.name for service in app.runner.launcher()._services]


def test_periodic_without_parentheses_says_how_it_is_written(app: App) -> None:
    with pytest.raises(ConfigError, match=r"write @workers\.periodic\(\.\.\.\)"):
        app.periodic(app.job(lambda: None))  # type: ignore[arg-type]


def test_a_time_zone_of_an_interval_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="belongs to a cron expression"):
        app.periodic(every=5, timezone="Europe/Berlin")
