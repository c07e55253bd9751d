"""The messages to systemd, and the units in conf/systemd."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apps import own_app
from daemon import Daemon
from hanging import HANG
from servers import RedisServer, do_without
from waiting import eventually

from goworkers_py.config.options import Config
from goworkers_py.observe.health_report import merged
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.system import systemd as systemd_module
from goworkers_py.system.systemd import SystemdNotifier

UNITS = sorted((Path(__file__).parents[2] / "conf/systemd").glob("*.service"))

JOBS = """
import os, threading, time
import goworkers_py as workers

@workers.job(queue="q")
def nap(seconds):
    with open("environment", "w") as file:
        file.write("\\n".join(os.environ))
    time.sleep(seconds)

@workers.job(queue="q")
def held():
    nap(0)
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


class Systemd:
    """Listens where NOTIFY_SOCKET says."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._heard: list[str] = []
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._line.setblocking(False)

    def heard(self) -> list[str]:
        """Every line up to now."""
        while True:
            try:
                self._heard += self._line.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self._heard

    def status(self) -> str:
        return next((line for line in reversed(self.heard()) if line.startswith("STATUS=")), "")

    def count(self, line: str) -> int:
        return self.heard().count(line)

    def close(self) -> None:
        self._line.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    abstract = request.param == "abstract"
    if abstract and sys.platform != "linux":
        do_without("abstract sockets are Linux's")
    systemd = Systemd(f"@pyworkers-{secrets.token_hex(6)}" if abstract else str(tmp_path / "notify"))
    yield systemd
    systemd.close()


def of(systemd: Systemd, watchdog_s: float = 60) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": f"{watchdog_s * 1e6:.0f}"}


def test_systemd_is_told_of_the_start_of_the_work_and_of_the_stop(
    systemd: Systemd, redis_url: str, tmp_path: Path
) -> None:
    with own_app(redis_url) as app, Daemon(tmp_path, redis_url, JOBS, "-q", "q=3", changes=of(systemd, 0.4)) as daemon:
        assert eventually(lambda: systemd.count("READY=1")), daemon.output
        assert "STATUS=working, 0 of 3 threads busy, queues q" in systemd.heard()
        app.enqueue("q", "held", [])
        assert eventually(lambda: "STATUS=working, 1 of 3 threads busy, queues q" in systemd.heard())
        assert eventually(lambda: systemd.count("WATCHDOG=1") >= 3)
        daemon.signal(signal.SIGTERM)
        assert eventually(lambda: systemd.count("STOPPING=1"))
        (tmp_path / "go").touch()
        assert daemon.wait() == 0
    assert "NOTIFY_SOCKET" not in (tmp_path / "environment").read_text()  # by now the job has written it
    assert systemd.count("READY=1") == systemd.count("STOPPING=1") == 1


@pytest.mark.usefixtures("server_program")
def test_an_outage_is_no_reason_to_be_killed(tmp_path: Path) -> None:
    systemd, server = Systemd(str(tmp_path / "notify")), RedisServer()
    try:
        with Daemon(tmp_path, server.url, JOBS, changes=of(systemd, 0.2)).ready() as daemon:
            server.kill()
            daemon.says("Redis cannot serve")
            fed = systemd.count("WATCHDOG=1")
            assert eventually(lambda: systemd.count("WATCHDOG=1") > fed + 5)
    finally:
        server.close()
        systemd.close()


@pytest.mark.parametrize("flags", [(), ("--processes", "2")])
def test_the_watchdog_is_not_fed_while_the_heartbeat_hangs(
    flags: tuple[str, ...], redis_url: str, tmp_path: Path
) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    try:
        with Daemon(tmp_path, redis_url, JOBS + HANG, *flags, changes=of(systemd, 0.2)) as daemon:
            assert eventually(lambda: "heartbeat stands still for" in systemd.status()), daemon.output
            fed = systemd.count("WATCHDOG=1")
            assert not eventually(lambda: systemd.count("WATCHDOG=1") > fed, 1)
            assert daemon.stop() in (0, 1)
    finally:
        systemd.close()


def test_a_parent_speaks_for_its_children_and_is_ready_when_they_all_are(redis_url: str, tmp_path: Path) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    slow = JOBS + "\nworkers.before_start(lambda: time.sleep(0.5))\n"
    try:
        with (
            own_app(redis_url) as app,
            Daemon(tmp_path, redis_url, slow, "-q", "q=2", "--processes", "2", changes=of(systemd, 0.4)) as daemon,
        ):
            told = 0
            while told == 0:
                told = systemd.count("READY=1")  # first: the last child may get ready between the two looks
                assert told == 0 or daemon.output.count("; stop it with TERM") == 2
                time.sleep(0.01)
            assert eventually(lambda: systemd.count("READY=1"))
            assert eventually(lambda: systemd.status() == "STATUS=working, 0 of 4 threads busy, queues q")
            app.enqueue("q", "nap", [0])
            assert eventually(lambda: (tmp_path / "environment").exists())
            assert "NOTIFY_SOCKET" not in (tmp_path / "environment").read_text()
            daemon.signal(signal.SIGTERM)
            assert eventually(lambda: systemd.count("STOPPING=1"))
            assert daemon.wait() == 0
        assert systemd.count("READY=1") == 1
    finally:
        systemd.close()


def test_the_word_of_the_start_is_said_again_until_it_gets_through(tmp_path: Path) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    try:
        notifier = SystemdNotifier(of(systemd, 0.02))
        fill = SystemdNotifier(of(systemd))
        while fill.say("STATUS=somebody else"):
            pass
        notifier.follow("working", lambda: merged("working", []))
        assert systemd.count("READY=1") == 0
        for _ in range(3):
            time.sleep(0.02)
            notifier.follow("working", lambda: merged("working", []))
        assert systemd.count("READY=1") == 1
    finally:
        systemd.close()


def test_a_start_that_is_told_to_be_quiet_ends_too(tmp_path: Path) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    ready: list[None] = []
    try:
        notifier = SystemdNotifier(of(systemd), lambda: ready.append(None))
        for state in ("starting", "quiet", "stopping"):
            notifier.follow(state, lambda: merged("", []))
        milestones = [line for line in systemd.heard() if line in ("READY=1", "STOPPING=1")]
        assert milestones == ["READY=1", "STOPPING=1"]
        assert len(ready) == 1
    finally:
        systemd.close()


def test_without_systemd_nothing_is_said() -> None:
    environment: dict[str, str] = {}
    notifier = SystemdNotifier(environment)
    notifier.follow("working", lambda: pytest.fail("no report is asked for"))
    notifier.say("READY=1")


def test_a_watchdog_that_is_meant_for_another_process_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd_module, "STATUS_EVERY_S", 60.0)
    environment = {"NOTIFY_SOCKET": str(tmp_path / "none"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getppid())}
    notifier = SystemdNotifier(environment)
    asked = []
    for _ in range(3):
        notifier.follow("working", lambda: asked.append(1) or merged("working", []))  # type: ignore[func-returns-value]
        time.sleep(0.01)
    assert len(asked) == 1  # nobody listens at the socket, which does no harm
    assert environment == {}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    """With paths that exist here."""
    if not shutil.which("systemd-analyze"):
        do_without("systemd-analyze is missing (Debian: apt-get install systemd)")
    text = unit.read_text("utf-8")
    command = "/srv/app/.venv/bin/pyworkers"
    assert f"ExecStart={command} run -c /etc/pyworkers/" in text
    installed = tmp_path / unit.name.replace("@", "@mail")
    installed.write_text(text.replace(command, str(Path(sys.executable).with_name("pyworkers"))))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)], capture_output=True, text=True, timeout=30
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_unit_leaves_enough_time_to_stop(unit: Path) -> None:
    lines = unit.read_text("utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    assert float(settings["TimeoutStopSec"]) >= Config().timeout + 2 * Launcher.after_jobs_s
    assert (settings["Type"], settings["Restart"], settings["KillMode"]) == ("notify", "always", "mixed")
