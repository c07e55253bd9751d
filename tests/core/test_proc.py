from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from goworkers_py.core import proc
from goworkers_py.core.identity import new_identity
from goworkers_py.core.proc import SHORTEST_MEASURE_S, CpuMeter, certainly_dead, origin

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look at")


def test_an_identity_is_host_pid_and_a_nonce_as_sidekiqs() -> None:
    assert re.fullmatch(re.escape(f"{socket.gethostname()}:{os.getpid()}:") + "[0-9a-f]{12}", new_identity())


def test_no_identity_is_used_twice() -> None:
    assert len({new_identity() for _ in range(1_000)}) == 1_000


def test_the_identity_of_a_dyno_has_its_name_as_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNO", "worker.1")
    assert new_identity().startswith(f"worker.1:{os.getpid()}:")


# --- CPU


def test_the_cpu_of_all_threads_is_measured() -> None:
    assert CpuMeter(lambda: 0.0, lambda: 0.0).share() is None, "too early"
    before, meter = time.monotonic(), CpuMeter()
    ended, used_s = time.monotonic() + SHORTEST_MEASURE_S, time.process_time() + 0.3

    def work() -> None:
        while time.monotonic() < ended or time.process_time() < used_s:
            sum(range(1_000))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    busy = meter.share()
    assert busy is not None
    # A busy machine gives it less than a core, and no more than it likes.
    assert 0.3 / (time.monotonic() - before) < busy < 1.5
    time.sleep(SHORTEST_MEASURE_S)
    idle = meter.share()
    assert idle is not None
    assert idle < busy / 2


# --- certainly_dead


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that prints its origin and runs until it is killed."""
    tell = "import json, sys; from goworkers_py.core.proc import origin"
    tell += "; print(json.dumps(origin()), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", tell]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@needs_proc
def test_a_process_is_certainly_dead_once_it_has_ended_and_not_before(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    told = json.loads(child.stdout.readline())
    assert told["pid"] == child.pid
    assert not certainly_dead(told)
    child.kill()
    # A zombie, whose parent has not waited for it yet, has ended too.
    assert eventually(lambda: certainly_dead(told))
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()
    assert certainly_dead(told)


@needs_proc
def test_a_process_that_proc_hides_from_us_is_not_dead_until_it_has_ended(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If /proc is mounted with hidepid (systemd: ProtectProc), it does not show processes of other users."""
    assert child.stdout is not None
    told = json.loads(child.stdout.readline())
    monkeypatch.setattr(proc, "_machine", lambda: told["machine"])
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    assert not certainly_dead(told)
    child.kill()
    child.wait()
    assert certainly_dead(told)
    assert certainly_dead(told | {"pid": 2**70})


@needs_proc
def test_a_hidden_process_of_another_user_is_not_dead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    told = origin()
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    monkeypatch.setattr(os, "kill", refuse)
    assert not certainly_dead(told)


@needs_proc
def test_this_process_is_not_dead() -> None:
    assert not certainly_dead(origin())


@needs_proc
@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({"started": 1}, True),  # another process has its pid now
        ({"pid": 2**22 + 1}, True),
        ({"machine": "elsewhere"}, False),
        ({"machine": ""}, False),
        ({"machine": None}, False),
        ({"pid": None}, False),
        ({"pid": "1"}, False),
        ({"started": None}, False),
        ({"started": "1"}, False),
    ],
)
def test_a_process_is_dead_only_if_machine_pid_and_start_prove_it(changes: dict[str, Any], dead: bool) -> None:
    assert certainly_dead(origin() | changes) == dead


def test_an_empty_origin_counts_as_alive() -> None:
    assert not certainly_dead({})


@needs_proc
def test_an_origin_names_the_boot_and_the_pid_namespace() -> None:
    machine = origin()["machine"]
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() in machine
    assert re.search(r"pid:\[\d+\]", machine)


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    proc._machine.cache_clear()
    yield
    proc._machine.cache_clear()


def test_without_proc_no_process_is_certainly_dead(without_proc: None) -> None:
    told = origin()
    assert told == {"machine": "", "pid": os.getpid(), "started": None}
    assert not certainly_dead(told)
    assert not certainly_dead(told | {"machine": "host boot pid:[1]", "started": 5})


@pytest.mark.parametrize(
    ("stat", "started"),
    [
        ("12 (python) S " + " ".join(map(str, range(4, 53))), 22),
        ("12 (a) Z (b) S " + " ".join(map(str, range(4, 53))) + "\n", 22),
        ("12 (zombie) Z " + " ".join(map(str, range(4, 53))), -1),
        ("12 (dead) X " + " ".join(map(str, range(4, 53))), -1),
    ],
)
def test_the_start_time_is_found_after_any_process_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stat: str, started: int
) -> None:
    monkeypatch.setattr(proc, "_PROC", tmp_path)
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text(stat)
    assert proc._start_ticks(12) == started
