"""A real daemon on a real node of RabbitMQ, which is killed, and a connection that is cut."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from daemon import Daemon, pyworkers
from harness import Process, job
from rabbit import RabbitNode, RabbitServer, errors
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.config.options import Config

pytestmark = pytest.mark.server


JOBS = """
    import pathlib, time
    import goworkers_py as workers

    def note(word, text):
        with pathlib.Path("done").open("a") as done:
            done.write(f"{word} {text}\\n")

    @workers.job(queue="q")
    def work(number, seconds=0):
        note("began", number)
        time.sleep(seconds)
        note("ended", number)

    @workers.job(queue="q")
    def gated(number):
        note("began", number)
        while not pathlib.Path("gate").exists():
            time.sleep(0.01)
        note("ended", number)

    @workers.job(queue="q")
    def fail(number):
        note("failed", number)
        raise workers.RetryJob("it fails", delay=1.5)
"""
Make = Callable[..., Daemon]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    daemons: list[Daemon] = []

    def start(address: str, *flags: str) -> Daemon:
        daemons.append(Daemon(tmp_path, address, JOBS, "-q", "q=5", *flags))
        return daemons[-1]

    yield start
    for one in daemons:
        one.kill()
        one.process.wait()


def push(me: Process, name: str, *arguments: list[object]) -> None:
    me.publish(*(job(f"{name}-{one[0]}", args=one, **{"class": name, "retry": 1}) for one in arguments))


def done(folder: Path, word: str = "ended") -> list[str]:
    path = folder / "done"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{word} ")]


def test_a_daemon_runs_jobs_and_ends_at_term(make: Make, rabbit_url: str, me: Process, tmp_path: Path) -> None:
    daemon = make(rabbit_url).ready()
    push(me, "work", *([number] for number in range(200)))
    assert eventually(lambda: len(done(tmp_path)) == 200)
    assert daemon.stop() == 0
    assert not errors(daemon.output), daemon.output
    assert sorted(map(int, done(tmp_path))) == [*range(200)]


def test_a_failed_job_is_retried_after_its_time_and_dies(
    make: Make, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    daemon = make(rabbit_url).ready()
    push(me, "fail", [1])
    assert eventually(lambda: len(done(tmp_path, "failed")) == 2)
    assert daemon.stop() == 0
    [dead] = me.consume(1, "pyworkers.dead")
    fields = json.loads(dead.payload)
    assert (fields["jid"], fields["error_message"], fields["retry_count"]) == ("fail-1", "it fails", 1)


def test_running_jobs_end_at_term_and_the_others_stay_in_their_queue(
    make: Make, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "work", *([number, 1] for number in range(20)))
    daemon = make(rabbit_url).ready()
    assert eventually(lambda: len(done(tmp_path, "began")) >= 5)
    assert daemon.stop() == 0
    ended = done(tmp_path)
    assert sorted(ended) == sorted(done(tmp_path, "began"))
    left = {json.loads(one.payload)["jid"] for one in me.consume(20 - len(ended))}
    assert left == {f"work-{number}" for number in range(20)} - {f"work-{number}" for number in ended}


def test_jobs_of_a_daemon_that_is_killed_run_in_another(
    make: Make, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "work", *([number, 0.02] for number in range(300)))
    killed = make(rabbit_url)
    assert eventually(lambda: len(done(tmp_path)) > 20)
    killed.kill()
    killed.process.wait()
    make(rabbit_url).ready()
    assert eventually(lambda: set(map(int, done(tmp_path))) == {*range(300)})


def test_a_cut_connection_loses_no_job_and_runs_none_again_in_the_process_that_has_it(
    make: Make, rabbit_url: str, rabbit_server: RabbitNode, me: Process, tmp_path: Path
) -> None:
    with RawProxy(rabbit_server.port) as proxy:
        push(me, "gated", *([number] for number in range(5)))
        push(me, "work", *([number, 0.01] for number in range(5, 300)))
        daemon = make(rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")).ready()
        assert eventually(lambda: len(done(tmp_path, "began")) >= 5)
        proxy.cut()
        time.sleep(1)  # the daemon hears of it while the jobs run
        (tmp_path / "gate").touch()
        assert eventually(lambda: "lost lease" in daemon.output)
        assert eventually(lambda: set(map(int, done(tmp_path))) == {*range(300)})
        assert daemon.stop() == 0
        assert "connection to RabbitMQ lost" in daemon.output
        assert "PRECONDITION" not in daemon.output, "a delivery tag was acknowledged that the channel did not know"
    assert max(Counter(done(tmp_path)).values()) == 1


@pytest.mark.timeout(180)  # each start of a node takes a processor for five seconds
def test_a_node_that_is_killed_and_started_again_keeps_all_jobs(make: Make, tmp_path: Path) -> None:
    with closing(RabbitServer()) as server:
        me = Process(Config(broker=server.url))
        push(me, "work", *([number, 0.01] for number in range(500)))
        me.broker.close()
        server.await_metadata()
        daemon = make(server.url).ready()
        assert eventually(lambda: len(done(tmp_path)) > 20)
        server.kill()
        daemon.says("RabbitMQ cannot serve")
        server.start()
        assert eventually(lambda: set(map(int, done(tmp_path))) == {*range(500)}, 60)  # its queues need leaders first
        daemon.says("RabbitMQ serves again")
        assert daemon.stop() == 0


def test_without_pika_the_error_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pika.py").write_text("raise ModuleNotFoundError('No module named pika', name='pika')")
    told = pyworkers("enqueue", "Job", "--broker", "amqp://127.0.0.1:1/", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert told.returncode == 2
    assert "pip install 'goworkers-py[rabbitmq]'" in told.stderr


def test_a_wrong_password_ends_the_daemon_with_a_clear_error(make: Make, rabbit_url: str) -> None:
    daemon = make(rabbit_url.replace("amqp://", "amqp://guest:wrong@"))
    assert daemon.wait() != 0
    assert "the server refused the login" in daemon.output


def test_with_standby_one_process_gets_the_jobs_and_the_next_one_after_its_end(
    make: Make, rabbit_url: str, tmp_path: Path
) -> None:
    with closing(Process(Config(broker=rabbit_url, standby=True)).broker) as broker:
        first = make(rabbit_url, "--standby", "yes").ready()
        second = make(rabbit_url, "--standby", "yes").ready()
        work = [Push("q", job(f"work-{number}", args=[number, 0.01], **{"class": "work"})) for number in range(100)]
        # The leader cannot end all of them before it is killed.
        gated = [Push("q", job(f"gated-{number}", args=[number], **{"class": "gated"})) for number in range(100, 200)]
        broker.transport.publish([*work, *gated])
        assert eventually(lambda: len(done(tmp_path)) > 20)
        # Both have, where the machine was so busy that the first did not ask for a second, and the queue went on.
        leading = next(one for one in (first, second) if "class=work" in one.output)
        leading.kill()
        (tmp_path / "gate").touch()
        assert eventually(lambda: set(map(int, done(tmp_path))) == {*range(200)}), second.output
        assert "class=" in first.output
        assert "class=" in second.output


def test_standby_refuses_a_queue_that_several_processes_may_consume_from(
    make: Make, rabbit_url: str, me: Process
) -> None:
    push(me, "work", [1])
    make(rabbit_url, "--standby", "yes").says("inequivalent arg 'x-single-active-consumer'")
