"""`processes = N`: a real parent with real children."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue
from daemon import START_S, Daemon, environment, pyworkers
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.core.errors import ConfigError
from goworkers_py.system.lifecycle import SAME_REQUEST_S

JOBS = """
import os, pathlib, signal, time
import goworkers_py as workers

VERSION = "old"

@workers.job(queue="q")
def note(number):
    with open("ran", "a") as file:
        file.write(f"{os.getpid()} {VERSION} {number}\\n")

@workers.job(queue="q")
def wait_for(path):
    note("began")
    while not pathlib.Path(path).exists():
        time.sleep(0.01)
    note("ended")

@workers.job(queue="q", retry=False)
def grow(megabytes):
    global kept
    kept = b"x" * (megabytes * 2**20)

@workers.job(queue="q")
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Parent(Daemon):
    def ready(self, children: int = 2) -> Parent:
        # One is started after the other. On a busy machine each may take long.
        ready = eventually(lambda: self.output.count("; stop it with TERM") >= children, children * START_S)
        assert ready, self.output
        return self

    def children(self) -> set[int]:
        told = [_text(place) for place in Path(f"/proc/{self.process.pid}/task").glob("*/children")]
        return {int(pid) for pid in " ".join(told).split() if _lives(int(pid))}


def _lives(pid: int) -> bool:
    state = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] not in "ZX"


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except OSError:
        return ""  # the process has ended


class Site:
    def __init__(self, directory: Path, redis_url: str, app: App) -> None:
        self.directory, self.redis_url, self.app = directory, redis_url, app

    @contextmanager
    def parent(self, *flags: str, jobs: str = JOBS, children: int = 2) -> Iterator[Parent]:
        flags = ("-q", "q=2", "--processes", str(children), *flags)
        with Parent(self.directory, self.redis_url, jobs, *flags) as parent:
            yield parent.ready(children)
            pids = parent.children()
        assert eventually(lambda: not any(map(_lives, pids))), "children outlive their parent"

    def ran(self) -> list[list[str]]:
        """pid, version of the code, what"""
        path = self.directory / "ran"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def allow(self, path: str) -> None:
        (self.directory / path).touch()


@pytest.fixture
def site(redis_url: str, tmp_path: Path) -> Iterator[Site]:
    with own_app(redis_url) as app:
        yield Site(tmp_path, redis_url, app)


def test_the_children_share_the_work_and_a_stop_drains_them_all(site: Site, redis: redis_py.Redis) -> None:
    with site.parent(children=2) as parent:
        pids = parent.children()
        assert len(pids) == 2
        for _ in range(4):
            site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(lambda: len(site.ran()) == 4)
        assert {int(pid) for pid, _, _ in site.ran()} == pids
        parent.signal(signal.SIGTERM)
        parent.says("2 processes")
        site.allow("gate")
        assert parent.wait() == 0
    assert [what for _, _, what in site.ran()].count("ended") == 4
    assert not in_progress(redis)
    assert redis.get("stat:processed") == b"4"


def test_the_parent_has_one_thread_and_no_connection(site: Site, redis: redis_py.Redis) -> None:
    with site.parent() as parent:
        status = Path(f"/proc/{parent.process.pid}/status").read_text()
        assert re.search(r"^Threads:\s+1$", status, re.MULTILINE)
        sockets = [os.readlink(link) for link in Path(f"/proc/{parent.process.pid}/fd").iterdir()]  # noqa: PTH115
        tcp = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
        assert not [link for link in sockets if link.removeprefix("socket:[").removesuffix("]") in tcp]
        assert parent.stop() == 0


def test_a_child_that_dies_is_replaced_and_its_jobs_are_run_by_the_others_at_once(
    site: Site, redis: redis_py.Redis
) -> None:
    with site.parent() as parent:
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(site.ran)
        killed = int(site.ran()[0][0])
        os.kill(killed, signal.SIGKILL)
        # Long before its lease, or the next regular look of the others.
        assert eventually(lambda: [what for _, _, what in site.ran()] == ["began", "began"], 10)
        parent.says(f"process {killed} died with SIGKILL")
        assert eventually(lambda: len(parent.children()) == 2)
        assert killed not in parent.children()
        site.allow("gate")
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        assert parent.stop() == 0
    assert not in_progress(redis)


