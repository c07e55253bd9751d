"""The programs as fixtures, for the tests here and those of features. Where Ruby or Go is missing, their tests are
skipped, and fail where CI is set."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import archives
import pytest
from apps import own_app
from browser import Browser, SidekiqWeb, missing
from gems import Gems
from programs import GO, GoWorkers, PyWorkers, Ruby, do_without, sidekiq_version, third_party

from goworkers_py import App


@pytest.fixture(scope="session")
def has_sidekiq() -> None:
    for program in ("ruby", "sidekiq"):
        if shutil.which(program) is None:
            do_without(f"no {program} on PATH (Debian: apt-get install ruby-sidekiq)")
    if not sidekiq_version():
        do_without("ruby cannot load sidekiq (Debian: apt-get install ruby-sidekiq)")


@pytest.fixture(scope="session")
def go_binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of gw1 and gw2."""
    return _filled_once(tmp_path_factory, "go", lambda folder: _build("-o", f"{folder}/", "./..."))


@pytest.fixture(scope="session")
def gw2_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gw2 with the master branch of go-workers2, which alone has a heartbeat."""
    archive = third_party("go-workers2-master.tar.gz")

    def build(folder: Path) -> None:
        archives.unpack(archive, folder)
        for name in ("go.mod", "go.sum"):
            shutil.copy(GO / name, folder)
        replaced = f"-replace=github.com/digitalocean/go-workers2={folder / 'go-workers2'}"
        subprocess.run(["go", "mod", "edit", replaced, folder / "go.mod"], check=True)
        _build("-tags", "master", "-modfile", folder / "go.mod", "-o", folder / "gw2-master", "./gw2")

    return _filled_once(tmp_path_factory, "go-master", build) / "gw2-master"


def _filled_once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """The parallel workers of pytest have the folder together. One of them fills it, and the others wait."""
    if shutil.which("go") is None:
        do_without("no go on PATH (Debian: apt-get install golang-go)")
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "filled").exists():
            fill(folder)
            (folder / "filled").touch()
    return folder


def _build(*flags: str | Path) -> None:
    built = subprocess.run(["go", "build", *flags], cwd=GO, capture_output=True, text=True)
    if built.returncode != 0:
        do_without(f"the Go programs cannot be built: {built.stderr}")


@pytest.fixture(scope="session")
def browser(has_sidekiq: None, redis_server: str) -> Iterator[Browser]:
    """On the pages of a Sidekiq Web of the server that tests share."""
    if reason := missing():
        do_without(reason)
    with SidekiqWeb(redis_server) as web, Browser(web.url) as browser:
        yield browser


@pytest.fixture
def ruby(has_sidekiq: None, redis_url: str, tmp_path: Path) -> Ruby:
    return Ruby(redis_url, tmp_path)


@pytest.fixture
def gems(has_sidekiq: None, redis_url: str, tmp_path: Path) -> Gems:
    return Gems(redis_url, tmp_path)


@pytest.fixture(params=["gw1", "gw2"])
def go(request: pytest.FixtureRequest, go_binaries: Path, redis_url: str, tmp_path: Path) -> GoWorkers:
    """go-workers, then go-workers2."""
    return GoWorkers(go_binaries / request.param, redis_url, tmp_path)


@pytest.fixture
def pyworkers(redis_url: str, tmp_path: Path) -> PyWorkers:
    return PyWorkers(redis_url, tmp_path)


@pytest.fixture
def python(redis_url: str) -> Iterator[App]:
    """Our client in this process."""
    with own_app(redis_url) as app:
        yield app
