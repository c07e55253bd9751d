"""The command, as a process: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, job, queue
from calls import JOBS, Call, one_line
from daemon import Daemon, pyworkers
from servers import RedisServer
from waiting import eventually

import goworkers_py
from goworkers_py.admin.processes import Processes
from goworkers_py.cli.hide_password import parted

NOWHERE = "redis://127.0.0.1:1/0"


def last_line(text: str, starts: bool = True) -> str:
    """That of a daemon which has told what it is about to do, before it could not."""
    if starts:
        text = "\n".join(line for line in text.splitlines() if "INFO: running as root" not in line)
        told, warned, text = text.split("\n", 2)
        assert "INFO: jobs: none; Redis: redis://" in told
        assert "WARNING: no jobs are registered" in warned
    return one_line(text)


def test_run_loads_no_other_command(here: Path, redis_url: str) -> None:
    tell = """
        import sys
        print("loaded", *sorted(name for name in sys.modules if name.startswith("goworkers_py.cli.")), flush=True)
    """
    with Daemon(here, redis_url, tell) as daemon:
        loaded = {name.removeprefix("goworkers_py.cli.") for name in daemon.says("loaded ").split()[1:]}
        assert loaded == {"base", "hide_password", "pyworkers", "run"}


# --- errors that the user can mend: one line on stderr, and the exit code


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--colour"], "'--colour'; see 'pyworkers --help'"),
        (["work"], "'work'; see 'pyworkers --help'"),
        (["run", "--colour"], "'--colour'; see 'pyworkers run --help'"),
        (["run", "extra"], "Got unexpected extra argument (extra); see 'pyworkers run --help'"),
        (["run", "-c", "gone.ini"], "gone.ini: cannot be read: No such file or directory"),
        (["run", "-c", "."], ".: cannot be read: Is a directory"),
        (["run", "-t", "soon"], "--timeout must be a number of seconds, is 'soon'"),
        (["run", "--timeout", "-1"], "--timeout must be at least 0, is -1"),
        (
            ["run", "--redis", "localhost"],
            "--redis must be redis://host:port/db, rediss://..., unix:///path, sentinel:/",
        ),
        (["run", "--log-format", "jason"], "--log-format must be one of plain, json; did you mean 'json'?"),
        (["run", "-q", "mail=many"], "--queue mail=many must be a whole number, is 'many'"),
        (["run", "-r", "gone.module"], "require: there is no module 'gone.module' in "),
        (["enqueue"], "Missing argument 'CLASS'; see 'pyworkers enqueue --help'"),
        (["enqueue", "J", "[1"], "the arguments must be a JSON array, such as '[1, \"a\"]': Expecting ',' delimiter"),
        (["enqueue", "J", '{"a":1}'], "the arguments must be a JSON array, this is '{\"a\":1}'"),
        (["enqueue", "J", "[NaN]"], "args[0] is nan, which JSON cannot say"),
        (["enqueue", "J", "-q", ""], "--queue is empty"),
        (["enqueue", "J", "--in", "1", "--at", "2"], "--in and --at exclude each other"),
        (["enqueue", "J", "--in", "soon"], "Invalid value for '--in': 'soon' is not a valid float"),
        (["enqueue", "J", "--retry", "some"], "--retry must be a count, true or false, is 'some'"),
        (["config", "chek"], "; see 'pyworkers config --help'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments: list[str], line: str, call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in one_line(done.stderr)


def test_the_real_command_says_and_does_the_same(here: Path) -> None:
    done = pyworkers("run", "--colour", cwd=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'--colour'; see '" in one_line(done.stderr)
    done = pyworkers("run", "--require", "gone", cwd=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr) == f"require: there is no module 'gone' in {here} or on sys.path"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[pyworker]\n", "conf.ini: [pyworker] is not a section; did you mean 'pyworkers'?"),
        ("[pyworkers]\ntimeot = 3\n", "conf.ini: [pyworkers] timeot is not an option; did you mean 'timeout'?"),
        ("[pyworkers]\ntimeout = x\n", "conf.ini: [pyworkers] timeout must be a number of seconds, is 'x'"),
        ("[queue:q]\nconcurency = 3\n", "[queue:q] concurency is not an option; did you mean 'concurrency'?"),
        ("[queue:q]\nconcurrency = 0\n", "conf.ini: [queue:q] concurrency must be at least 1, is 0"),
        ("[queue:q]\nhandler = jobs:gone\n", "[queue:q] handler: module 'jobs' has no 'gone'"),
        ("[queue:q]\nhandler = jobs\n", "[queue:q] handler: 'jobs' must be module:name"),
        (
            "[middleware]\nappend = jobs:quick\n",
            "[middleware] append: 'jobs:quick' has no method call(queue, message, ",
        ),
        ("nonsense\n", "conf.ini: File contains no section headers."),
        (b"\xff", "conf.ini: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_exit_code_2(
    text: str | bytes, line: str, here: Path, call: Call
) -> None:
    (here / "conf.ini").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = call("config", "check", "-c", "conf.ini")
    assert (done.returncode, done.stdout) == (2, "")
    assert line in one_line(done.stderr)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "PYWORKERS_TIMEOOT",
            "3",
            "environment: PYWORKERS_TIMEOOT is not an option; did you mean 'PYWORKERS_TIMEOUT'?",
        ),
        ("PYWORKERS_TIMEOUT", "x", "environment: PYWORKERS_TIMEOUT must be a number of seconds, is 'x'"),
        ("PYWORKERS_CONFIG", "gone.ini", "gone.ini: cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_environment_is_one_line_and_exit_code_2(name: str, value: str, line: str, call: Call) -> None:
    done = call("config", "check", **{name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert line in one_line(done.stderr)


@pytest.mark.parametrize("arguments", [["enqueue", "J"], ["stats"]])
def test_a_command_without_a_server_is_told_to_try_later(arguments: list[str]) -> None:
    done = pyworkers(*arguments, "--redis", NOWHERE)
    assert (done.returncode, done.stdout) == (75, "")
    assert "no server: Error 111 connecting to 127.0.0.1:1. Connection refused." in one_line(done.stderr)


@pytest.mark.parametrize(
    ("command", "password"), [(["run", "-q", "q"], ":wrong@"), (["run", "-q", "q"], ""), (["enqueue", "J"], ":wrong@")]
)
def test_a_server_that_refuses_the_login_is_not_asked_again(
    command: list[str], password: str, own_redis: RedisServer
) -> None:
    own_redis.client().config_set("requirepass", "right")
    done = pyworkers(*command, PYWORKERS_REDIS=own_redis.url.replace("//", f"//{password}"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the server refused the login: " in last_line(done.stderr, starts=command[0] == "run")
    assert "wrong" not in done.stderr.replace("wrong number", "")


@pytest.mark.parametrize("command", [["run", "-q", "q"], ["stats"], ["doctor"], ["enqueue", "J"]])
def test_a_database_that_the_server_does_not_have_is_a_mistake_of_the_configuration(
    command: list[str], own_redis: RedisServer
) -> None:
    done = pyworkers(*command, "--redis", f"{own_redis.url}99")
    assert (done.returncode, done.stdout) == (2, "")
    told = last_line(done.stderr, starts=command[0] == "run")
    assert told.startswith("the server has no database of the number at the end of the address in `redis`: ")


def test_a_password_on_the_command_line_is_warned_of() -> None:
    done = pyworkers("stats", "--redis", NOWHERE.replace("//", "//:secret@"))
    first, _ = done.stderr.splitlines()
    assert first.startswith("pyworkers: everybody on this machine could read the password in --redis until now")
    assert "secret" not in done.stderr


def test_of_a_password_on_the_command_line_is_warned_once(redis_url: str, here: Path) -> None:
    address = redis_url.replace("//", "//nobody:secret@")
    with Daemon(here, address, JOBS, "--processes", "2") as daemon:
        assert daemon.wait() == 1
    assert daemon.output.count("everybody on this machine could read the password") == 1


@pytest.fixture
def guarded(own_redis: RedisServer) -> RedisServer:
    """A server that asks for the password `s%cret@/x`."""
    own_redis.client().config_set("requirepass", "s%cret@/x")
    return own_redis


def cmdlines(*pids: int) -> list[str]:
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="without /proc nobody sees what ps would show")
@pytest.mark.parametrize("flag", ["--redis", "--redis="])
def test_no_command_line_shows_a_password_once_a_daemon_works(flag: str, guarded: RedisServer, here: Path) -> None:
    address = guarded.url.replace("//", "//:s%25cret%40%2Fx@")
    words = [flag + address] if flag.endswith("=") else [flag, address]
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\npidfile = pid\nlogfile = log\nprocesses = 2\n")
    started = pyworkers("start", "-c", "conf.ini", "-q", "q", *words, cwd=here)
    try:
        assert started.returncode == 0, started.stderr
        assert eventually(lambda: (here / "log").read_text().count(" works; stop it with TERM") == 2)
        pid = int((here / "pid").read_text())
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
        lines = cmdlines(pid, *map(int, children.stdout.split()))
        assert len(lines) == 3
        assert all("cret" not in line and "-q q" in line for line in lines), lines
    finally:
        stopped = pyworkers("stop", "-c", "conf.ini", cwd=here)
    assert stopped.returncode == 0, stopped.stderr
    assert "cret" not in (here / "log").read_text()


def test_a_program_may_say_by_itself_what_the_command_line_would(guarded: RedisServer) -> None:
    words = ["pyworkers", "stats", "--redis", guarded.url.replace("//", "//:s%25cret%40%2Fx@")]
    program = f"import sys; sys.argv = {words!r}; from goworkers_py.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_password_is_read_from_a_file(guarded: RedisServer, here: Path) -> None:
    (here / "password").write_text("s%cret@/x\n")
    done = pyworkers("stats", "--redis", guarded.url, PYWORKERS_REDIS_PASSWORD_FILE="password", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("content", "address", "told"),
    [
        (None, "redis://h", "redis_password_file password: cannot be read: No such file or directory"),
        (b"", "redis://h", "redis_password_file password: is empty"),
        (b"\xff", "redis://h", "redis_password_file password: is no text in UTF-8"),
        (b"x", "redis://:y@h", "redis_password_file: the address in redis has a password already"),
        (b"x", "redis://h?password=y", "redis_password_file: the address in redis has a password already"),
        (b"x", "embedded", "redis_password_file: the address in redis needs no password"),
    ],
)
def test_a_password_file_that_does_not_fit_is_told(
    content: bytes | None, address: str, told: str, here: Path, call: Call
) -> None:
    if content is not None:
        (here / "password").write_bytes(content)
    done = call("stats", PYWORKERS_REDIS=address, PYWORKERS_REDIS_PASSWORD_FILE="password")
    assert (done.returncode, one_line(done.stderr)) == (2, told)


@pytest.mark.parametrize(
    ("arguments", "addresses", "others"),
    [
        ("run -q q", [], "run -q q"),
        ("run --redis a -q q", ["a"], "run -q q"),
        ("--redis=a run --redis b", ["a", "b"], "run"),
        ("run --redis", [], "run"),
        ("enqueue J -- --redis a", [], "enqueue J -- --redis a"),
    ],
)
def test_the_address_is_found_among_the_words(arguments: str, addresses: list[str], others: str) -> None:
    assert parted(arguments.split()) == (addresses, others.split())


def test_a_process_name_that_is_in_use_is_refused(here: Path, redis_url: str) -> None:
    with Daemon(here, redis_url, JOBS, "--process", "one") as daemon:
        daemon.ready()
        done = pyworkers("run", "--redis", redis_url, "--process", "one", "-q", "q")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the process name 'one' is in use by " in last_line(done.stderr)
        assert daemon.stop() == 0


def test_a_module_with_a_fault_of_its_own_shows_its_traceback(here: Path) -> None:
    (here / "faulty.py").write_text("1 / 0\n")
    done = pyworkers("run", "--redis", NOWHERE, "-r", "faulty", cwd=here)
    assert done.returncode == 2
    said, *lines = done.stderr.splitlines()
    assert said == "pyworkers: require: module 'faulty' cannot be imported: ZeroDivisionError: division by zero"
    assert lines[0].endswith('faulty.py", line 1, in <module>'), "from the user's own code on"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("jobs.py", "; type its name as a module: jobs"),
        ("./jobs.py", "require: './jobs.py' is a path; type its name as a module: jobs"),
        ("myapp/jobs.py", "require: 'myapp/jobs.py' is a path; type its name as a module: myapp.jobs"),
        ("HERE/myapp/jobs.py", "is a path; type its name as a module: myapp.jobs"),
        ("myapp/", "require: 'myapp/' is a path; type its name as a module: myapp"),
        ("../x.py", "require: '../x.py' is a path; type its name as a module: x, in the directory PARENT"),
        ("my-jobs.py", "; Python cannot import by that name: rename it to my_jobs.py and type my_jobs"),
        ("./my-jobs.py", "; Python cannot import by that name: rename it to my_jobs.py and type my_jobs"),
        ("./a-b/2.py", "; Python cannot import by that name: rename it to a_b/_2.py and type a_b._2"),
    ],
)
def test_a_file_that_is_given_for_a_module_is_told_what_to_type(typed: str, told: str, here: Path, call: Call) -> None:
    done = call("config", "check", "--require", typed.replace("HERE", str(here)))
    assert done.returncode == 2
    assert one_line(done.stderr).endswith(told.replace("PARENT", str(here.parent)))


def test_every_r_counts(here: Path, call: Call) -> None:
    for name in ("one", "two", "three"):
        (here / f"{name}.py").write_text(JOBS.replace("\n    ", "\n").replace("Quick", name.title()))
    done = call("config", "check", "-r", "one", "-r", "two,three", "--require", "jobs")
    assert done.stdout.splitlines()[1] == "jobs: One, Quick, Three, Two"
    assert "may be repeated" in re.search(r"-r, --require(.+\n)+?  -", call("run", "-h").stdout)[0].replace("\n", " ")
    assert call("config", "check", PYWORKERS_REQUIRE="one two").stdout.splitlines()[1] == "jobs: One, Quick, Three, Two"


def test_threads_that_are_given_as_to_sidekiq_are_refused() -> None:
    done = pyworkers("config", "check", "-q", "mail,5")
    assert done.returncode == 2
    assert one_line(done.stderr) == "--queue 'mail,5': threads are given as mail=5"


# --- run


def test_run_keeps_trying_without_a_server_and_works_when_it_comes(here: Path, own_redis: RedisServer) -> None:
    own_redis.kill()
    with Daemon(here, own_redis.url, JOBS) as daemon:
        daemon.says("ERROR: Redis cannot serve: ")
        time.sleep(1)
        assert daemon.process.poll() is None
        assert daemon.output.count("cannot serve") == 1
        own_redis.start()
        daemon.ready()
        client = own_redis.client()
        client.lpush("queue:q", job("Quick"))
        assert eventually(lambda: client.get("stat:processed") == b"1")
        assert daemon.stop() == 0
    assert daemon.output.count("cannot serve") == daemon.output.count("serves again") == 1


def test_run_goes_through_an_outage_with_two_lines(here: Path, own_redis: RedisServer) -> None:
    with Daemon(here, own_redis.url, JOBS, "-q", "a", "-q", "q", "--poll-interval", "0.2") as daemon:
        daemon.ready()
        own_redis.kill()
        daemon.says("cannot serve")
        time.sleep(1)
        own_redis.start()
        client = own_redis.client()
        client.lpush("queue:q", job("Quick"))
        assert eventually(lambda: client.get("stat:processed") == b"1")
        daemon.says("serves again")
        assert daemon.stop() == 0
    assert daemon.output.count("cannot serve") == daemon.output.count("serves again") == 1
    assert "Traceback" not in daemon.output


def test_run_logs_json_where_told_to(here: Path, redis_url: str, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", job("Quick", jid="abc"), job("Nobody", jid="def"))
    with Daemon(here, redis_url, JOBS, "--log-format", "json", "-q", "q=1") as daemon:
        assert eventually(lambda: redis.get("stat:processed") == b"2")
        assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.output.splitlines()]
    assert [line["msg"] for line in lines if line.get("jid") == "abc"] == ["start", "done"]
    assert [line["lvl"] for line in lines if line.get("class") == "Nobody"] == ["INFO", "WARNING", "INFO", "INFO"]


def test_run_at_level_warning_says_nothing_of_what_goes_well(here: Path, redis_url: str, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", job("Quick"))
    with Daemon(here, redis_url, JOBS, "--log-level", "warning") as daemon:
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        assert daemon.stop() == 0
    assert daemon.output == ""


def test_run_works_the_queues_of_its_flags_instead_of_the_files(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    (here / "conf.ini").write_text("[queue:q]\nconcurrency = 1\n[queue:other]\n")
    redis.lpush("queue:other", job("Quick"))
    with Daemon(here, redis_url, JOBS, "-c", "conf.ini", "-q", "q", "-q", "more=2") as daemon:
        daemon.ready()
        daemon.signal(signal.SIGTTIN)
        daemon.says("thread worker:more:2")
        assert daemon.stop() == 0
    assert sorted(set(re.findall(r"thread (worker:\S+)", daemon.output))) == [
        "worker:more:1", "worker:more:2", "worker:q:1",
    ]  # fmt: skip
    assert redis.llen("queue:other") == 1


def test_stats_name_a_counter_that_is_no_number(redis_url: str, redis: redis_py.Redis) -> None:
    redis.set("stat:processed", "abc")
    done = pyworkers("stats", "--redis", redis_url)
    assert done.returncode == 1
    assert done.stderr == "key stat:processed holds no number, and is shown as 0: delete it, or set it to a number\n"
    assert done.stdout.startswith("processed               0\n")


@pytest.mark.parametrize("key", ["stat:failed", "retry", "queues", "pyworkers:owners"])
def test_stats_name_a_key_of_another_type_and_tell_the_rest(
    key: str, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    redis.rpush(key, "strange")
    redis.set("stat:processed", 7)
    done = call("stats", "--redis", redis_url)
    told = one_line(done.stderr)
    assert (done.returncode, done.stdout.splitlines()[0].split()) == (1, ["processed", "7"])
    assert told.startswith(f"key {key} is a list, where a ")
    assert told.endswith(" belongs; it counts as 0 here")


# --- enqueue


def test_enqueue_prints_the_jid_of_what_it_pushes(redis_url: str, redis: redis_py.Redis) -> None:
    done = pyworkers("enqueue", "--redis", redis_url, "-q", "q", "Billing::InvoiceJob", '[42, {"pdf": true}, "ü"]')
    assert done.returncode == 0
    (pushed,) = map(json.loads, queue(redis))
    assert done.stdout == f"{pushed['jid']}\n"
    assert pushed["class"] == "Billing::InvoiceJob"
    assert pushed["args"] == [42, {"pdf": True}, "ü"]
    assert pushed["retry"] is True


def test_enqueue_without_a_queue_or_arguments_takes_the_default_and_none(
    call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    assert call("enqueue", "--redis", redis_url, "J").returncode == 0
    (pushed,) = map(json.loads, queue(redis, "default"))
    assert (pushed["args"], pushed["queue"]) == ([], "default")


def test_enqueue_says_how_often_to_retry(call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    for flag in ("3", "0", "false", "True"):
        assert call("enqueue", "--redis", redis_url, "-q", "q", "--retry", flag, "J").returncode == 0
    assert [json.dumps(retry) for retry in fields(queue(redis), "retry")] == ["3", "0", "false", "true"]


def test_enqueue_takes_what_is_not_said_from_the_code_of_the_job(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    first = ["enqueue", "--redis", redis_url, "-r", "jobs"]
    for arguments in (["Quick"], ["-q", "other", "--retry", "false", "Quick"]):
        assert pyworkers(*first, *arguments, cwd=here).returncode == 0
    retries = {name: fields(queue(redis, name), "retry") for name in ("q", "other")}
    assert retries == {"q": [3], "other": [False]}


def test_enqueue_refuses_arguments_that_the_code_of_the_job_does_not_take(
    here: Path, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    with (here / "jobs.py").open("a") as jobs:
        jobs.write('@workers.job("Two")\ndef two(one, other): ...\n')
    first = ["enqueue", "--redis", redis_url, "-r", "jobs", "-q", "q", "--in", "90"]
    done = call(*first, "Two", "[1]")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr) == "Two cannot be called with these arguments: missing a required argument: 'other'"
    assert call(*first, "Two", "[1, 2]").returncode == 0
    assert redis.zcard("schedule") == 1


def test_enqueue_goes_through_the_client_links_of_the_configuration(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    (here / "links.py").write_text("def stamp(job):\n    return None if job['args'] == [0] else job | {'stamp': 'x'}\n")
    (here / "conf.ini").write_text("[middleware]\nclient = links:stamp\n")
    first = ["enqueue", "--redis", redis_url, "-c", "conf.ini", "-q", "q", "J"]
    assert pyworkers(*first, "[1]", cwd=here).returncode == 0
    done = pyworkers(*first, "[0]", cwd=here)
    assert (done.returncode, one_line(done.stderr)) == (1, "a client link stopped the push")
    assert fields(queue(redis), "stamp") == ["x"]


def test_a_module_cannot_change_what_the_command_line_said(here: Path, redis_url: str, redis: redis_py.Redis) -> None:
    (here / "jobs.py").write_text(
        f"import goworkers_py as workers\nworkers.configure(redis={NOWHERE!r})\n"
        "@workers.job('J', queue='q')\ndef run(): ...\n"
    )
    assert pyworkers("enqueue", "--redis", redis_url, "-r", "jobs", "J", cwd=here).returncode == 0
    assert fields(queue(redis), "class") == ["J"]


NOBODY = (
    "no live process works queue q: the job waits there (processes of go-workers do not tell); "
    "to work it: pyworkers run -q q -r MODULE"
)


def test_enqueue_says_when_nobody_works_the_queue(
    here: Path, redis_url: str, redis: redis_py.Redis, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is pushed all the same."""

    def told(*flags: str) -> str:
        done = call("enqueue", "--redis", redis_url, "-r", "jobs", *flags, "Quick")
        assert (done.returncode, len(done.stdout)) == (0, 25)
        return done.stderr

    assert one_line(told()) == NOBODY
    assert redis.llen("queue:q") == 1
    with Daemon(here, redis_url, JOBS, "-q", "q") as daemon:
        daemon.ready()
        with monkeypatch.context() as patch:
            patch.setattr(Processes, "all", lambda _: pytest.fail("a whole fleet may be large"))
            assert told("--retry", "true") == ""  # a number might mean nothing to a process of go-workers2
        assert told() == ""
        daemon.kill()
    assert one_line(told()) == NOBODY, "it is known that it died: it was on this machine"
    redis.sadd("processes", "rails:1:abc")
    redis.hset("rails:1:abc", mapping={"info": json.dumps({"queues": ["q"], "concurrency": 5}), "beat": time.time()})
    assert told() == "", "Sidekiq works it"