@pytest.mark.slow
def test_a_child_that_dies_again_and_again_is_started_more_and_more_slowly(site: Site, redis: redis_py.Redis) -> None:
    with site.parent("--poison-limit", "4") as parent:
        site.app.enqueue("q", "die", [])
        assert eventually(lambda: redis.zcard("dead") == 1, 40), parent.output
        died = [line for line in parent.output.splitlines() if "died with SIGKILL" in line]
        assert len(died) == 4
        assert len(set(died)) == 4
        assert eventually(lambda: len(parent.children()) == 2, 30)
        assert parent.stop() == 0


def test_children_whose_parent_is_killed_stop_as_they_should(site: Site, redis: redis_py.Redis) -> None:
    with site.parent() as parent:
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(site.ran)
        pids = parent.children()
        parent.kill()
        assert eventually(lambda: "the parent process is gone: stopping" in parent.output)
        site.allow("gate")
        assert eventually(lambda: not any(map(_lives, pids)))
    assert redis.get("stat:processed") == b"1"
    assert not in_progress(redis)


def test_a_parent_that_dies_with_words_unread_leaves_no_child_behind(site: Site, redis: redis_py.Redis) -> None:
    with site.parent("--max-jobs", "1", children=1) as parent:
        pids = parent.children()
        parent.signal(signal.SIGSTOP)
        site.app.enqueue("q", "note", [1])
        parent.says("worn out")
        parent.kill()
        assert eventually(lambda: "the parent process is gone: stopping" in parent.output)
        assert eventually(lambda: not any(map(_lives, pids)))


def test_a_parent_that_dies_while_its_children_drain_hurries_none(site: Site, redis: redis_py.Redis) -> None:
    with site.parent("-t", "30") as parent:
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(site.ran)
        pids = parent.children()
        parent.signal(signal.SIGTERM)
        assert eventually(lambda: parent.output.count("got SIGTERM") == 2)
        time.sleep(SAME_REQUEST_S + 0.1)
        parent.kill()
        assert eventually(lambda: "the parent process is gone: stopping" in parent.output)
        site.allow("gate")
        assert eventually(lambda: not any(map(_lives, pids)))
    assert "asked again" not in parent.output
    assert redis.get("stat:processed") == b"1"


def test_a_child_that_was_replaced_and_is_killed_leaves_its_jobs_to_the_others_at_once(
    site: Site, redis: redis_py.Redis
) -> None:
    with site.parent() as parent:
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(site.ran)
        old = int(site.ran()[0][0])
        parent.signal(signal.SIGUSR2)
        parent.says(f"process {old} retires")
        parent.ready(4)
        os.kill(old, 36)  # a signal without a name
        assert eventually(lambda: [what for _, _, what in site.ran()] == ["began", "began"], 10)
        parent.says(f"process {old} ended with signal 36")
        site.allow("gate")
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        assert eventually(lambda: len(parent.children()) == 2)
        assert parent.stop() == 0


@pytest.mark.slow
def test_a_child_that_dies_while_its_successor_starts_leaves_no_one_too_many(site: Site) -> None:
    with site.parent() as parent:
        first = min(parent.children())
        parent.signal(signal.SIGUSR2)
        assert eventually(lambda: len(parent.children()) == 3)
        os.kill(first, signal.SIGKILL)
        parent.says(f"process {first} died with SIGKILL")
        parent.ready(4)
        assert not eventually(lambda: len(parent.children()) < 2, 0.5)
        assert eventually(lambda: len(parent.children()) == 2)
        assert parent.stop() == 0


