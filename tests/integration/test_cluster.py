"""Daemons on a Redis Cluster, under load, while slots move and masters change: every job is accounted for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from apps import job, own_app
from cluster import MASTERS, RUNS_ON, Cluster, Node
from cluster_load import NAMESPACES, measure
from daemon import Daemon, pyworkers
from fleet import JOBS
from servers import do_without
from waiting import eventually

from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerUnavailable

BEGINS, ENDS = "Redis Cluster cannot serve", "Redis Cluster serves again"
PAGE = Path(__file__).parents[2] / "docs" / "redis-cluster.md"
PASSWORD = "of-the-worker"


class ClusterFleet(AbstractContextManager["ClusterFleet"]):
    """A daemon on one namespace, and a producer that pushes all the time."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace, self._folder = cluster, namespace, folder
        self.url = cluster.url(namespace)
        self.daemon = Daemon(folder, self.url, JOBS, "-q", "q=5", changes={"FLEET": str(folder)})
        self.acknowledged: list[str] = []  # an append is one step
        self._ends = threading.Event()
        self._producer = threading.Thread(target=self._push)

    def _push(self) -> None:
        with own_app(self.url) as app:
            while not self._ends.wait(0.003):
                try:
                    self.acknowledged.append(str(app.enqueue("q", "Short", [0])))
                except BrokerUnavailable:
                    continue

    def goes_on(self, jobs: int = 50) -> None:
        """Waits until so many more jobs were pushed and have run."""
        pushed, ran = len(self.acknowledged), self.ran()
        assert eventually(lambda: len(self.acknowledged) >= pushed + jobs and len(self.ran()) >= len(ran) + jobs, 30), (
            self.daemon.output
        )

    def ran(self) -> list[str]:
        """The jids, in the order in which they began."""
        runs = self._folder / "runs"
        text = runs.read_text() if runs.exists() else ""
        # The last line may still be on its way into the file.
        return [line.split()[1] for line in text[: text.rfind("\n") + 1].splitlines()]

    def stop(self) -> None:
        self._ends.set()
        self._producer.join()

    def keys(self, pattern: str) -> list[bytes]:
        found: list[bytes] = self.cluster.master_of(self.namespace).redis.keys(f"{{{self.namespace}}}:{pattern}")
        return found

    def assert_all_have_run(self, jids: set[str], *, once: bool) -> None:
        assert eventually(lambda: jids <= set(self.ran()), 40), (jids - set(self.ran()), self.daemon.output)
        assert eventually(lambda: not self.keys("queue:*"), 20), self.keys("queue:*")
        assert not self.keys("retry")
        assert not self.keys("dead")
        if once:
            assert len(self.ran()) == len(set(self.ran()))

    def __enter__(self) -> ClusterFleet:  # noqa: PYI034  # typing.Self is of Python 3.11
        self.daemon.ready()
        self._producer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.daemon.__exit__()


@pytest.fixture(scope="module")
def own_cluster(server_program: str) -> Iterator[Cluster]:
    """All of its nodes run on."""
    with Cluster(**RUNS_ON) as cluster:
        yield cluster


def test_a_slot_that_is_moved_to_and_fro_loses_no_job_and_doubles_none(own_cluster: Cluster, tmp_path: Path) -> None:
    with ClusterFleet(tmp_path, own_cluster, "moving") as fleet:
        for turn in range(2 * MASTERS):
            fleet.goes_on()
            with own_cluster.moving("moving", own_cluster.other_than("moving")) as move:
                if turn % 2:  # some keys at one node and some at the other, while jobs come and end
                    move.keys(*(key.decode() for key in move.source.redis.keys("{moving}:pyworkers:*")))
                    time.sleep(0.2)
        fleet.goes_on()
        fleet.stop()
        fleet.assert_all_have_run({*fleet.acknowledged}, once=True)
        assert fleet.daemon.stop() == 0
        assert " ERROR: " not in fleet.daemon.output


def test_a_failover_by_hand_loses_no_job_and_doubles_none(own_cluster: Cluster, tmp_path: Path) -> None:
    with ClusterFleet(tmp_path, own_cluster, "handed") as fleet:
        for _ in range(2):
            fleet.goes_on()
            own_cluster.fail_over(own_cluster.master_of("handed"))
        fleet.goes_on()
        fleet.stop()
        fleet.assert_all_have_run({*fleet.acknowledged}, once=True)
        assert fleet.daemon.stop() == 0
        assert "Traceback" not in fleet.daemon.output


def push_for_certain(master: Node, namespace: str, jid: str) -> bool:
    """Whether `WAIT 1` says that a replica has it too."""
    with master.redis.pipeline(transaction=False) as pipeline:
        pipeline.sadd(f"{{{namespace}}}:queues", "q")
        pipeline.lpush(f"{{{namespace}}}:queue:q", job("Short", 0.01, jid=jid, queue="q"))
        return bool(pipeline.wait(1, 10_000).execute()[-1] >= 1)


