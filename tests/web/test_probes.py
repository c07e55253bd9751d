"""The pages of `stats_port`, for one process and for several, over real HTTP."""

from __future__ import annotations

import json
import platform
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from daemon import Daemon
from hanging import HANG
from prometheus_client.parser import text_string_to_metric_families
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.brokers.contracts.fleet import QueueStats, Stats
from goworkers_py.core.outcome import DONE
from goworkers_py.core.version import __version__
from goworkers_py.observe.health_report import COUNTERS, HealthReport, merged
from goworkers_py.observe.run_stats import BOUNDS_S, RESULTS, RunStats
from goworkers_py.web.probes import for_go_workers
from goworkers_py.web.prometheus import exposition

DASHBOARD = Path(__file__).parents[2] / "conf/grafana/pyworkers.json"

JOBS = """
import pathlib, threading, time
import goworkers_py as workers

@workers.job(queue="q")
def fail():
    raise workers.KillJob("no")

@workers.job(queue="q")
def note():
    pass

@workers.job(queue="elsewhere", retry_queue="q")
def visit():
    pass

@workers.job(queue="elsewhere")
def stay():
    pass

@workers.job(queue="q")
def wait_for(path):
    pathlib.Path(path + ".began").touch()
    while not pathlib.Path(path).exists():
        time.sleep(0.01)
"""

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(text: str) -> Samples:
    return {
        (sample.name.removeprefix("pyworkers_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Port:
    def __init__(self, number: int) -> None:
        self.number = number

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text; status 0 while the port is closed."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.number}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        return self.get("/ready")[0] == 200

    def sample(self, name: str, **labels: str) -> float | None:
        return samples_of(self.get("/metrics")[1]).get((name, tuple(sorted(labels.items()))))


@contextmanager
def daemon(directory: Path, redis_url: str, *flags: str, jobs: str = JOBS) -> Iterator[tuple[Daemon, Port]]:
    port = Port(free_port())
    flags = ("-q", "q=2", "--stats-port", str(port.number), *flags)
    with Daemon(directory, redis_url, jobs, *flags, changes={"PYWORKERS_STATS_JOBS": "yes"}) as running:
        yield running, port


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["one", "two"])
def test_metrics_count_finished_and_running_jobs(flags: tuple[str, ...], redis_url: str, tmp_path: Path) -> None:
    processes = 2 if flags else 1
    with own_app(redis_url) as app, daemon(tmp_path, redis_url, *flags) as (running, port):
        assert eventually(port.ready), running.output
        assert eventually(lambda: port.sample("jobs_total", queue="q", result="dead", **{"class": "fail"}) == 0)
        assert port.sample("jobs_total", queue="q", result="dead", **{"class": "visit"}) == 0  # it is retried here
        assert '"stay"' not in port.get("/metrics")[1]
        app.enqueue_bulk("q", "note", [[]] * 20)
        app.enqueue("q", "fail", [])
        app.enqueue("q", "wait_for", [str(tmp_path / "gate")])
        done = {"queue": "q", "class": "note", "result": "done"}
        assert eventually(lambda: port.sample("jobs_total", **done) == 20)
        assert eventually(lambda: port.sample("busy_threads", queue="q") == 1)
        assert eventually(lambda: port.sample("jobs_total", **{**done, "class": "fail", "result": "dead"}) == 1)
        assert eventually(lambda: port.sample("dead_jobs") == 1)  # what the server holds
        assert port.sample("job_run_seconds_count", queue="q", **{"class": "note"}) == 20
        assert port.sample("queue_latency_seconds_count", queue="q") == 21
        assert port.sample("threads", queue="q") == 2 * processes
        assert port.sample("processes") == processes
        assert port.sample("oldest_job_seconds") is not None
        stats = json.loads(port.get("/stats")[1])
        assert stats["dead"] == 1
        [under_way] = stats["jobs"].pop("q")
        assert (under_way["message"]["class"], under_way["message"]["args"]) == ("wait_for", [str(tmp_path / "gate")])
        assert 0 <= time.time() - under_way["started_at"] < 3_600
        assert stats["jobs"] == {}
        assert port.get("/live") == (200, f"working, 1 of {2 * processes} threads busy, queues q\n")
        running.signal(signal.SIGTERM)
        assert eventually(lambda: port.get("/ready") == (503, "stopping\n"))
        assert port.get("/live")[0] == 200
        (tmp_path / "gate").touch()
        assert running.wait() == 0
    assert port.get("/live")[0] == 0


def test_the_counts_of_a_child_stay_when_the_child_has_ended(redis_url: str, tmp_path: Path) -> None:
    with (
        own_app(redis_url) as app,
        daemon(tmp_path, redis_url, "--processes", "1", "--max-jobs", "5") as (running, port),
    ):
        assert eventually(port.ready), running.output
        app.enqueue_bulk("q", "note", [[]] * 5)
        running.says("ended with exit code 0")
        assert port.sample("jobs_total", queue="q", result="done", **{"class": "note"}) == 5
        assert eventually(lambda: port.sample("processes") == 1)
        assert running.stop() == 0


def test_live_is_503_while_the_heartbeat_of_a_child_hangs(redis_url: str, tmp_path: Path) -> None:
    with daemon(tmp_path, redis_url, "--processes", "2", jobs=JOBS + HANG) as (running, port):
        # On a busy machine other loops stand still for a while too, and may be named before.
        assert eventually(lambda: "heartbeat stands still for " in port.get("/live")[1]), running.output
        assert port.get("/live")[0] == 503
        # The answer before the second child is ready says that it starts.
        assert eventually(lambda: "heartbeat stands still for " in port.get("/ready")[1]), running.output
        assert port.sample("live") == port.sample("ready") == 0
        running.stop()


@pytest.mark.usefixtures("server_program")
def test_live_is_200_and_ready_is_503_while_the_server_cannot_be_reached(tmp_path: Path) -> None:
    server = RedisServer()
    try:
        server.kill()
        impatient = "\nfrom goworkers_py.core.timing import Timing\nworkers.app.timing = Timing(lease_fresh_s=6.0)\n"
        with daemon(tmp_path, server.url, jobs=JOBS + impatient) as (running, port):
            running.says("cannot serve")
            assert port.get("/live")[0] == 200
            assert port.get("/ready") == (503, "starting\n")
            server.start()
            assert eventually(port.ready), running.output
            server.kill()
            assert eventually(lambda: "the server was not reached for " in port.get("/ready")[1])
            assert port.get("/live")[0] == 200
            assert port.get("/stats")[0] == 503
            assert (port.sample("broker_up"), port.sample("redis_up")) == (0, 0)
            assert (port.sample("outage_seconds_total") or 0) > 0
    finally:
        server.close()


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["one", "two"])
def test_with_its_port_in_use_the_daemon_ends_with_one_line_before_any_job(
    flags: tuple[str, ...], redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    with own_app(redis_url) as app, daemon(tmp_path, redis_url) as (running, port):
        assert eventually(port.ready), running.output
        running.signal(signal.SIGTSTP)
        assert eventually(lambda: port.get("/ready") == (503, "quiet\n"))
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 0)
        app.enqueue("q", "note", [])
        flags = (*flags, "--stats-port", str(port.number))
        with Daemon(tmp_path, redis_url, JOBS, "-q", "q", *flags) as second:
            assert second.wait() == 2
        assert second.output == (
            f"pyworkers: stats server: cannot listen on 127.0.0.1:{port.number}: Address already in use; "
            "choose another one with `stats_port`, or --stats-port\n"
        )
        # A last fetch, which was about to begin at the look at the clients, may have taken the job and given it back.
        assert eventually(lambda: redis.llen("queue:q") == 1)
        assert running.stop() == 0


def test_stats_show_a_running_job_as_it_was_stored_and_a_long_one_shortened(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    with daemon(tmp_path, redis_url, "-q", "idle") as (running, port):
        assert eventually(port.ready), running.output
        assert json.loads(port.get("/stats")[1])["jobs"] == {"q": [], "idle": []}
        gate = str(tmp_path / "gate")
        fields = f'"class":"wait_for","jid":"j1","n":12345678901234567890.10,"args":["{gate}"'
        redis.lpush("queue:q", f"{{{fields}]}}")
        assert eventually(lambda: '"n":12345678901234567890.10' in port.get("/stats")[1])
        redis.lpush("queue:q", f'{{{fields}],"more":"{"x" * 100_000}"}}'.replace("j1", "j2"))
        assert eventually(lambda: len(json.loads(port.get("/stats")[1])["jobs"]["q"]) == 2)
        text = port.get("/stats")[1]
        short = next(job["message"] for job in json.loads(text)["jobs"]["q"] if job["message"]["jid"] == "j2")
        assert (short["class"], "too long to be shown" in short["args"][0]) == ("wait_for", True)
        assert len(text) < 10_000
        (tmp_path / "gate").touch()
        assert running.stop() == 0


def test_a_key_of_another_type_is_no_outage(redis_url: str, redis: redis_py.Redis, tmp_path: Path) -> None:
    redis.set("retry", "no set")
    redis.zadd("dead", {"x": 1})
    with daemon(tmp_path, redis_url) as (running, port):
        assert eventually(port.ready), running.output
        assert [port.sample(name) for name in ("broker_up", "redis_up", "dead_jobs", "retry_jobs")] == [1, 1, 1, 0]
        running.stop()


# --- the text


def report(**changes: object) -> HealthReport:
    return {**merged("working", []), **changes}  # type: ignore[typeddict-item]


def test_go_workers_shows_the_sizes_of_queues_as_text() -> None:
    stats = Stats(12, 3, 4, 9, 9, 5, 6, 7, 8, [QueueStats("a", 9, 0.5), QueueStats("b", 0, 0.0)])
    assert for_go_workers(stats) == {
        "processed": 12, "failed": 3, "enqueued": {"a": "9", "b": "0"}, "retries": 5,
        "scheduled": 4, "dead": 6, "in_progress": 7,
    }  # fmt: skip


def test_labels_are_escaped() -> None:
    tally, name = RunStats(), 'a\\b"c\nd{}é'
    tally.add(name, DONE, 0.02, 0.02)
    text = exposition(report(jobs={name: tally.snapshot()}), None)
    told = samples_of(text)
    labels = (("class", name), ("queue", name))
    assert told["jobs_total", tuple(sorted([*labels, ("result", "done")]))] == 1
    assert told["job_run_seconds_sum", labels] == 0.02


def test_a_known_class_has_a_sample_for_every_result_from_the_start() -> None:
    told = samples_of(exposition(report(jobs={"q": RunStats(["A"]).snapshot()}), None))
    results = {dict(labels)["result"]: value for (name, labels), value in told.items() if name == "jobs_total"}
    assert results == dict.fromkeys(RESULTS, 0)
    assert told["job_run_seconds_count", (("class", "A"), ("queue", "q"))] == 0
    assert told["queue_latency_seconds_count", (("queue", "q"),)] == 0


def test_metrics_show_the_version_and_the_paused_queues() -> None:
    stats = Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, [QueueStats("a", 0, 0.0, paused=True), QueueStats("b", 0, 0.0)])
    told = samples_of(exposition(report(), stats))
    assert told["build_info", (("python", platform.python_version()), ("version", __version__))] == 1
    assert [told["queue_paused", (("queue", queue),)] for queue in ("a", "b")] == [1, 0]


def test_buckets_add_up_to_the_count() -> None:
    tally = RunStats()
    for seconds in (0.001, 0.02, 0.02, 9_999.0):
        tally.add("A", DONE, seconds, None)
    told = samples_of(exposition(report(jobs={"q": tally.snapshot()}), None))
    buckets = [
        told["job_run_seconds_bucket", (("class", "A"), ("le", le), ("queue", "q"))]
        for le in [f"{bound:g}" for bound in BOUNDS_S] + ["+Inf"]
    ]
    assert buckets == [1, 1, *[3] * (len(BOUNDS_S) - 2), 4]
    assert told["job_run_seconds_count", (("class", "A"), ("queue", "q"))] == 4


def test_every_metric_has_one_head_and_every_counter_has_a_metric() -> None:
    stats = Stats(1, 2, 3, 9, 9, 4, 5, 6, 7, [QueueStats("q", 8, 1.5)])
    text = exposition(report(counts=dict.fromkeys(COUNTERS, 2.5)), stats)
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    told = samples_of(text)
    assert told["queue_size", (("queue", "q"),)] == 8
    assert told["queue_oldest_seconds", (("queue", "q"),)] == 1.5
    assert [value for (name, _), value in told.items() if name.endswith("_total")] == [2.5] * len(COUNTERS)
    names = {name for name, _ in told}
    assert {f"periodic_{what}_total" for what in ("fired", "skipped", "late_seconds")} <= names


def test_the_threads_of_a_pool_are_one_metric_and_not_one_for_each_of_its_queues() -> None:
    shared = {"busy": 2, "capacity": 0, "waiting": 0, "stuck": 0}
    queues = {"q": {**shared, "capacity": 3}, "a": shared, "b": shared}
    told = samples_of(exposition(report(queues=queues, pools={"web": {"capacity": 5, "stuck": 0}}), None))
    threads = {labels: value for (name, labels), value in told.items() if name == "threads"}
    assert threads == {(("queue", "q"),): 3, (("pool", "web"),): 5}
    assert len([name for name, _ in told if name == "busy_threads"]) == 3


def test_the_dashboard_reads_only_metrics_that_exist() -> None:
    tally = RunStats()
    tally.add("A", DONE, 0.1, 0.1)
    queues = {"q": {"busy": 0, "capacity": 1, "waiting": 0, "stuck": 0}}
    told = samples_of(
        exposition(
            report(jobs={"q": tally.snapshot()}, queues=queues),
            Stats(1, 2, 3, 9, 9, 4, 5, 6, 7, [QueueStats("q", 8, 1.5)]),
        )
    )
    asked = set(
        re.findall(r"pyworkers_(\w+)", " ".join(re.findall(r'"(?:expr|query)": "(.*)"', DASHBOARD.read_text())))
    )
    assert len(asked) > 15
    assert asked <= {name for name, _ in told}
    json.loads(DASHBOARD.read_text())
