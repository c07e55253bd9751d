"""The schedules that the real gem sidekiq-cron has written, as we list and import them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from apps import own_app
from click.testing import CliRunner
from programs import RUBY, call, do_without

from goworkers_py.cli.pyworkers import main
from goworkers_py.config.loader import load


@pytest.fixture
def sidekiq_cron(has_sidekiq: None) -> None:
    if subprocess.run(["ruby", "-rsidekiq", "-rsidekiq-cron", "-e", "1"], capture_output=True).returncode != 0:
        do_without("ruby has no sidekiq-cron (Debian: apt-get install ruby-sidekiq-cron)")


@pytest.mark.usefixtures("sidekiq_cron")
def test_schedules_of_sidekiq_cron_are_listed_and_imported(redis_url: str, tmp_path: Path) -> None:
    assert call("ruby", RUBY / "cron.rb", redis_url) == [{"errors": {}}]
    with own_app(redis_url) as app:
        nightly, often = sorted(app.inspector.neighbours.schedules(), key=lambda one: one.name)
    assert (nightly.program, nightly.job_class, nightly.queue) == ("sidekiq-cron", "Report::NightlyJob", "reports")
    assert (nightly.cron, nightly.timezone, nightly.args, nightly.enabled) == (
        "0 3 * * *", "Europe/Berlin", ["eu", 7], True,
    )  # fmt: skip
    assert (often.cron, often.queue, often.enabled) == ("*/5 * * * *", "default", False)
    file = tmp_path / "imported.ini"
    file.write_text(CliRunner().invoke(main, ["periodic", "import", "--broker", redis_url]).stdout)
    sections = {one.name: one for one in load(file, environment={}).periodic}
    assert (sections["nightly"].cron, sections["nightly"].args) == ("0 3 * * *", ("eu", 7))
