"""A job that a daemon has failed becomes a test, which fails when the job is mended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import redis as redis_py
from daemon import Daemon, environment, pyworkers

from goworkers_py.api.app import App

JOBS = """
import goworkers_py as workers


class Declined(Exception):
    pass


@workers.job("Shop::Charge", queue="money", backtrace=True)
def charge(order, *, currency="EUR"):
    if currency != "EUR":
        raise Declined(f"no account in {currency} (order {order})")
"""
ROOT = Path(__file__).resolve().parents[2]


def run_pytest(directory: Path) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "no:cacheprovider", "-p", "pytest_pyworkers"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "test_charge.py"],
        cwd=directory,
        env=environment(PYTHONPATH=str(ROOT), PYTEST_ADDOPTS="", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
    )


def test_a_failed_job_becomes_a_test_that_tells_when_it_is_mended(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    app = App()
    app.configure(redis=redis_url)
    with Daemon(tmp_path, redis_url, JOBS, "-q", "money") as daemon:
        daemon.ready()
        charge = app.job("Shop::Charge", queue="money")(lambda order, *, currency: None)
        jid = charge.enqueue(42, currency="USD")
        daemon.says("to be retried")
        assert daemon.stop() == 0
    app.use(app.config)  # closes its connections
    assert jid is not None

    ran = pyworkers("replay", jid, "--yes", "-r", "jobs", "--redis", redis_url, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "failed: jobs.Declined: no account in USD (order 42)\n")
    assert ran.stderr.startswith("Traceback (most recent call last):\n")  # and no line of a log that speaks of a retry

    wrote = pyworkers(
        "replay", jid, "--pytest", "-o", "test_charge.py", "-r", "jobs", "--redis", redis_url, cwd=tmp_path
    )
    assert (wrote.returncode, wrote.stderr) == (0, "")
    text = (tmp_path / "test_charge.py").read_text()
    assert 'charge.enqueue(42, currency="USD")' in text
    assert "jobs.py:12:in `charge'" in text

    reproduced = run_pytest(tmp_path)
    assert (reproduced.returncode, "1 passed" in reproduced.stdout) == (0, True), reproduced.stdout

    (tmp_path / "jobs.py").write_text(JOBS.replace("if currency", "if not currency"))
    mended = run_pytest(tmp_path)
    assert mended.returncode == 1
    assert "Failed: the job does not fail any more: take `pytest.raises` away, and keep" in mended.stdout
