"""`start`, `stop`, `restart`, `status` and `reload`, with real daemons."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from calls import Call
from daemon import Daemon, command, environment, pyworkers
from forks import ended_well, in_child
from servers import RedisServer
from waiting import eventually, state_of

from goworkers_py.api.app import App
from goworkers_py.core.errors import ConfigError, WorkersError
from goworkers_py.system import daemon as daemon_module
from goworkers_py.system.pidfile import OTHERS_LOOK_S, Pidfile

JOBS = """
import os, time
import goworkers_py as workers

@workers.job(queue="q")
def note(text):
    print("printed", text, os.getpid(), flush=True)
"""


class Site:
    def __init__(self, directory: Path, redis_url: str) -> None:
        self.directory = directory
        self.pidfile, self.logfile = directory / "pid", directory / "log"
        self._flags = ("-c", str(directory / "conf.ini"))
        (directory / "jobs.py").write_text(JOBS)
        self.configure(redis_url)

    def configure(self, redis_url: str, **options: str) -> None:
        options = {"redis": redis_url, "require": "jobs", "pidfile": "pid", "logfile": "log", "timeout": "5"} | options
        lines = [f"{name} = {value}" for name, value in options.items()]
        (self.directory / "conf.ini").write_text("\n".join(["[pyworkers]", *lines, "[queue:q]", "concurrency = 2", ""]))

    def run(self, word: str, *flags: str) -> tuple[int, str]:
        done = pyworkers(word, *self._flags, *flags, cwd=self.directory)
        return done.returncode, (done.stdout + done.stderr).strip()

    def pid(self) -> int:
        return int(self.pidfile.read_text())

    def log(self) -> str:
        return self.logfile.read_text() if self.logfile.exists() else ""


@pytest.fixture
def site(redis_url: str, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, redis_url)
    yield site
    if pid := Pidfile(site.pidfile).holder():
        os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Also while one of its threads has not ended yet after a SIGKILL: until then its files are locked."""
    return any(state_of(stat) not in "ZX" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))


def test_it_starts_works_and_stops(site: Site, redis_url: str) -> None:
    not_running = f"pyworkers is not running: no process holds the pidfile {site.pidfile}"
    assert site.run("status") == (1, not_running)
    assert site.run("stop") == (0, not_running)
    code, told = site.run("start")
    pid = site.pid()
    assert (code, told) == (0, f"pyworkers is running as process {pid}")
    assert os.getsid(pid) not in (os.getsid(0), pid)  # no terminal is its own, nor ever will be
    assert site.run("status") == (0, f"pyworkers is running as process {pid}")
    assert site.run("start") == (
        1, f"pyworkers: pidfile {site.pidfile}: pyworkers runs already, as process {pid}"
    )  # fmt: skip
    with own_app(redis_url) as app:
        app.enqueue("q", "note", ["this"])
        assert eventually(lambda: f"printed this {pid}" in site.log())
    waits = f"pyworkers: process {pid} is stopping: waiting up to 5 s for running jobs"
    assert site.run("stop") == (0, f"process {pid} has ended\n{waits}")
    assert not lives(pid)
    assert not site.pidfile.exists()
    assert " INFO: stopped" in site.log()


def test_restart_goes_on_where_its_lines_can_not_be_written(site: Site) -> None:
    """The tool that has called it is gone, say, or the disk is full."""
    site.run("start")
    first = site.pid()
    command = [sys.executable, "-m", "goworkers_py.cli", "restart", "-c", str(site.directory / "conf.ini")]
    with Path("/dev/full").open("w") as full:
        subprocess.run(command, cwd=site.directory, stderr=full, stdout=subprocess.DEVNULL, timeout=60, check=True)
    assert site.pid() != first
    assert not lives(first)


def test_after_a_crash_it_starts_again_and_says_so(site: Site) -> None:
    site.run("start")
    crashed = site.pid()
    os.kill(crashed, signal.SIGKILL)
    assert eventually(lambda: not lives(crashed))
    assert site.run("status")[0] == 1
    site.pidfile.write_text(f"{os.getpid()}\n")  # its number was given to another program since
    assert site.run("status")[0] == 1
    assert site.run("stop") == (0, f"pyworkers is not running: no process holds the pidfile {site.pidfile}")
    code, told = site.run("restart")
    assert (code, told) == (0, f"pyworkers is running as process {site.pid()}"), site.log()
    assert site.run("stop")[0] == 0


