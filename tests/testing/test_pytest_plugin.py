"""The pytest plugin, as an installed package brings it: each test runs pytest in a project, without a server."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from apps import NOWHERE
from daemon import environment

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/python-testing"

pytestmark = pytest.mark.server  # it starts Python processes


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which the package is installed, with the entry points of setup.cfg."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", "utf-8")
    installed = tmp_path / "site" / "installed-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{setup['options.entry_points']['pytest11'].strip()}\n")
    project = tmp_path / "project"
    project.mkdir()
    return project


def run_tests(project: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(project.parent / "site"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=environment(PYTHONPATH=path, PYWORKERS_BROKER=NOWHERE, PYTEST_ADDOPTS=""),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_passes_without_a_server(project: Path) -> None:
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    assert "6 passed" in run_tests(project)


def test_the_tests_in_the_docs_pass(project: Path) -> None:
    page = (ROOT / "docs/testing.md").read_text("utf-8")
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL))
    with_threads = files.pop("test_threads.py")  # the page keeps it away from its conftest.py
    for name, text in files.items():
        (project / name).write_text(text, "utf-8")
    assert "8 passed" in run_tests(project)
    for name in files:
        (project / name).unlink()
    (project / "test_threads.py").write_text(with_threads, "utf-8")
    assert "1 passed" in run_tests(project)


def test_the_plugin_imports_the_package_only_for_a_test_that_uses_it(project: Path) -> None:
    (project / "test_project.py").write_text(
        "import sys\n"
        "def test_before(): assert 'pytest_pyworkers' in sys.modules and 'goworkers_py' not in sys.modules\n"
        "def test_use(pyworkers_fake): assert 'goworkers_py' in sys.modules\n"
    )
    run_tests(project)
    assert "pyworkers_inline" in run_tests(project, "--fixtures")


def test_a_project_names_the_app_of_its_fixtures(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import pytest, goworkers_py\n"
        "app = goworkers_py.App()\n"
        "app.job('J', queue='q')(lambda: None)\n"
        "@pytest.fixture\n"
        "def pyworkers_app(): return app\n"
    )
    (project / "test_project.py").write_text(
        "def test_fake(pyworkers_fake, pyworkers_app):\n"
        "    pyworkers_app.enqueue('q', 'J', [])\n"
        "    assert [run.outcome for run in pyworkers_fake.run_all()] == ['done']\n"
        "def test_inline(pyworkers_inline, pyworkers_app):\n"
        "    pyworkers_app.enqueue('q', 'J', [])\n"
        "    assert pyworkers_inline.jobs() == []\n"
    )
    run_tests(project)


def test_the_error_of_a_failed_assertion_shows_the_test_and_not_our_code(project: Path) -> None:
    (project / "test_project.py").write_text(
        "import goworkers_py as workers, pytest\n"
        "def test_fake(pyworkers_fake, request):\n"
        "    with pytest.raises(AssertionError) as raised:\n"
        "        workers.testing.assert_enqueued('J', 1)\n"
        "    shown = [entry.name for entry in raised.traceback.filter(raised)]\n"
        "    assert shown == ['test_fake']\n"
    )
    run_tests(project)