def test_a_child_that_has_run_enough_jobs_is_replaced_and_no_job_is_lost_or_run_twice(
    site: Site, redis: redis_py.Redis
) -> None:
    with site.parent("--max-jobs", "20", children=1) as parent:
        [first] = parent.children()
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(lambda: len(site.ran()) == 1)
        for number in range(100):
            site.app.enqueue("q", "note", [number])
        parent.says("worn out, asking the parent for a successor: ")
        parent.says("quiet: no new jobs are fetched")
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1), "its successor's"
        late = [site.app.enqueue("q", "note", ["late"]) for _ in range(10)]
        assert eventually(lambda: len([1 for _, _, what in site.ran() if what == "late"]) == len(late))
        assert all(int(pid) != first for pid, _, what in site.ran() if what == "late")
        assert _lives(first), "it does not wait for its own last job"
        site.allow("gate")
        parent.says(f"process {first} ended with exit code 0")
        assert parent.stop() == 0
    numbers = [what for _, _, what in site.ran() if what.isdigit()]
    assert sorted(map(int, numbers)) == list(range(100))
    assert redis.get("stat:processed") == b"111"


def test_a_child_that_has_grown_too_large_is_replaced(site: Site) -> None:
    with site.parent("--max-memory", "120M", children=1) as parent:
        [first] = parent.children()
        site.app.enqueue("q", "grow", [150])
        assert "resident, max_memory is 120 MB" in parent.says("worn out")
        parent.says(f"process {first} ended with exit code 0")
        assert eventually(lambda: len(parent.children()) == 1)
        assert parent.stop() == 0


def test_usr2_replaces_all_one_by_one_by_the_new_code_and_what_runs_ends(site: Site, redis: redis_py.Redis) -> None:
    with site.parent() as parent:
        old = parent.children()
        site.app.enqueue("q", "wait_for", ["gate"])
        assert eventually(site.ran)
        # Of another length: a file of the same second and length is not compiled anew.
        (site.directory / "jobs.py").write_text(textwrap.dedent(JOBS).replace('"old"', '"newer"'))
        parent.signal(signal.SIGUSR2)
        parent.ready(4)
        for pid in old:
            parent.says(f"process {pid} retires when its jobs have ended")
        assert eventually(lambda: parent.output.count("quiet: no new jobs are fetched") == 2)
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 2)
        site.app.enqueue("q", "note", ["deployed"])
        assert eventually(lambda: site.ran()[-1][1:] == ["newer", "deployed"])
        site.allow("gate")
        assert eventually(lambda: not old & parent.children()), parent.output
        assert len(parent.children()) == 2
        assert parent.stop() == 0
    assert ["old", "ended"] in [line[1:] for line in site.ran()]
    assert redis.get("stat:processed") == b"2"


def test_reload_by_command_replaces_the_process_that_is_named_and_is_answered(site: Site, redis_url: str) -> None:
    with site.parent() as parent:
        old = parent.children()
        named = min(old)
        # A process is shown after its first beat, which is not ordered with its log line.
        assert eventually(lambda: len(site.app.inspector.processes()) == 2)
        identity = next(one for one in site.app.inspector.processes() if f":{named}:" in one.identity).identity
        told = pyworkers("processes", "reload", identity, PYWORKERS_BROKER=redis_url)
        assert (told.returncode, told.stdout) == (0, f"{identity}: a new process replaces it when that is ready\n")
        assert eventually(lambda: named not in parent.children() and len(parent.children()) == 2), parent.output
        assert max(old) in parent.children()
        assert parent.stop() == 0


def test_a_single_process_answers_that_nothing_can_replace_it(site: Site, redis_url: str) -> None:
    with Daemon(site.directory, redis_url, JOBS, "-q", "q=2").ready() as alone:
        assert eventually(lambda: len(site.app.inspector.processes()) == 1)
        told = pyworkers("processes", "reload", "--all", "--yes", PYWORKERS_BROKER=redis_url)
        assert told.returncode == 1
        assert "this process has no parent that could replace it: set `processes`, or restart it" in told.stderr
        assert alone.stop() == 0


def test_when_the_new_code_does_not_start_the_old_processes_go_on(site: Site) -> None:
    with site.parent() as parent:
        old = parent.children()
        (site.directory / "jobs.py").write_text("import nothing_of_that_name\n")
        parent.signal(signal.SIGUSR2)
        parent.says("died with require: module 'jobs' cannot be imported: ModuleNotFoundError")
        parent.says("died before it was ready: the old processes go on")
        site.app.enqueue("q", "note", ["still"])
        assert eventually(lambda: [line[1:] for line in site.ran()] == [["old", "still"]])
        assert parent.children() == old
        assert parent.stop() == 0


