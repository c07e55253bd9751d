"""The command `pyworkers`: what it prints on stdout and stderr, and its exit codes."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import redis as redis_py
from apps import job
from calls import JOBS, Call, one_line
from daemon import Daemon, pyworkers
from servers import RedisServer
from waiting import eventually

import goworkers_py
from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.cli.pyworkers import main

NOWHERE = "redis://127.0.0.1:1/0"


def last_line(text: str, starts: bool = True) -> str:
    """The one line of stderr; with `starts`, the one after the line that a daemon logs at its start."""
    if starts:
        text = "\n".join(line for line in text.splitlines() if "INFO: running as root" not in line)
        information, text = text.split("\n", 1)
        assert "INFO: jobs: none; broker: redis://" in information
    return one_line(text)


def test_run_imports_no_other_command(here: Path, redis_url: str) -> None:
    tell = """
        import sys
        print("loaded", *sorted(name for name in sys.modules if name.startswith("goworkers_py.cli.")), flush=True)
    """
    with Daemon(here, redis_url, tell) as daemon:
        loaded = {name.removeprefix("goworkers_py.cli.") for name in daemon.says("loaded ").split()[1:]}
        assert loaded == {"base", "hide_password", "pyworkers", "run"}


# --- errors that the user can fix: one line on stderr, and the exit code


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--wallpaper"], "'--wallpaper'; see 'pyworkers --help'"),
        (["work"], "'work'; see 'pyworkers --help'"),
        (["run", "--wallpaper"], "'--wallpaper'; see 'pyworkers run --help'"),
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
        (["enqueue", "J", '{"a":1}'], "the arguments must be a JSON array, such as '[1, \"a\"]', is '{\"a\":1}'"),
        (["enqueue", "J", "[NaN]"], "args[0] is nan, which JSON cannot represent"),
        (["enqueue", "J", "-q", ""], "--queue is empty"),
        (["enqueue", "J", "--in", "1", "--at", "2"], "use either --in or --at, not both"),
        (["enqueue", "J", "--in", "soon"], "Invalid value for '--in': 'soon' is not a valid float"),
        (["enqueue", "J", "--retry", "some"], "--retry must be a number, true or false, is 'some'"),
        (["config", "chek"], "; see 'pyworkers config --help'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_line_and_exit_code_2(arguments: list[str], line: str, call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in one_line(done.stderr)


@pytest.mark.server
def test_a_usage_error_is_the_same_in_a_real_process(here: Path) -> None:
    done = pyworkers("run", "--wallpaper", cwd=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'--wallpaper'; see '" in one_line(done.stderr)
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
        ("nonsense\n", "conf.ini: line 1 is in no section; begin with [pyworkers]"),
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


@pytest.mark.server
@pytest.mark.parametrize("arguments", [["enqueue", "J"], ["stats"]])
def test_a_command_without_a_server_ends_with_exit_code_75(arguments: list[str]) -> None:
    done = pyworkers(*arguments, "--redis", NOWHERE)
    assert (done.returncode, done.stdout) == (75, "")
    told = one_line(done.stderr)
    assert "no server: Error 111 connecting to 127.0.0.1:1. Connection refused; start the server of " in told


def test_a_push_to_a_full_broker_says_so_and_ends_with_exit_code_75(own_redis: RedisServer, call: Call) -> None:
    own_redis.client().config_set("maxmemory", 1)
    done = call("enqueue", "J", PYWORKERS_BROKER=own_redis.url)
    assert (done.returncode, done.stdout) == (75, "")
    assert one_line(done.stderr).startswith("the broker is full: ")


@pytest.mark.parametrize(
    ("command", "password"),
    [(["run", "--allow-no-jobs"], ":wrong@"), (["run", "--allow-no-jobs"], ""), (["enqueue", "J"], ":wrong@")],
)
def test_a_refused_login_ends_the_command_without_another_try(
    command: list[str], password: str, own_redis: RedisServer
) -> None:
    own_redis.client().config_set("requirepass", "right")
    done = pyworkers(*command, PYWORKERS_REDIS=own_redis.url.replace("//", f"//{password}"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the server refused the login: " in last_line(done.stderr, starts=command[0] == "run")
    assert "wrong" not in done.stderr.replace("wrong number", "")


@pytest.mark.parametrize("command", [["run", "--allow-no-jobs"], ["stats"], ["doctor"], ["enqueue", "J"]])
def test_a_database_that_the_server_does_not_have_is_a_configuration_error(
    command: list[str], own_redis: RedisServer
) -> None:
    done = pyworkers(*command, "--redis", f"{own_redis.url}99")
    assert (done.returncode, done.stdout) == (2, "")
    told = last_line(done.stderr, starts=command[0] == "run")
    assert told.startswith("the server has no database with the number at the end of the address: ")


@pytest.mark.parametrize("flag", ["--broker", "--redis"])
def test_the_server_is_named_by_either_flag(flag: str, redis_url: str, call: Call) -> None:
    """The environment names another server under the other name."""
    other = {"--broker": "PYWORKERS_REDIS", "--redis": "PYWORKERS_BROKER"}[flag]
    done = call("stats", flag, redis_url, **{other: NOWHERE})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["run"], ["stats"], ["enqueue"]])
def test_help_shows_an_alias_only_in_the_text_of_the_main_flag(arguments: list[str], call: Call) -> None:
    told = call(*arguments, "--help").stdout
    options = [line.split()[0] for line in told.splitlines() if line.startswith("  -")]
    assert {"--broker", "--broker-password-file"} <= set(options)
    assert not {"--redis", "--redis-password-file"} & set(options)
    for about in (
        "memory of this process; other name of this option: --redis",
        "none; other name of this option: --redis-password-file",
    ):
        assert "".join(about.split()) in "".join(told.split()), "lines are broken at hyphens too"


def test_a_process_name_that_is_in_use_is_refused(here: Path, redis_url: str) -> None:
    with Daemon(here, redis_url, JOBS, "--process", "one") as daemon:
        daemon.ready()
        done = pyworkers("run", "--allow-no-jobs", "--redis", redis_url, "--process", "one")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the process name 'one' is in use by " in last_line(done.stderr)
        assert daemon.stop() == 0


@pytest.mark.server
def test_a_module_that_raises_when_it_is_imported_shows_its_traceback(here: Path) -> None:
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
def test_a_path_instead_of_a_module_is_an_error_that_says_what_to_type(
    typed: str, told: str, here: Path, call: Call
) -> None:
    done = call("config", "check", "--require", typed.replace("HERE", str(here)))
    assert done.returncode == 2
    assert one_line(done.stderr).endswith(told.replace("PARENT", str(here.parent)))


def test_a_push_while_a_module_is_imported_is_told_with_its_line(
    here: Path, call: Call, called_app: App, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "jobs.py").write_text(JOBS.replace("\n    ", "\n") + "\n\nfor n in range(2):\n    quick.enqueue(n)\n")
    assert call("config", "check", "-r", "jobs", PYWORKERS_BROKER="memory://eager").returncode == 0
    [line] = caplog.messages
    assert line.startswith(f"{here / 'jobs.py'}:13: a job Quick is pushed while its module is imported")
    assert [queue.size for queue in called_app.inspector.queues()] == [2]
    called_app.job("Later", queue="q")(print).enqueue()
    assert len(caplog.messages) == 1
    forget("memory://eager")


def test_every_module_of_a_repeated_r_is_imported(here: Path, call: Call) -> None:
    for name in ("one", "two", "three"):
        (here / f"{name}.py").write_text(JOBS.replace("\n    ", "\n").replace("Quick", name.title()))
    done = call("config", "check", "-r", "one", "-r", "two,three", "--require", "jobs")
    assert "jobs: One, Quick, Three, Two" in done.stdout.splitlines()
    assert "may be repeated" in re.search(r"-r, --require(.+\n)+?  -", call("run", "-h").stdout)[0].replace("\n", " ")
    by_environment = call("config", "check", PYWORKERS_REQUIRE="one two")
    assert "jobs: One, Quick, Three, Two" in by_environment.stdout.splitlines()


@pytest.mark.server
def test_config_check_shows_the_pools(here: Path, call: Call) -> None:
    (here / "conf.ini").write_text(
        "[pool:web]\nqueues = critical, q\nweights = 3, 1\nconcurrency = 7\n[pool:two]\nqueues = a, b\n[queue:own]\n"
    )
    done = call("config", "check", "-c", "conf.ini", "--allow-no-jobs")
    assert done.stdout.splitlines()[1:4] == [
        "queue own: 10 threads",
        "pool web: critical 3, q 1 by weight: 7 threads",
        "pool two: a, b in strict order: 10 threads",
    ]


@pytest.mark.server
def test_a_queue_flag_in_sidekiqs_form_is_refused() -> None:
    done = pyworkers("config", "check", "-q", "mail,5")
    assert done.returncode == 2
    assert one_line(done.stderr) == (
        "--queue 'mail,5': write the threads as mail=5; queues with weights, as in Sidekiq, share a pool in the file: "
        "[pool:NAME] with queues = mail, ... and weights = 5, ..."
    )


# --- run


def test_run_keeps_trying_without_a_server_and_runs_jobs_when_it_starts(here: Path, own_redis: RedisServer) -> None:
    own_redis.kill()
    with Daemon(here, own_redis.url, JOBS) as daemon:
        daemon.says("ERROR: Redis cannot serve: ")
        time.sleep(1)
        assert daemon.process.poll() is None
        assert daemon.output.count("cannot serve") == 1
        advice = f"; start the server of {own_redis.url}, or set another address with PYWORKERS_BROKER, --broker or "
        assert daemon.output.count(advice) == 1
        own_redis.start()
        daemon.ready()
        client = own_redis.client()
        client.lpush("queue:q", job("Quick"))
        assert eventually(lambda: client.get("stat:processed") == b"1")
        assert daemon.stop() == 0
    assert daemon.output.count("cannot serve") == daemon.output.count("serves again") == 1


def test_run_logs_two_lines_for_an_outage(here: Path, own_redis: RedisServer) -> None:
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


def test_run_logs_json_with_log_format_json(here: Path, redis_url: str, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", job("Quick", jid="abc"), job("Nobody", jid="def"))
    with Daemon(here, redis_url, JOBS, "--log-format", "json", "-q", "q=1") as daemon:
        assert eventually(lambda: redis.get("stat:processed") == b"2")
        assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.output.splitlines()]
    assert [line["msg"] for line in lines if line.get("jid") == "abc"] == ["start", "done"]
    assert [line["lvl"] for line in lines if line.get("class") == "Nobody"] == ["INFO", "WARNING", "INFO", "INFO"]


def test_run_at_level_warning_logs_nothing_for_a_job_that_succeeds(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    redis.lpush("queue:q", job("Quick"))
    with Daemon(here, redis_url, JOBS, "--log-level", "warning") as daemon:
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        assert daemon.stop() == 0
    assert daemon.output == ""


def test_queues_given_as_flags_replace_those_of_the_file(here: Path, redis_url: str, redis: redis_py.Redis) -> None:
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


# --- stats, version, config check, help


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_printed(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert goworkers_py.__version__ in done.stdout


def groups_of_commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups_of_commands(command, *path, name)


@pytest.mark.parametrize("path", [*groups_of_commands(main)], ids=" ".join)
def test_no_line_about_a_command_is_cut_in_the_help(path: tuple[str, ...], call: Call) -> None:
    told = call(*path, "--help").stdout.partition("Commands:\n")[2].splitlines()
    assert told
    assert [line for line in told if line.endswith("...")] == []


@pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["config", "check", "--help"]])
def test_help_is_on_stdout(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


def test_the_help_ends_with_where_to_look_when_something_is_wrong(call: Call) -> None:
    *_, doctor, docs = call("--help").stdout.splitlines()
    assert doctor.strip() == "Where something is wrong, begin with `pyworkers doctor`."
    address = docs.strip().removeprefix("Documentation: ")
    assert f"Documentation = {address}\n" in (Path(goworkers_py.__file__).parents[1] / "setup.cfg").read_text()


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_a_group_without_a_command_shows_its_help(arguments: list[str], call: Call) -> None:
    done = call(*arguments)
    assert (
        "Commands:" in done.stdout + done.stderr
    )  # stdout or stderr, and the exit code, depend on the release of click


def test_config_check_imports_the_named_modules_and_needs_no_server(here: Path, call: Call) -> None:
    (here / "conf.ini").write_text(
        f"[pyworkers]\nredis = {NOWHERE}\nrequire = jobs\n[queue:q]\nconcurrency = 1\n[queue:mail]\n"
        "[middleware]\nappend = jobs:Link\n"
    )
    done = call("config", "check", "-c", "conf.ini")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"broker: {NOWHERE} (from conf.ini)", "queue q: 1 threads", "queue mail: 10 threads", "jobs: Quick",
        "the configuration is fine",
    ]  # fmt: skip


def test_config_check_shows_what_sets_the_broker_and_no_password(here: Path, call: Call) -> None:
    (here / "conf.ini").write_text(
        "[pyworkers]\nbroker = redis://:secret@file/0\n[queue:q]\n"
        "[partition:billing]\nbroker = redis://:secret@own/0\nqueues = invoices\n[partition:mail]\nqueues = mail\n"
    )

    def brokers(*flags: str, **environment: str) -> list[str]:
        done = call("config", "check", "--allow-no-jobs", *flags, **environment)
        assert "secret" not in done.stdout
        return [line for line in done.stdout.splitlines() if "broker: " in line]

    assert brokers() == ["broker: redis://localhost:6379/0 (the default)"]
    file = ("-c", "conf.ini")
    own = "partition billing, broker: redis://:***@own/0 (from conf.ini)"
    assert brokers(*file) == [
        "broker: redis://:***@file/0 (from conf.ini)", own,
        "partition mail, broker: redis://:***@file/0 (from conf.ini)",
    ]  # fmt: skip
    assert brokers(*file, PYWORKERS_REDIS="redis://variable")[:2] == [
        "broker: redis://variable (from PYWORKERS_REDIS)", own,
    ]  # fmt: skip
    flagged = brokers(*file, "--broker", "redis://flag", PYWORKERS_BROKER="redis://variable")
    assert flagged[:2] == ["broker: redis://flag (from --broker)", own]
    assert brokers(*file, PYWORKERS_PARTITION_BILLING_BROKER="redis://variable")[1] == (
        "partition billing, broker: redis://variable (from PYWORKERS_PARTITION_BILLING_BROKER)"
    )


@pytest.mark.parametrize("option", ["queue", "retry_queue"])
def test_config_check_fails_when_a_job_names_a_queue_that_is_not_configured(
    option: str, here: Path, call: Call
) -> None:
    with (here / "jobs.py").open("a") as jobs:
        jobs.write(f'@workers.job("Lost", {option}="lost")\ndef lost(): ...\n')
    done = call("config", "check", "-r", "jobs", "-q", "q", "-q", "default")
    assert done.returncode == 1
    assert one_line(done.stderr) == (
        "jobs are registered for queues that are not configured: lost (Lost); add [queue:NAME] or -q"
    )
    assert "is fine" not in done.stdout
    done = call("config", "check", "-r", "jobs", "-q", "q", "-q", "lost", "-q", "default")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "no jobs are registered: name"),
        (["-q", "mail"], "no jobs are registered, and every job of queue mail would fail: name"),
        (["-c", "conf.ini"], "no jobs are registered, and every job of queues lost, invoices would fail: name"),
        (["-c", "conf.ini", "--partition", "billing"], "every job of queue invoices would fail: name"),
    ],
)
@pytest.mark.parametrize("command", [["run"], ["config", "check"]], ids=" ".join)
def test_a_process_without_jobs_does_not_start(
    command: list[str], flags: list[str], told: str, here: Path, call: Call
) -> None:
    """It would take the jobs of others, and fail them."""
    (here / "conf.ini").write_text(
        f"[pyworkers]\nredis = {NOWHERE}\n[queue:handled]\nhandler = jobs:perform\n[queue:lost]\n"
        f"[partition:billing]\nbroker = {NOWHERE}\nqueues = invoices\n"
    )
    (here / "jobs.py").write_text("def perform(message): ...\n")
    done = call(*command, *flags, PYWORKERS_REDIS=NOWHERE)
    assert (done.returncode, done.stdout) == (2, "")
    line = one_line(done.stderr)
    assert told in line
    assert line.endswith("handler = MODULE:FUNCTION; to start all the same: --allow-no-jobs")


def test_a_process_whose_queues_have_handlers_needs_no_jobs(here: Path, call: Call) -> None:
    (here / "conf.ini").write_text("[queue:handled]\nhandler = jobs:perform\npriorities = yes\n")
    (here / "jobs.py").write_text("def perform(message): ...\n")
    assert call("config", "check", "-c", "conf.ini").stdout.splitlines()[-1] == "the configuration is fine"


def test_a_process_that_may_start_without_jobs_works_no_queue_that_nobody_named(call: Call) -> None:
    done = call("config", "check", "--allow-no-jobs")
    assert done.stdout.splitlines()[1:] == ["jobs: none registered", "the configuration is fine"]
    assert done.stderr == ""
    done = call("config", "check", "--allow-no-jobs", "-q", "mail")
    assert done.stdout.splitlines()[1] == "queue mail: 10 threads"


def test_a_parent_tells_that_its_children_have_no_jobs(redis_url: str) -> None:
    done = pyworkers("run", "--redis", redis_url, "-q", "mail", "--processes", "2")
    assert done.returncode == 2
    assert "pyworkers: no jobs are registered, and every job of queue mail would fail: " in done.stderr


def test_flags_override_the_environment_and_the_environment_overrides_the_file(here: Path, call: Call) -> None:
    """Each source names a module that does not exist: the error shows which source was read."""
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