def test_enqueue_refuses_a_class_that_the_named_modules_do_not_know(
    here: Path, redis_url: str, redis: redis_py.Redis, call: Call
) -> None:
    done = call("enqueue", "--redis", redis_url, "-r", "jobs", "Quik")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr).startswith(
        "no job is registered as 'Quik' by the modules that -r names; did you mean 'Quick'?"
    )
    assert not redis.exists("queue:default")
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\n[queue:any]\nhandler = jobs:quick\n")
    for arguments in (["-c", "conf.ini"], ["-c", "conf.ini", "-r", "jobs", "-q", "any"]):
        assert call("enqueue", "--redis", redis_url, *arguments, "OfRuby").returncode == 0


def test_enqueue_without_a_server_says_which_one_and_what_to_do(call: Call) -> None:
    done = call("enqueue", "J", "--redis", NOWHERE)
    assert done.returncode == 75
    told = one_line(done.stderr)
    assert f"; start the server of {NOWHERE}, or name another one with PYWORKERS_REDIS, --redis or configure" in told


def test_enqueue_for_later_goes_to_the_schedule(call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    began = time.time()
    assert call("enqueue", "--redis", redis_url, "--in", "90.5", "J").returncode == 0
    assert call("enqueue", "--redis", redis_url, "--at", "4102444800", "J").returncode == 0
    first, second = (score for _, score in redis.zrange("schedule", 0, -1, withscores=True))
    assert began + 90.5 <= first <= time.time() + 90.5
    assert second == 4102444800


# --- stats, version, config check, help


@pytest.fixture
def some_jobs(redis: redis_py.Redis) -> None:
    redis.sadd("queues", "q", "empty")
    redis.lpush("queue:q", job("J", enqueued_at=time.time() - 100), job("J"))
    redis.zadd("schedule", {"a": 1})
    redis.zadd("dead", {"a": 1, "b": 2})
    redis.set("stat:processed", 12345)


@pytest.mark.usefixtures("some_jobs")
def test_stats_are_a_table_for_people(redis_url: str) -> None:
    done = pyworkers("stats", "--redis", redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[:7] == [
        ["processed", "12345"], ["failed", "0"], ["scheduled", "1"], ["retries", "0"], ["dead", "2"],
        ["in", "progress", "0"], ["processes", "0"],
    ]  # fmt: skip
    assert table[8:10] == [["queue", "size", "latency"], ["empty", "0", "0.0", "s"]]
    assert table[10][:2] == ["q", "2"]
    assert table[10][3] == "min"
    assert max(map(len, done.stdout.splitlines())) < 80


@pytest.mark.usefixtures("some_jobs")
def test_stats_are_json_for_programs(call: Call, redis_url: str) -> None:
    figures = json.loads(call("stats", "--json", "--redis", redis_url).stdout)
    assert (figures["processed"], figures["dead"]) == (12345, 2)
    assert [(queue["name"], queue["size"]) for queue in figures["queues"]] == [("empty", 0), ("q", 2)]


def test_stats_of_nothing_are_a_table_too(call: Call, redis_url: str) -> None:
    lines = call("stats", "--redis", redis_url).stdout.splitlines()
    assert len(lines) == 7


def test_stats_see_a_process_and_what_it_runs(here: Path, call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    sleepy = "import time\nimport goworkers_py as w\n@w.job('Sleep', queue='q')\ndef run(): time.sleep(60)\n"
    redis.lpush("queue:q", job("Sleep"))
    with Daemon(here, redis_url, sleepy, "-t", "0.1") as daemon:
        daemon.says("class=Sleep queue=q INFO: start")
        figures = json.loads(call("stats", "--json", "--redis", redis_url).stdout)
        assert (figures["in_progress"], figures["processes"]) == (1, 1)
        assert daemon.stop() == 0


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_told(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert goworkers_py.__version__ in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["config", "check", "--help"]])
def test_help_is_on_stdout(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_a_group_without_a_command_shows_its_help(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert "Commands:" in done.stdout + done.stderr  # where, and with which exit code, click has changed its mind on


def test_config_check_imports_what_it_names_and_needs_no_server(here: Path, call: Call) -> None:
    (here / "conf.ini").write_text(
        f"[pyworkers]\nredis = {NOWHERE}\nrequire = jobs\n[queue:q]\nconcurrency = 1\n[queue:mail]\n"
        "[middleware]\nappend = jobs:Link\n"
    )
    done = call("config", "check", "-c", "conf.ini")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "queue q: 1 threads", "queue mail: 10 threads", "jobs: Quick", "the configuration is fine",
    ]  # fmt: skip


@pytest.mark.parametrize("option", ["queue", "retry_queue"])
def test_config_check_fails_where_jobs_have_a_queue_that_is_not_worked(option: str, here: Path, call: Call) -> None:
    with (here / "jobs.py").open("a") as jobs:
        jobs.write(f'@workers.job("Lost", {option}="lost")\ndef lost(): ...\n')
    done = call("config", "check", "-r", "jobs", "-q", "q", "-q", "default")
    assert done.returncode == 1
    assert one_line(done.stderr) == (
        "jobs have a queue that this configuration does not work: lost (Lost); add [queue:NAME] or -q"
    )
    assert "is fine" not in done.stdout
    done = call("config", "check", "-r", "jobs", "-q", "q", "-q", "lost", "-q", "default")
    assert (done.returncode, done.stderr) == (0, "")


def test_config_check_of_nothing_is_fine_too(call: Call) -> None:
    assert call("config", "check").stdout.splitlines() == [
        "queue default: 10 threads", "jobs: none registered", "the configuration is fine",
    ]  # fmt: skip


def test_flags_go_before_the_environment_and_that_before_the_file(here: Path, call: Call) -> None:
    """A wrong value shows which one was read."""
    (here / "conf.ini").write_text("[pyworkers]\nrequire = of_file\n")

    def read(*flags: str, **changes: str) -> str:
        done = call("config", "check", *flags, **changes)
        found = re.search(r"no module '(\w+)'", done.stderr)
        return found[1] if found else done.stderr

    everything = {"PYWORKERS_CONFIG": "conf.ini", "PYWORKERS_REQUIRE": "of_environment"}
    assert read("--require", "of_flag", **everything) == "of_flag"
    assert read(**everything) == "of_environment"
    assert read(PYWORKERS_CONFIG="conf.ini") == "of_file"
    assert read("-c", "conf.ini", PYWORKERS_CONFIG="gone.ini") == "of_file"