def test_what_is_wrong_at_the_start_is_said_once_and_ends_it(redis_url: str, tmp_path: Path) -> None:
    with Daemon(tmp_path, redis_url, "import nothing_of_that_name") as alone:
        code = alone.wait()
    with Daemon(tmp_path, redis_url, "import nothing_of_that_name", "--processes", "4") as daemon:
        assert daemon.wait() == code
    assert code in (1, 2)
    assert daemon.output.count("ModuleNotFoundError") == alone.output.count("ModuleNotFoundError") == 1


SLOW_IMPORT = """
import os, pathlib, time
pathlib.Path(f"importing-{os.getpid()}").touch()
while not pathlib.Path("gate").exists():
    time.sleep(0.01)
"""


def test_a_child_that_is_killed_before_any_was_ready_is_replaced(redis_url: str, tmp_path: Path) -> None:
    with Parent(tmp_path, redis_url, SLOW_IMPORT, "-q", "q=1", "--processes", "2") as parent:
        assert eventually(lambda: list(tmp_path.glob("importing-*")), 20), parent.output
        [first] = parent.children()
        os.kill(first, signal.SIGKILL)
        parent.says(f"process {first} died with SIGKILL")
        (tmp_path / "gate").touch()
        parent.ready(2)
        assert parent.stop() == 0, parent.output


def test_signals_to_parent_and_children_in_their_first_moments_end_none(redis_url: str, tmp_path: Path) -> None:
    """As `systemctl kill` sends them to all processes of a unit."""
    with Parent(tmp_path, redis_url, SLOW_IMPORT, "-q", "q=1", "--processes", "2") as parent:
        assert eventually(parent.children, 20), parent.output
        [first] = parent.children()
        for pid in (first, parent.process.pid):
            os.kill(pid, signal.SIGTTIN)
            os.kill(pid, signal.SIGUSR2)
        (tmp_path / "gate").touch()
        parent.says("USR2: replacing every process by a new one")
        assert eventually(lambda: "got SIGUSR2" in parent.output and "got SIGTTIN" in parent.output, 20), parent.output
        parent.ready(2)
        assert parent.stop() == 0, parent.output
    assert "died with" not in parent.output


def test_quiet_holds_for_all_and_no_new_child_undoes_it(site: Site, redis: redis_py.Redis) -> None:
    with site.parent() as parent:
        parent.signal(signal.SIGTSTP)
        assert eventually(lambda: parent.output.count("quiet: no new jobs are fetched") == 2)
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 0)
        os.kill(min(parent.children()), signal.SIGKILL)
        parent.says("died with SIGKILL")
        jid = site.app.enqueue("q", "note", [1])
        assert not eventually(lambda: site.ran() or len(parent.children()) > 1, 1.5)
        assert parent.stop() == 0
    assert fields(queue(redis), "jid") == [jid]


def test_a_second_term_does_not_wait_for_running_jobs(site: Site, redis: redis_py.Redis) -> None:
    with site.parent("-t", "60") as parent:
        site.app.enqueue("q", "wait_for", ["never"])
        assert eventually(site.ran)
        parent.signal(signal.SIGTERM)
        # Each child knows by now when it was asked.
        assert eventually(lambda: parent.output.count("stopping: running jobs have 60 s to finish") == 2)
        assert not eventually(lambda: parent.process.poll() is not None, 1)
        parent.signal(signal.SIGTERM)
        parent.wait()
    assert len(queue(redis)) == 1


SLOW_END = (
    JOBS
    + """
import atexit
import os

@atexit.register
def end_slowly():
    pathlib.Path(f"ending-{os.getpid()}").touch()
    while not pathlib.Path("gate").exists():
        time.sleep(0.01)
"""
)


def test_a_term_that_meets_a_replaced_child_at_the_end_of_its_interpreter_is_a_clean_stop(site: Site) -> None:
    with site.parent(jobs=SLOW_END) as parent:
        parent.signal(signal.SIGUSR2)
        assert eventually(lambda: list(site.directory.glob("ending-*"))), parent.output
        parent.signal(signal.SIGTERM)
        parent.says("ended with SIGTERM")
        site.allow("gate")
        assert parent.wait() == 0, parent.output


