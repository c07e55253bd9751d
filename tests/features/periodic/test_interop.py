"""The schedules that the real gem sidekiq-cron has written, as we list and import them."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest
from apps import own_app
from click.testing import CliRunner
from programs import RUBY, call, do_without

from goworkers_py.cli.pyworkers import main
from goworkers_py.config.loader import load
from goworkers_py.features.periodic.foreign_schedule import of_sidekiq_cron
from goworkers_py.features.periodic.options import PeriodicConfig
from goworkers_py.features.periodic.schedule import Rule
from goworkers_py.features.periodic.slots import slots_of


@pytest.fixture
def sidekiq_cron(has_sidekiq: None) -> None:
    if subprocess.run(["ruby", "-rsidekiq", "-rsidekiq-cron", "-e", "1"], capture_output=True).returncode != 0:
        do_without("ruby has no sidekiq-cron (Debian: apt-get install ruby-sidekiq-cron)")


pytestmark = pytest.mark.usefixtures("sidekiq_cron")
NOON = datetime.datetime(2026, 1, 10, 12, tzinfo=datetime.timezone.utc).timestamp()
ALIKE = [
    "0 3 * * *", "*/5 * * * * *", "3/7 30 4 * * *", "*/7 */5 * * *", "1-59/2 * * * *", "15 5/6 * * *", "*/90 * * * *",
    "0 0 1 * 1", "0 0 15 * 1#2", "0 0 L * 1", "0 0 L * *", "0 0 1,L * *", "0 0 1-31/2 * 1", "0 0 31 * *",
    "0 0 * * 7", "0 0 * * 0-7", "0 0 * * 5-7", "0 0 * * */2", "0 0 */2 * *", "0 0 * * sun,mon", "0,30 9-17 * * MON-FRI",
    "0 0 * * mon-fri/2", "0 0 * * fri#1,mon", "0 0 * * 1#5", "0 0 * * 7#2", "0 0 * feb-apr/2 *", "0 0 * 1/3 *",
    "0 0 5/10 * *", "00 03 * * *", "*,5 * * * *", "5/90 * * * *",
]  # fmt: skip


def imported(redis_url: str, tmp_path: Path, *flags: str) -> tuple[dict[str, PeriodicConfig], list[str]]:
    """The sections, and the reasons why others are none."""
    done = CliRunner().invoke(main, ["periodic", "import", "--broker", redis_url, *flags])
    assert done.exit_code == 0
    file = tmp_path / "imported.ini"
    file.write_text(done.stdout)
    return {one.name: one for one in load(file, environment={}).sections_of(PeriodicConfig)}, done.stderr.splitlines()


def test_schedules_of_sidekiq_cron_are_listed_and_imported(redis_url: str, tmp_path: Path) -> None:
    assert call("ruby", RUBY / "cron.rb", redis_url, "write") == [{"errors": {}}]
    with own_app(redis_url) as app:
        found = {one.name: one for one in app.inspector.foreign_schedules()}
    nightly, often = found["nightly"], found["often"]
    assert (nightly.program, nightly.job_class, nightly.queue) == ("sidekiq-cron", "Report::NightlyJob", "reports")
    assert (nightly.cron, nightly.timezone, nightly.args, nightly.enabled) == (
        "0 3 * * *", "Europe/Berlin", ["eu", 7], True,
    )  # fmt: skip
    assert (often.cron, often.queue, often.enabled) == ("*/5 * * * *", "default", False)
    sections, told = imported(redis_url, tmp_path)
    assert (sections["nightly"].cron, sections["nightly"].args) == ("0 3 * * *", ("eu", 7))
    assert sections["keywords"].args == ({"region": "eu"},)
    assert sections.keys() == {"nightly", "keywords"}
    assert sorted(line.split(": ")[1] for line in told) == ["dated", "local", "often", "rails", "spoken"]


def test_a_time_without_a_zone_is_that_of_the_ruby_process(redis_url: str, tmp_path: Path) -> None:
    """It is imported where its zone is said, and fires then as in Ruby."""
    call("ruby", RUBY / "cron.rb", redis_url, "write")
    zone = "America/New_York"
    [last] = call("env", f"TZ={zone}", "ruby", RUBY / "cron.rb", redis_url, "last", "local")
    local = imported(redis_url, tmp_path, "--timezone", zone)[0]["local"]
    assert slots_of(Rule(local.cron, 0, local.timezone)).latest(NOON - 86_400, NOON) == last["last"]


def test_an_expression_that_is_imported_fires_when_ruby_fires_it(redis_url: str) -> None:
    [told] = call("env", "TZ=UTC", "ruby", RUBY / "cron.rb", redis_url, "next", *ALIKE)
    for text, times in zip(ALIKE, told["next"], strict=True):
        found = of_sidekiq_cron({"cron": f"{text} UTC"})
        assert (found.cron, found.timezone, found.obstacles) == (text, "UTC", ())
        slots = slots_of(Rule(found.cron))
        assert (text, [slots.after(at) for at in (NOON, *times[:-1])]) == (text, times)