@pytest.mark.timeout(180)
def test_restart_and_reload_bring_new_code(site: Site, redis_url: str) -> None:
    site.configure(redis_url, processes="2", directory=str(site.directory))
    assert site.run("start")[0] == 0, site.log()
    parent = site.pid()
    (site.directory / "jobs.py").write_text(JOBS.replace("printed", "newly printed"))
    code, told = site.run("reload")
    assert (code, told) == (0, f"process {parent} is replacing its children; its log shows the progress")
    # One that is told to retire may fetch once more before it does.
    assert eventually(lambda: site.log().count(" ended with exit code 0") == 2), site.log()
    with own_app(redis_url) as app:
        app.enqueue("q", "note", ["this"])
        assert eventually(lambda: "newly printed this" in site.log()), site.log()
    (site.directory / "jobs.py").write_text("import nothing_of_that_name\n")
    code, told = site.run("restart")
    assert code == 2
    assert "nothing_of_that_name" in told
    assert told.endswith("pyworkers: the new code does not start, see above; the running process was left as it is")
    assert site.pid() == parent
    (site.directory / "jobs.py").write_text(JOBS)
    code, told = site.run("restart")
    waits = f"pyworkers: process {parent} is stopping: waiting up to 5 s for running jobs"
    assert (code, told) == (0, f"pyworkers is running as process {site.pid()}\n{waits}")
    assert site.pid() != parent
    assert not lives(parent)
    assert site.run("stop")[0] == 0


def test_reload_tries_the_new_code_first(site: Site, redis_url: str) -> None:
    site.configure(redis_url, processes="2", directory=str(site.directory))
    assert site.run("start")[0] == 0, site.log()
    (site.directory / "jobs.py").write_text("import nothing_of_that_name\n")
    code, told = site.run("reload")
    assert code == 2
    assert "nothing_of_that_name" in told
    assert told.endswith("pyworkers: the new code does not start, see above; the running process was left as it is")
    assert site.run("stop")[0] == 0
    assert "USR2" not in site.log()


@pytest.mark.parametrize(
    ("word", "own"),
    [
        ("stop", {"pidfile", "directory", "timeout"}),
        ("status", {"pidfile", "directory"}),
        (
            "reload",
            {
                "pidfile",
                "directory",
                "processes",
                "max-jobs",
                "max-memory",
                "require",
                "user",
                "group",
                "config-from",
                "allow-no-jobs",
            },
        ),
    ],
)
def test_the_help_of_a_command_lists_its_own_options(word: str, own: set[str], call: Call) -> None:
    told = call(word, "-h").stdout
    assert set(re.findall(r"--([\w-]+)", told.partition("Options:")[2])) >= own | {"config", "help"}
    assert set(re.findall(r"^ .*?--([\w-]+)", told.partition("Options:")[2], re.MULTILINE)) == own | {"config", "help"}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_log_file_is_reopened_on_hup(site: Site, redis_url: str, processes: str) -> None:
    site.configure(redis_url, processes=processes)
    assert site.run("start")[0] == 0, site.log()
    site.logfile.rename(site.directory / "log.1")
    os.kill(site.pid(), signal.SIGHUP)
    with own_app(redis_url) as app:
        told = 1 if processes == "1" else 3  # the parent and its children
        assert eventually(lambda: site.log().count("log file reopened") == told)
        app.enqueue("q", "note", ["this"])
        assert eventually(lambda: "printed this" in site.log())
        assert eventually(lambda: "class=note" in site.log())
    assert site.run("stop")[0] == 0
    assert "printed this" not in (site.directory / "log.1").read_text()


def test_in_the_foreground_the_log_file_and_the_pidfile_are_used_too(site: Site, redis_url: str) -> None:
    flags = ("--logfile", "log", "--pidfile", "pid", "--umask", "077")
    with Daemon(site.directory, redis_url, JOBS, *flags) as daemon:
        assert eventually(lambda: "; stop it with TERM" in site.log())
        assert site.pid() == daemon.process.pid
        assert site.logfile.stat().st_mode & 0o777 == 0o600
        site.logfile.unlink()
        daemon.signal(signal.SIGHUP)
        assert eventually(lambda: "log file reopened" in site.log())
        assert daemon.stop() == 0
    assert daemon.output == ""