@pytest.mark.timeout(120)
def test_when_the_master_is_killed_the_replica_takes_over_and_pushes_that_it_had_all_run(tmp_path: Path) -> None:
    with Cluster() as cluster, ClusterFleet(tmp_path, cluster, "killed") as fleet:
        fleet.goes_on()
        old = cluster.master_of("killed")
        certain = {f"certain{number}" for number in range(100) if push_for_certain(old, "killed", f"certain{number}")}
        assert len(certain) == 100
        cluster.kill(old)
        fleet.goes_on()
        before = len(fleet.acknowledged)
        old.start()  # and is the replica now
        cluster.await_whole()
        fleet.goes_on()
        fleet.stop()
        fleet.assert_all_have_run(certain | {*fleet.acknowledged[before:]}, once=False)
        assert eventually(lambda: ENDS in fleet.daemon.output, 30)  # a thread that looks seldom may be the last to see
        assert fleet.daemon.stop() == 0
        assert fleet.daemon.output.count(BEGINS) == fleet.daemon.output.count(ENDS) == 1, fleet.daemon.output
        assert "Traceback" not in fleet.daemon.output


def test_the_daemon_and_a_producer_work_under_the_printed_access_rules(own_cluster: Cluster, tmp_path: Path) -> None:
    url = own_cluster.url("ruled").replace("://", f"://worker:{PASSWORD}@")
    config = Config(broker=url)
    _, line = kind_of_broker(config).access_rules(config)
    for node in own_cluster.nodes:
        node.redis.execute_command(*line.replace("PASSWORD", PASSWORD).split())
        node.redis.acl_log_reset()
    with Daemon(tmp_path, url, JOBS, "-q", "q=2", changes={"FLEET": str(tmp_path)}) as daemon:
        daemon.ready()
        pushed = pyworkers("enqueue", "-q", "q", "Short", PYWORKERS_BROKER=url)
        assert (pushed.returncode, pushed.stderr) == (0, "")
        assert eventually(lambda: (tmp_path / "runs").exists()), daemon.output
        own_cluster.move("ruled", own_cluster.other_than("ruled"))
        pushed = pyworkers("enqueue", "-q", "q", "Short", PYWORKERS_BROKER=url)
        assert eventually(lambda: pushed.stdout.strip() in (tmp_path / "runs").read_text()), daemon.output
        assert daemon.stop() == 0
        assert "access rules" not in daemon.output
    refused = {entry["object"] for node in own_cluster.nodes for entry in node.redis.acl_log(128)}
    assert refused <= {"client|setinfo", "info", "type", "hmget"}  # as on a single server


# --- producers in Ruby: the program of the docs

# What the page says of a program with Sidekiq 6, whose gem `redis` is older than 5.
WITH_SIDEKIQ_6 = {
    'require "redis-cluster-client"': 'require "redis"',
    "cluster = RedisClient.cluster(nodes: nodes).new_client": "cluster = Redis.new(cluster: nodes)",
}


def loads(*words: str) -> bool:
    return subprocess.run(["ruby", *words], capture_output=True).returncode == 0


def program_of_page() -> str:
    """For the gem that Ruby has here."""
    page = PAGE.read_text("utf-8")
    [program] = re.findall(r"^```ruby\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if loads("-rredis-cluster-client", "-e", "1"):
        return str(program)
    if not loads("-rredis", "-e", "exit Redis::VERSION < '5'"):
        do_without("ruby has neither redis-cluster-client nor redis before 5 (Debian: apt-get install ruby-redis)")
    for line, other in WITH_SIDEKIQ_6.items():
        assert line in program
        assert f"`{other}`" in page
        program = program.replace(line, other)
    return str(program)


def push_by_ruby(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Returns the job as it is in its queue."""
    (folder / "main.rb").write_text(program_of_page())
    seeds = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:2])
    places = {**os.environ, "NODES": seeds}
    done = subprocess.run(["ruby", "main.rb"], cwd=folder, env=places, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    client = cluster.master_of("jobs").redis
    assert client.smembers("{jobs}:queues") == {b"mail"}
    [payload] = client.lrange("{jobs}:queue:mail", 0, -1)
    found: dict[str, Any] = json.loads(payload)
    assert found["jid"] == done.stdout.strip()
    return found


def test_a_job_that_ruby_pushes_as_the_docs_say_runs(own_cluster: Cluster, tmp_path: Path) -> None:
    pushed = push_by_ruby(own_cluster, tmp_path)
    assert (pushed["class"], pushed["args"], pushed["queue"]) == ("Welcome", [42], "mail")
    jobs = """
        import goworkers_py as workers

        @workers.job("Welcome", queue="mail")
        def welcome(number):
            print("welcome", number, workers.current_message().jid, flush=True)
    """
    with Daemon(tmp_path, own_cluster.url("jobs"), jobs, "-q", "mail") as daemon:
        daemon.says(f"welcome 42 {pushed['jid']}")
        assert daemon.stop() == 0


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("untraced")
def test_partitions_share_the_nodes_when_each_has_a_namespace_on_a_node_of_its_own(server_program: str) -> None:
    with Cluster(replicas=False) as cluster:
        assert len({cluster.master_of(name) for name in NAMESPACES}) == MASTERS
        alone, shared = (measure(cluster, names, 6_000)["run"] for names in (NAMESPACES[:1], NAMESPACES))
    assert max(alone.shares) > 0.7
    assert max(shared.shares) < 0.6
