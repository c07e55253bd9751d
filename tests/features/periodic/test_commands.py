"""`pyworkers periodic`."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from calls import Call, one_line

from goworkers_py.config.loader import load
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.options import PeriodicConfig
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Firing, Release, Rule

pytestmark = pytest.mark.usefixtures("on_this_server")


@pytest.fixture
def nightly(redis_url: str, redis: redis_py.Redis) -> Release:
    """A schedule of the application shop that has missed and fired."""
    release = Release("shop", "7")
    told = {"class": "Report", "queue": "reports", "args": ["eu"], "catch_up": "latest", "overlap": "allow"}
    with own_app(redis_url) as app:
        periodic = app.broker.require_part(Periodic)
        [state] = periodic.register(release, [schedule("nightly", Rule("0 3 * * *", 0, "Europe/Berlin"), told)]).states
        slot = state.since - 5
        periodic.fire(release, Firing("nightly", state.number, slot, "fired", "abc", missed_from=slot - 86_400))
    return release


@pytest.mark.usefixtures("nightly")
def test_the_list_shows_when_schedules_fire_and_have_fired(call: Call) -> None:
    header, row = call("periodic", "list").stdout.splitlines()
    assert header.split() == ["name", "source", "when", "class", "queue", "state", "next", "last"]
    assert row.startswith("nightly  shop    0 3 * * * Europe/Berlin  Report  reports  fires  in ")
    assert re.search(r"  fired [\d.]+ s ago$", row.rstrip())
    [told] = map(json.loads, call("periodic", "list", "--json").stdout.splitlines())
    assert (told["source"], told["name"], told["args"], told["generation"]) == ("shop", "nightly", ["eu"], "7")
    assert told["next_at"] > time.time()
    assert told["last"]["jid"] == "abc"


def test_without_schedules_the_list_says_so(call: Call) -> None:
    done = call("periodic", "list")
    assert (done.returncode, done.stdout, one_line(done.stderr)) == (0, "", "no periodic jobs")


@pytest.mark.usefixtures("nightly")
def test_the_history_shows_what_became_of_each_slot(call: Call) -> None:
    header, row = call("periodic", "history", "nightly").stdout.splitlines()
    assert header.split() == ["slot", "what", "late", "job", "missed", "since"]
    assert re.search(r" UTC \([\d.]+ s ago\)  fired  +[\d.]+ s  abc  .* UTC \(1 d ago\)", row)
    [told] = map(json.loads, call("periodic", "history", "shop:nightly", "--json").stdout.splitlines())
    assert (told["word"], told["jid"]) == ("fired", "abc")
    assert call("periodic", "history", "nightly", "-n", "1").returncode == 0


@pytest.mark.usefixtures("nightly")
def test_one_schedule_is_shown_with_its_next_slots_and_its_last_firings(call: Call) -> None:
    shown = call("periodic", "show", "nightly").stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines()[:8])
    assert (lines["source"], lines["state"]) == ("shop, generation 7", "fires")
    assert (lines["when"], lines["arguments"]) == ("0 3 * * * Europe/Berlin", '["eu"]')
    assert re.search(r"^next +\S+ 0[12]:00:00 UTC \(in ", shown, re.M)
    assert re.search(r" fired  +[\d.]+ s  abc  ", shown)
    call("periodic", "set", "nightly", "--cron", "30 4 * * *", "--args", '["us"]')
    call("periodic", "pause", "shop:nightly")
    shown = call("periodic", "show", "shop:nightly").stdout
    assert "30 4 * * * Europe/Berlin, set by hand; the code says 0 3 * * * Europe/Berlin\n" in shown
    assert '["us"], set by hand; in the code ["eu"]\n' in shown
    assert re.search(r"^state +paused$", shown, re.M)
    assert not re.search(r"^next ", shown, re.M)


@pytest.mark.usefixtures("nightly")
def test_one_schedule_is_shown_as_json(call: Call) -> None:
    told = json.loads(call("periodic", "show", "nightly", "--json").stdout)
    first, second = told["next_slots"][:2]
    assert len(told["next_slots"]) == 5
    assert time.time() < first < second
    assert [one["jid"] for one in told["history"]] == ["abc"]
    assert (told["rule"], told["generation"], told["paused"]) == ("0 3 * * * Europe/Berlin", "7", False)
    unknown = call("periodic", "show", "x")
    assert (unknown.returncode, one_line(unknown.stderr)) == (2, "there is no periodic job 'x'; there are nightly")


@pytest.mark.usefixtures("nightly")
def test_a_schedule_is_paused_and_resumed(call: Call) -> None:
    assert call("periodic", "pause", "nightly", "--dry-run").stdout == "nightly: would be paused\n"
    assert call("periodic", "pause", "nightly").stdout == "nightly: paused\n"
    assert json.loads(call("periodic", "list", "--json").stdout)["state"] == "paused"
    again = call("periodic", "pause", "nightly")
    assert (again.returncode, one_line(again.stderr)) == (1, "nightly is paused already")
    assert call("periodic", "resume", "nightly").stdout == "nightly: resumed\n"
    again = call("periodic", "resume", "nightly")
    assert (again.returncode, one_line(again.stderr)) == (1, "nightly is not paused")


def test_a_firing_is_asked_for_where_a_process_has_the_schedule(
    nightly: Release, call: Call, redis: redis_py.Redis
) -> None:
    assert call("periodic", "run", "nightly").stdout == "nightly: asked for\n"
    assert redis.hget("pyworkers:periodic:shop:nightly", "asked") == b"1"
    digest = redis.hget("pyworkers:periodic:shop:nightly", "digest").decode()
    redis.hset("pyworkers:periodic:shop:nightly", f"seen:{digest}", time.time() - 100)
    done = call("periodic", "run", "nightly")
    assert (done.returncode, one_line(done.stderr)) == (1, "nightly is in the code of no live process")
    assert json.loads(call("periodic", "list", "--json").stdout)["state"] == "no process"
    found = [json.loads(line) for line in call("doctor", "--json").stdout.splitlines()]
    [told] = [one for one in found if one["check"] == "periodic"]
    assert told["what"] == "periodic job nightly of shop is in the code of no live process"
    assert told["todo"] == "start one, or delete it: pyworkers periodic forget shop:nightly"


def of_doctor(call: Call, *flags: str) -> list[str]:
    found = [json.loads(line) for line in call("doctor", "--json", *flags).stdout.splitlines()]
    return [one["what"].removeprefix("periodic job nightly of shop ") for one in found if one["check"] == "periodic"]


def test_the_doctor_tells_of_a_schedule_that_nobody_works_and_of_slots_that_did_not_fire(
    nightly: Release, call: Call, redis: redis_py.Redis
) -> None:
    unworked = "pushes to queue reports, but no live process fetches from it"
    assert of_doctor(call) == [unworked]
    assert "; start a process for this queue: pyworkers run -q reports -r MODULE\n" in call("doctor").stdout
    without_code = "pushes class Report to queue reports, and no code is registered for it"
    (Path.cwd() / "conf.ini").write_text("[pyworkers]\nrequire = jobs\n[queue:reports]\n")
    assert of_doctor(call, "-c", "conf.ini") == [without_code, unworked]
    redis.hset("pyworkers:periodic:shop:nightly", mapping={"last": 1_700_000_000, "anchor": 1_700_000_000})
    late, _ = of_doctor(call)
    assert re.fullmatch(r"has not fired at its slot \d+ s ago", late)
    call("periodic", "pause", "nightly")
    assert of_doctor(call) == ["is paused", unworked]


def test_a_schedule_is_changed_until_that_is_taken_back(nightly: Release, call: Call) -> None:
    assert call("periodic", "set", "nightly", "--cron", "30 4 * * *", "--args", '["us"]').stdout == "nightly: set\n"
    told = json.loads(call("periodic", "list", "--json").stdout)
    assert (told["rule"], told["args"], told["overridden"]) == ("30 4 * * * Europe/Berlin", ["us"], True)
    assert "30 4 * * * Europe/Berlin (set)" in call("periodic", "list").stdout
    assert call("periodic", "set", "nightly", "--every", "90").stdout == "nightly: set\n"
    told = json.loads(call("periodic", "list", "--json").stdout)
    assert (told["rule"], told["args"]) == ("every 90 s", ["us"])
    assert call("periodic", "set", "nightly", "--unset").stdout == "nightly: unset\n"
    told = json.loads(call("periodic", "list", "--json").stdout)
    assert (told["rule"], told["args"], told["overridden"]) == ("0 3 * * * Europe/Berlin", ["eu"], False)
    again = call("periodic", "set", "nightly", "--unset")
    assert (again.returncode, one_line(again.stderr)) == (1, "nightly has nothing set")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cron", "0 3"], "cron: '0 3' is no cron expression: Wrong number of fields"),
        (["--timezone", "Berlin"], "timezone: 'Berlin' is not known"),
        (["--cron", "0 3 * * *", "--every", "5"], "cron and every exclude each other"),
        (["--every", "5", "--timezone", "UTC"], "timezone is for cron"),
        (["--args", "7"], "--args must be a JSON list, is '7'"),
        ([], "give --cron, --every, --timezone, --args or --unset"),
        (["--unset", "--every", "5"], "--unset goes without other options"),
    ],
)
def test_a_change_that_cannot_be_is_refused(nightly: Release, call: Call, options: list[str], told: str) -> None:
    done = call("periodic", "set", "nightly", *options)
    assert done.returncode == (2 if told else 0)
    assert told in done.stderr
    assert json.loads(call("periodic", "list", "--json").stdout)["overridden"] is not bool(told)


def test_a_name_is_refused_that_is_unknown_or_of_two_applications(nightly: Release, call: Call, redis_url: str) -> None:
    done = call("periodic", "pause", "nihgtly")
    assert (done.returncode, one_line(done.stderr)) == (2, "there is no periodic job 'nihgtly'; there are nightly")
    with own_app(redis_url) as app:
        app.broker.require_part(Periodic).register(
            Release("crm"), [schedule("nightly", Rule(every=60), {"class": "X"})]
        )
    done = call("periodic", "pause", "nightly")
    assert done.returncode == 2
    assert "name one of crm:nightly, shop:nightly" in done.stderr
    assert call("periodic", "pause", "crm:nightly").returncode == 0


def test_a_schedule_is_forgotten(nightly: Release, call: Call, redis: redis_py.Redis) -> None:
    assert call("periodic", "forget", "nightly", "--dry-run").returncode == 2
    refused = call("periodic", "forget", "nightly")
    assert (refused.returncode, "is in the code of a process that lives" in one_line(refused.stderr)) == (2, True)
    digest = redis.hget("pyworkers:periodic:shop:nightly", "digest").decode()
    redis.hset("pyworkers:periodic:shop:nightly", f"seen:{digest}", time.time() - 100)
    assert call("periodic", "forget", "nightly").stdout == "nightly: forgotten\n"
    assert redis.keys("pyworkers:periodic:*") == redis.keys("pyworkers:periodic-history:*") == []
    assert redis.smembers("pyworkers:periodics") == set()


def test_the_check_of_a_configuration_shows_its_periodic_jobs(call: Call, here: Path) -> None:
    (here / "conf.ini").write_text("[periodic:nightly]\ncron = 0 3 * * *\nclass = Quick\nqueue = q\n")
    done = call("config", "check", "-c", "conf.ini", "-r", "jobs")
    assert "periodic jobs: nightly (0 3 * * * UTC)" in done.stdout
    (here / "conf.ini").write_text("[periodic:nightly]\ncron = 0 3 * *\nclass = Quick\n")
    done = call("config", "check", "-c", "conf.ini", "-r", "jobs")
    assert done.returncode == 2
    assert "[periodic:nightly]: cron: '0 3 * *' is no cron expression: Wrong number of fields" in one_line(done.stderr)


# --- schedules of other programs


@pytest.fixture
def foreign(redis: redis_py.Redis) -> redis_py.Redis:
    """As sidekiq-cron 2, sidekiq-cron 1 and sidekiq-scheduler write them."""
    redis.sadd("cron_jobs:default", "cron_job:default:nightly", "cron_job:default:gone")
    message = json.dumps({"retry": True, "queue": "reports", "class": "Report::Job", "args": []})
    redis.hset(
        "cron_job:default:nightly",
        mapping={
            "name": "nightly", "klass": "Report::Job", "cron": "0 3 * * * Europe/Berlin", "args": '["eu", 7]',
            "status": "enabled", "message": message, "namespace": "default",
        },
    )  # fmt: skip
    redis.sadd("cron_jobs", "cron_job:old")
    redis.hset(
        "cron_job:old", mapping={"name": "old", "klass": "Old", "cron": "every day at noon", "status": "disabled"}
    )
    redis.hset(
        "schedules",
        mapping={
            "often": json.dumps({"every": ["1h30m", {"first_in": "5m"}], "class": "Often", "queue": "low"}),
            "hourly": json.dumps({"cron": "0 * * * *", "class": "Hourly", "args": "x ; y", "queue": "low"}),
            "paused": json.dumps({"cron": "0 * * * * UTC", "class": "Paused", "queue": "low"}),
            "broken": "{no",
        },
    )
    redis.hset("sidekiq-scheduler:states", "paused", '{"enabled":false}')
    return redis


@pytest.mark.usefixtures("foreign")
def test_a_schedule_of_another_program_is_shown(call: Call) -> None:
    assert re.search(r"^source +sidekiq-cron\nstate +disabled$", call("periodic", "show", "old").stdout, re.M)


@pytest.mark.usefixtures("foreign")
def test_the_list_shows_the_schedules_of_other_programs(call: Call) -> None:
    told = [json.loads(line) for line in call("periodic", "list", "--json").stdout.splitlines()]
    assert [(one["source"], one["name"], one["rule"], one["state"]) for one in told] == [
        ("sidekiq-cron", "nightly", "0 3 * * * Europe/Berlin", "foreign"),
        ("sidekiq-cron", "old", "every day at noon", "disabled"),
        ("sidekiq-scheduler", "broken", "{}", "foreign"),
        ("sidekiq-scheduler", "hourly", "0 * * * *", "foreign"),
        ("sidekiq-scheduler", "often", "every 1h30m", "foreign"),
        ("sidekiq-scheduler", "paused", "0 * * * * UTC", "disabled"),
    ]
    assert "nightly" in call("periodic", "list").stdout


def imported(done: subprocess.CompletedProcess[str], tmp_path: Path) -> dict[str, PeriodicConfig]:
    """The sections of a file with what was printed."""
    assert done.returncode == 0
    file = tmp_path / "imported.ini"
    file.write_text(done.stdout)
    return {one.name: one for one in load(file, environment={}).sections_of(PeriodicConfig)}


@pytest.mark.usefixtures("foreign")
def test_imported_schedules_are_sections_of_a_configuration_file(call: Call, tmp_path: Path) -> None:
    done = call("periodic", "import", "--timezone", "Asia/Tokyo")
    start = "[periodic:nightly]\n# from sidekiq-cron: 0 3 * * * Europe/Berlin. Remove it there\ncron = 0 3 * * *\n"
    assert done.stdout.startswith(start)
    sections = imported(done, tmp_path)
    assert sections.keys() == {"nightly", "often", "hourly"}
    nightly = sections["nightly"]
    assert (nightly.cron, nightly.timezone, nightly.class_) == ("0 3 * * *", "Europe/Berlin", "Report::Job")
    assert (nightly.queue, nightly.args) == ("reports", ("eu", 7))
    assert (sections["often"].every, sections["often"].queue) == (5_400, "low")
    hourly = sections["hourly"]
    assert (hourly.cron, hourly.timezone, hourly.args) == ("0 * * * *", "Asia/Tokyo", ("x ; y",))


@pytest.mark.usefixtures("foreign")
def test_what_would_mean_something_else_is_imported_as_a_comment_with_the_reason(call: Call, tmp_path: Path) -> None:
    done = call("periodic", "import")
    assert imported(done, tmp_path).keys() == {"nightly", "often"}
    assert (
        "; [periodic:paused]\n"
        "# from sidekiq-scheduler: 0 * * * * UTC. Remove it there\n"
        "# not active: it is disabled in sidekiq-scheduler\n"
        "; cron = 0 * * * *\n; timezone = UTC\n; class = Paused\n; queue = low\n"
    ) in done.stdout
    for reason in (
        "old: it is disabled in sidekiq-cron",
        "old: its rule cannot be translated",
        "hourly: its times are in the time zone of the Ruby processes: say --timezone",
        "often: its rule has the option first_in, which does not exist here",
    ):
        assert f"pyworkers: {reason}\n" in done.stderr


def test_nobody_who_writes_to_redis_adds_lines_to_a_configuration(
    call: Call, redis: redis_py.Redis, tmp_path: Path
) -> None:
    evil = "x\n[pyworkers]\nrequire = evil"
    for number, fields in enumerate(({"class": evil}, {"queue": evil}, {"cron": evil}, {"zzz\nrequire = evil": 1})):
        told = {"cron": "0 * * * * UTC", "class": "A", "queue": "q", **fields}
        redis.hset("schedules", f"job{number}", json.dumps(told))
    redis.hset("schedules", evil, json.dumps({"cron": "0 * * * * UTC", "class": "A", "queue": "q"}))
    assert imported(call("periodic", "import"), tmp_path).keys() == {"job3"}
    assert not re.search(r"^(require|\[pyworkers)", call("periodic", "import").stdout, re.M)


def test_a_zone_that_nobody_knows_is_refused(call: Call) -> None:
    assert "'Mars' is not known" in call("periodic", "import", "--timezone", "Mars").stderr


def test_without_foreign_schedules_nothing_is_imported(call: Call) -> None:
    done = call("periodic", "import")
    assert (done.returncode, done.stdout) == (0, "")
    assert one_line(done.stderr) == "no schedules of sidekiq-cron or sidekiq-scheduler"