def test_a_child_that_leaves_jobs_behind_and_is_then_ended_is_no_clean_stop(site: Site, redis: redis_py.Redis) -> None:
    with site.parent(jobs=SLOW_END, children=2) as parent:
        redis.config_set("min-replicas-to-write", "1")
        try:
            parent.signal(signal.SIGTERM)
            assert eventually(lambda: len(list(site.directory.glob("ending-*"))) == 2), parent.output
            for pid in parent.children():
                os.kill(pid, signal.SIGTERM)
            assert parent.wait() == 1, parent.output
        finally:
            redis.config_set("min-replicas-to-write", "0")


def test_the_death_of_a_child_just_before_a_term_is_no_fault_of_the_stop(site: Site) -> None:
    with site.parent() as parent:
        parent.signal(signal.SIGSTOP)
        first = min(parent.children())
        os.kill(first, signal.SIGKILL)
        # Its first thread may be gone before the others, without which its parent hears of no death.
        assert eventually(lambda: not _lives(first) and len(list(Path(f"/proc/{first}/task").iterdir())) == 1)
        parent.signal(signal.SIGTERM)
        parent.signal(signal.SIGCONT)
        parent.says("died with SIGKILL")
        assert parent.wait() == 0, parent.output


@pytest.mark.slow
def test_a_term_ends_the_patience_with_a_child_that_retires(site: Site, redis: redis_py.Redis) -> None:
    with site.parent("-t", "0.5", children=1) as parent:
        site.app.enqueue("q", "wait_for", ["never"])
        assert eventually(site.ran)
        # One process would not have a parent without this.
        parent.signal(signal.SIGUSR2)
        parent.says("USR2 ignored: there is one process only")
        assert parent.stop() == 0
    with site.parent("-t", "0.5") as parent:
        parent.signal(signal.SIGUSR2)
        parent.says("all the time they need")
        assert not eventually(lambda: parent.process.poll() is not None, 1)
        parent.signal(signal.SIGTERM)
        parent.wait()
    assert len(queue(redis)) == 1


@pytest.mark.slow
def test_ttin_tells_of_the_threads_of_every_child(site: Site) -> None:
    with site.parent() as parent:
        parent.signal(signal.SIGTTIN)
        assert eventually(lambda: parent.output.count("thread worker:q:1") == 2)
        assert parent.stop() == 0


def test_a_program_of_ones_own_runs_its_children_by_itself(site: Site) -> None:
    program = site.directory / "main.py"
    program.write_text(
        "import sys, jobs, goworkers_py as workers\n"
        f"workers.configure(redis={site.redis_url!r}, processes=2)\n"
        "sys.exit(workers.run())\n"
    )
    (site.directory / "jobs.py").write_text(textwrap.dedent(JOBS))
    process = subprocess.Popen([sys.executable, "main.py"], cwd=site.directory, env=environment())
    try:
        site.app.enqueue("q", "note", [1])
        assert eventually(site.ran)
        assert int(site.ran()[0][0]) != process.pid
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--processes", "0"), "--processes must be at least 1"),
        (("--processes", "1001"), "--processes must be at most 1000"),
        (("--max-jobs", "-1"), "--max-jobs must be at least 0"),
        (("--max-memory", "100"), "--max-memory must be 0 or a number with a unit, such as 512M or 2G"),
        (("--max-memory", "1M"), "--max-memory must be at least 16M"),
        (("--processes", "2", "--process", "one"), "process: a fixed name is for one process"),
    ],
)
def test_what_is_out_of_range_is_refused(flags: tuple[str, ...], told: str) -> None:
    result = pyworkers("config", "check", *flags)
    assert result.returncode == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("512M", 2**29), ("1.5G", 3 * 2**29), ("2 gb", 2**31), ("65536K", 2**26)]
)
def test_memory_is_said_with_a_unit(text: str, size: int) -> None:
    app = App()
    app.configure(max_memory=text)
    assert app.config.max_memory == size
    with pytest.raises(ConfigError):
        app.configure(max_memory="lots")
