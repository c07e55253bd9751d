"""One daemon works several brokers, each as a partition."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from apps import own_app, working
from daemon import Daemon, pyworkers
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import BrokerUnavailable

JOBS = """
    import goworkers_py as workers

    def tell(text):
        with open("told.txt", "a") as told:
            told.write(f"{text}\\n")

    @workers.job("Mail", queue="mail")
    def mail(number):
        tell(f"mail {number}")

    @workers.job("Invoice", queue="invoices", partition="billing", retry=0)
    def invoice(number):
        tell(f"invoice {number}")
        with workers.atomic():
            mail.enqueue(number + 1000)  # of another broker, in the step in which this job ends
        invoice.set(partition="").enqueue(number) if number < 0 else None

    def every(message):
        tell(f"handled {message.args[0]} of {message.queue}")
"""


@pytest.fixture
def billing_server(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, own_redis: RedisServer, billing_server: RedisServer) -> Path:
    (tmp_path / "conf.ini").write_text(
        f"""
        [pyworkers]
        redis = {own_redis.url}
        poll_interval = 0.1
        [queue:mail]
        concurrency = 2
        [partition:billing]
        broker = {billing_server.url}
        queues = invoices 2
        [partition:audit]
        queues = audit 1
        handler = jobs:every
        """.replace("        ", "")
    )
    return tmp_path


def told(folder: Path) -> list[str]:
    path = folder / "told.txt"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def configured_in(folder: Path) -> App:
    app = App()
    app.configure(folder / "conf.ini")
    return app


@pytest.fixture
def producer(folder: Path) -> Iterator[App]:
    app = configured_in(folder)
    yield app
    app.use(app.config)  # closes its connections


def start(folder: Path, own_redis: RedisServer, *flags: str) -> Daemon:
    return Daemon(folder, own_redis.url, JOBS, "-c", "conf.ini", *flags)


def test_a_daemon_works_all_partitions_and_producers_reach_them_by_name(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer, producer: App
) -> None:
    invoice = producer.job("Invoice", queue="invoices", partition="billing")(print)
    with start(folder, own_redis).ready() as daemon:
        invoice.enqueue(1)
        producer.partition("billing").enqueue("invoices", "Invoice", [2])
        producer.partition("audit").enqueue("audit", "Any", ["a"])
        cli = pyworkers(
            "enqueue", "-c", "conf.ini", "--partition", "billing", "-q", "invoices", "Invoice", "[3]", cwd=folder
        )
        assert cli.returncode == 0, cli.stderr
        cli = pyworkers("enqueue", "-c", "conf.ini", "-r", "jobs", "Invoice", "[4]", cwd=folder)
        assert (cli.returncode, cli.stderr) == (0, "")
        daemon.ready()
        wanted = sorted(
            [
                "handled a of audit",
                *(f"invoice {one}" for one in (1, 2, 3, 4)),
                *(f"mail 100{one}" for one in (1, 2, 3, 4)),
            ]
        )
        assert eventually(lambda: told(folder) == wanted), told(folder)
        assert "partition billing, broker: " in daemon.output
        assert "worker:invoices@billing:" in daemon.output
        assert daemon.stop() == 0
    assert billing_server.client().get("stat:processed") == b"4"
    assert own_redis.client().get("stat:processed") == b"5"


def test_the_outage_of_one_broker_holds_up_no_other_partition(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer, producer: App
) -> None:
    with start(folder, own_redis).ready() as daemon:
        billing_server.kill()
        daemon.says("Redis of partition billing cannot serve")
        producer.enqueue("mail", "Mail", [1])
        assert eventually(lambda: told(folder) == ["mail 1"])
        with pytest.raises(BrokerUnavailable):
            producer.partition("billing").enqueue("invoices", "Invoice", [5])
        billing_server.start()
        producer.partition("billing").enqueue("invoices", "Invoice", [7])
        assert eventually(lambda: "invoice 7" in told(folder))
        assert daemon.stop() == 0


def test_a_partition_whose_broker_is_away_at_the_start_begins_when_it_is_there(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer, producer: App
) -> None:
    billing_server.kill()
    with start(folder, own_redis).ready() as daemon:
        producer.enqueue("mail", "Mail", [1])
        assert eventually(lambda: told(folder) == ["mail 1"])
        billing_server.start()
        daemon.says("ready after an outage: ")
        producer.partition("billing").enqueue("invoices", "Invoice", [7])
        assert eventually(lambda: "invoice 7" in told(folder))
        assert daemon.stop() == 0


def test_a_daemon_that_is_stopped_while_a_broker_is_away_stops(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer
) -> None:
    billing_server.kill()
    with start(folder, own_redis).ready() as daemon:
        assert daemon.stop() == 0


def test_flags_choose_the_partitions_of_a_process(folder: Path, own_redis: RedisServer, producer: App) -> None:
    producer.partition("audit").enqueue("audit", "Any", ["a"])
    producer.enqueue("mail", "Mail", [1])
    with start(folder, own_redis, "--partition", "audit").ready() as daemon:
        assert eventually(lambda: told(folder) == ["handled a of audit"])
        assert "is processing audit (1 threads)" in daemon.output
        assert daemon.stop() == 0
    with start(folder, own_redis, "-q", "mail").ready() as daemon:
        assert eventually(lambda: "mail 1" in told(folder))
        assert daemon.stop() == 0


def test_commands_look_into_the_partition_that_they_are_given(folder: Path, producer: App) -> None:
    producer.partition("billing").enqueue_bulk("invoices", "Invoice", [[1], [2]])
    for partition, queues in ((), []), (("--partition", "billing"), [("invoices", 2)]), (("--partition", "main"), []):
        stats = pyworkers("stats", "-c", "conf.ini", "--json", *partition, cwd=folder)
        assert [(one["name"], one["size"]) for one in json.loads(stats.stdout)["queues"]] == queues
    both = pyworkers("stats", "-c", "conf.ini", "--json", "--partition", "all", cwd=folder)
    assert [len(json.loads(line)["queues"]) for line in both.stdout.splitlines()] == [0, 1, 0]
    assert both.stderr == "partition main:\npartition billing:\npartition audit:\n"
    wrong = pyworkers("stats", "-c", "conf.ini", "--partition", "biling", cwd=folder)
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "pyworkers: there is no partition 'biling'; there are billing, audit; did you mean 'billing'?\n"
    )


def test_a_command_to_a_partition_changes_that_one_on_a_shared_server_and_on_one_of_its_own(
    folder: Path, own_redis: RedisServer, producer: App
) -> None:
    def give(partition: str, *words: str) -> list[Any]:
        words = ("processes", *words, "--within", "30")
        told = pyworkers(*words, "-c", "conf.ini", "--partition", partition, "--json", cwd=folder)
        assert (told.returncode, [line for line in told.stderr.splitlines() if "partition" not in line]) == (0, [])
        return [json.loads(line)["value"] for line in told.stdout.splitlines()]

    with start(folder, own_redis).ready() as daemon:
        for name in ("", "billing", "audit"):
            assert eventually(
                lambda name=name: all(one.commands for one in producer.partition(name).inspector.processes())
            )
        assert give("billing", "concurrency", "4") == [{"invoices": [2, 4]}]
        assert give("audit", "concurrency", "5") == [{"audit": [1, 5]}]
        assert give("main", "concurrency", "6") == [{"mail": [2, 6]}]
        assert give("all", "concurrency", "7") == [{"mail": [6, 7]}, {"invoices": [4, 7]}, {"audit": [5, 7]}]
        give("main", "quiet", "--yes")
        assert daemon.output.count("quiet: no new jobs are fetched") == 1
        for partition, queue in (("audit", "audit"), ("billing", "invoices")):
            producer.partition(partition).enqueue(queue, "Invoice", [1])
        assert eventually(lambda: told(folder) == ["handled 1 of audit", "invoice 1"]), told(folder)
        assert daemon.stop() == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_status_shows_the_partitions_that_the_process_in_the_pidfile_works(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer, processes: int
) -> None:
    def call(word: str, *flags: str) -> tuple[int, list[str]]:
        done = pyworkers(word, "-c", "conf.ini", *flags, cwd=folder)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def shown() -> list[str]:
        code, [running, *lines] = call("status")
        assert (code, running) == (0, f"pyworkers is running as process {int((folder / 'pid').read_text())}")
        return [re.sub(r"[^ ]+:\d+:[0-9a-f]{12}", "ID", line) for line in lines]

    text = (folder / "conf.ini").read_text()
    more = f"pidfile = pid\nlogfile = log\nrequire = jobs\nprocesses = {processes}\n"
    (folder / "conf.ini").write_text(text.replace("poll_interval", f"{more}poll_interval"))
    (folder / "jobs.py").write_text(textwrap.dedent(JOBS))
    with own_app(own_redis.url, QueueConfig("mail")) as other, working(other):  # it is not in the pidfile
        assert call("start", "--partition", "main", "--partition", "billing")[0] == 0
        try:
            each = "ID, working, 0 of 2 threads busy"
            wanted = [f"partition main: {each}"] * processes + [f"partition billing: {each}"] * processes
            assert eventually(lambda: shown() == wanted), shown()  # after the first beat that tells that it works
            billing_server.kill()
            code, lines = call("status")
            assert (code, len(lines)) == (0, 2 + processes)
            assert lines[-1].startswith("partition billing: not known: ")
        finally:
            assert call("stop")[0] == 0
    code, [line] = call("status")
    assert (code, line) == (1, f"pyworkers is not running: no process holds the pidfile {folder / 'pid'}")


def test_the_configuration_is_checked_with_all_partitions(folder: Path) -> None:
    (folder / "jobs.py").write_text(
        "import goworkers_py as workers\n\n@workers.job('A', partition='biling')\ndef a(): ...\n"
    )
    (folder / "jobs.py").write_text((folder / "jobs.py").read_text() + "\ndef every(message): ...\n")
    check = pyworkers("config", "check", "-c", "conf.ini", "-r", "jobs", cwd=folder)
    assert (check.returncode, check.stderr) == (
        2,
        "pyworkers: @job A: there is no partition 'biling'; there are billing, audit; did you mean 'billing'?\n",
    )
    (folder / "jobs.py").write_text("def every(message): ...\n")
    check = pyworkers("config", "check", "-c", "conf.ini", "-r", "jobs", cwd=folder)
    assert "every job of queues mail, invoices would fail" in check.stderr, "only audit has a handler"
    check = pyworkers("config", "check", "--allow-no-jobs", "-c", "conf.ini", "-r", "jobs", cwd=folder)
    assert check.returncode == 0, check.stderr
    partitions = [line for line in check.stdout.splitlines() if line.startswith("partition ") and "broker" not in line]
    assert partitions == ["partition billing, queue invoices: 2 threads", "partition audit, queue audit: 1 threads"]


def test_metrics_and_readiness_tell_of_each_partition(
    folder: Path, own_redis: RedisServer, billing_server: RedisServer, producer: App
) -> None:
    port = str(free_port())
    with start(folder, own_redis, "--stats-port", port).ready() as daemon:
        producer.partition("billing").enqueue("invoices", "Invoice", [1])
        ended = 'pyworkers_jobs_total{partition="billing",queue="invoices",class="Invoice",result="done"} 1\n'
        assert eventually(lambda: ended in page(port, "metrics")[1]), page(port, "metrics")[1]
        assert 'pyworkers_threads{partition="audit",queue="audit"} 1\n' in page(port, "metrics")[1]
        assert 'pyworkers_broker_up{partition="billing"} 1\n' in page(port, "metrics")[1]
        billing_server.pause()
        assert eventually(lambda: 'pyworkers_broker_up{partition="billing"} 0\n' in page(port, "metrics")[1])
        billing_server.resume()
        ready = "0 of 5 threads busy, queues mail, billing/invoices, audit/audit"
        assert eventually(lambda: (told := page(port, "ready"))[0] == 200 and ready in told[1]), page(port, "ready")
        assert daemon.stop() == 0


def page(port: str, name: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/{name}") as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:  # not ready yet
        with refused:
            return refused.code, refused.read().decode()


def test_a_queue_moves_to_another_partition_while_the_workers_run_the_jobs_of_both(
    folder: Path, own_redis: RedisServer, producer: App
) -> None:
    """The steps of docs/growing.md: the workers have the queue on both servers, the code names the new one."""
    conf = folder / "conf.ini"
    conf.write_text(f"{conf.read_text()}[queue:invoices]\nconcurrency = 1\n")
    invoice = producer.job("Invoice", queue="invoices")(print)
    invoice.enqueue(1)
    invoice.set(partition="billing").enqueue(2)
    with start(folder, own_redis).ready():
        assert eventually(lambda: told(folder) == ["invoice 1", "invoice 2", "mail 1001", "mail 1002"], 15), told(
            folder
        )