@pytest.mark.parametrize("word", ["start", "run"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"user": "nobody-of-that-name"}, "user nobody-of-that-name: there is no such user on this machine"),
        ({"group": "nobody-of-that-name"}, "group nobody-of-that-name: there is no such group on this machine"),
        ({"pidfile": "/nowhere/pid"}, "pidfile /nowhere/pid: cannot be written: No such file or directory"),
        ({"logfile": "/nowhere/log"}, "logfile /nowhere/log: cannot be written: No such file or directory"),
        ({"directory": "/nowhere"}, "directory /nowhere: No such file or directory"),
        ({"umask": "9"}, "conf.ini: [pyworkers] umask must be an octal number such as 027, is '9'"),
        ({"redis": "nowhere"}, "conf.ini: [pyworkers] redis must be redis://host:port/db"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line_before_any_job_is_fetched(
    site: Site, redis: redis_py.Redis, redis_url: str, word: str, options: dict[str, str], told: str
) -> None:
    redis.lpush("queue:q", '{"class":"note","args":[1],"jid":"a","retry":true}')
    site.configure(redis_url, **options)
    code, said = site.run(word)
    assert (code, said.count("\n")) == (2, 0), said
    assert told in said
    assert redis.llen("queue:q") == 1
    assert not site.pidfile.exists()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_failure_in_the_users_code_is_printed_and_logged(site: Site, redis_url: str, processes: str) -> None:
    site.configure(redis_url, processes=processes)
    (site.directory / "jobs.py").write_text("raise RuntimeError('broken')\n")
    code, told = site.run("start")
    assert code == 2
    assert told.startswith("pyworkers: require: module 'jobs' cannot be imported: RuntimeError: broken")
    assert "RuntimeError" in site.log()
    assert not site.pidfile.exists()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_refusal_by_the_server_is_printed(site: Site, redis_url: str, processes: str) -> None:
    address = redis_url.replace("//", "//nobody:wrong@")
    site.configure(address, processes=processes)
    code, told = site.run("start")
    assert code == 1
    assert told.startswith("pyworkers: the server refused the login: ")


@pytest.mark.parametrize(
    ("word", "option", "told"),
    [
        ("start", "pidfile", "start needs a pidfile: set it in the configuration file or with --pidfile"),
        ("start", "logfile", "start needs a logfile: set it in the configuration file or with --logfile"),
        ("stop", "pidfile", "no pidfile: set `pidfile`"),
        ("status", "pidfile", "no pidfile: set `pidfile`"),
        ("status", "pidfile", "; `pyworkers processes` lists all that run, `pyworkers doctor` says what is wrong"),
        ("reload", "", "reload needs `processes` of 2 or more; for one process use: pyworkers restart"),
    ],
)
def test_an_option_that_a_command_needs_is_named(site: Site, redis_url: str, word: str, option: str, told: str) -> None:
    site.configure(redis_url, **({option: ""} if option else {}))
    code, said = site.run(word)
    assert code == 2
    assert told in said


def test_start_does_not_wait_for_ever_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = RedisServer()
    site = Site(tmp_path, server.url)
    try:
        server.kill()
        impatient = "import goworkers_py.cli as c, goworkers_py.system.daemon as d; d.START_S = 0.5; c.main()"
        done = subprocess.run(
            [sys.executable, "-c", impatient, "start", "-c", "conf.ini"],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 75, done.stderr
        assert eventually(site.pidfile.exists)
        assert "is not ready yet and keeps trying; log says why" in done.stderr
        server.start()
        assert eventually(lambda: "; stop it with TERM" in site.log())
        assert site.run("stop")[0] == 0
    finally:
        if pid := Pidfile(site.pidfile).holder():
            os.kill(pid, signal.SIGKILL)
        server.close()


# --- as whom


AS_NOBODY = """
import os
from goworkers_py.api.app import App
from goworkers_py.system.daemon import daemon_context
app = App()
app.configure(user="nobody", pidfile={pidfile!r})
with daemon_context(app.config):
    print(os.getuid(), os.getgid(), os.getgroups(), os.environ["USER"])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_it_works_as_the_user_that_is_named(tmp_path: Path) -> None:
    import pwd

    nobody = pwd.getpwnam("nobody")
    program = textwrap.dedent(AS_NOBODY.format(pidfile=str(tmp_path / "pid")))
    unmeasured = {name: value for name, value in environment().items() if not name.startswith("COVERAGE")}
    done = subprocess.run([sys.executable, "-c", program], env=unmeasured, capture_output=True, text=True)
    assert done.stderr == ""
    assert re.match(rf"{nobody.pw_uid} {nobody.pw_gid} \[{nobody.pw_gid}\] nobody", done.stdout)
    assert (tmp_path / "pid").read_text() == ""  # root's directory: only root could have removed it


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_new_code_is_tried_as_the_user_that_is_named() -> None:
    import pwd

    heard, say = os.pipe()
    app = App()
    app.configure(user="nobody")
    assert daemon_module.imports_cleanly(app.config, lambda: os.write(say, b"%d" % os.geteuid()))
    assert int(os.read(heard, 32)) == pwd.getpwnam("nobody").pw_uid
    os.close(heard)
    os.close(say)


@pytest.mark.skipif(os.getuid() == 0, reason="root can")
def test_only_root_can_change_to_another_user() -> None:
    app = App()
    app.configure(user="root")
    told = "only root can change to another user"
    with pytest.raises(ConfigError, match=told), daemon_module.daemon_context(app.config):
        pass


# --- the pidfile


def test_start_waits_for_a_process_that_locks_the_pidfile_to_look(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    looker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            import fcntl, time
            file = open({str(path)!r}, "w+")
            fcntl.flock(file, fcntl.LOCK_SH)
            print(flush=True)
            time.sleep(0.3)
        """)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert looker.stdout is not None
    with looker, looker.stdout:
        looker.stdout.readline()
        pidfile = Pidfile(path)
        pidfile.hold(within_s=20 * OTHERS_LOOK_S)  # a busy machine may keep the lock for longer than the looker sleeps
        assert path.read_text() == f"{os.getpid()}\n"
        pidfile.release()
        pidfile.release()
    assert not path.exists()


def test_a_holder_that_writes_its_number_just_now_runs(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("\n")
        file.flush()
        with pytest.raises(WorkersError, match="runs already"):
            Pidfile(path).hold(within_s=0.1)


def test_a_file_that_is_no_pidfile_is_no_process(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text("hello")
    assert Pidfile(path).holder() is None
    with pytest.raises(WorkersError, match="cannot be read"):
        Pidfile(tmp_path / "pid" / "deeper").holder()


@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link", "pipe", "text"])
def test_a_path_that_others_have_prepared_is_refused_and_what_is_there_stays(kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / "pid", tmp_path / "other"
    if kind != "link to nothing":
        other.write_text("7\n")
    if kind.startswith("link"):
        path.symlink_to(other)
    elif kind == "hard link":
        path.hardlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("precious\n")
    told = {"text": "something else than a number: delete it", "pipe": "no regular file", "hard link": "two names"}
    with pytest.raises(ConfigError, match=told.get(kind, "symbolic link, which is not followed: remove it")):
        Pidfile(path).hold()
    assert not other.exists() if kind == "link to nothing" else other.read_text() == "7\n"
    assert kind != "text" or path.read_text() == "precious\n"
    if kind.startswith("link"):
        with pytest.raises(WorkersError, match="symbolic link"):
            Pidfile(path).holder()
    else:
        assert Pidfile(path).holder() is None


def test_a_link_that_takes_the_place_of_the_pidfile_stays(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    pidfile = Pidfile(path)
    pidfile.hold()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    pidfile.release()
    assert path.is_symlink()


def test_a_job_that_reads_the_pidfile_does_not_end_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    pidfile = Pidfile(path)
    pidfile.hold()
    assert path.read_text() == f"{os.getpid()}\n"
    assert Pidfile(path).holder() == os.getpid()
    pidfile.release()


def test_a_fork_does_not_hold_the_lock(tmp_path: Path) -> None:
    pidfile = Pidfile(tmp_path / "pid")
    say, hear = os.pipe()[::-1]
    end_heard, end = os.pipe()

    def hold() -> None:
        pidfile.hold()
        grandchild = in_child(lambda: os.read(end_heard, 1))  # outlives who holds the file
        os.write(say, b"%d" % grandchild)

    assert ended_well(in_child(hold))
    assert os.read(hear, 32)
    assert (tmp_path / "pid").read_text(), "the daemon did not exit cleanly"
    assert eventually(lambda: pidfile.holder() is None)  # the grandchild may not have come to its first step
    os.write(end, b".")
    for file in (say, hear, end_heard, end):
        os.close(file)


def test_a_file_that_another_has_put_in_its_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    pidfile = Pidfile(path)
    pidfile.hold()
    path.unlink()
    path.write_text("7\n")
    pidfile.release()
    assert path.read_text() == "7\n"


def test_a_daemon_that_is_started_without_standard_error_leaves_its_pidfile_alone(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    """The pidfile gets the number of the missing one."""
    run = command("run", "--allow-no-jobs", "--redis", redis_url, "--pidfile", "pid")
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", *run]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL) as process:
        try:
            assert eventually(lambda: redis.scard("processes") == 1)
            assert (tmp_path / "pid").read_text() == f"{process.pid}\n"
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
