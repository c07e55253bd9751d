"""A queue to which more jobs come than its threads can run is found, with the number of threads that it needs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import pytest
import redis as redis_py
from apps import job

from goworkers_py.admin import late_queues
from goworkers_py.admin.doctor import Doctor
from goworkers_py.admin.inspector import Inspector

PROCESS = "host:1:x"


def found(inspector: Inspector) -> list[tuple[bool, str, str]]:
    return [(one.problem, one.what, one.todo) for one in Doctor(inspector, None).findings() if one.check == "threads"]


def show(
    redis: redis_py.Redis, threads: int = 1, *, queues: Sequence[str] = ("reports",), identity: str = PROCESS,
    version: str = "pyworkers 9", cpu_share: float = 0.2, running: Sequence[str] = (), **fields: str,
) -> None:  # fmt: skip
    """A process whose threads serve `queues`, and run a job of each queue in `running`."""
    capsules = {"all": {"concurrency": threads, "mode": "strict", "weights": dict.fromkeys(queues, 0)}}
    info = {"version": version, "queues": [*queues], "capsules": capsules}
    told = {"info": json.dumps(info), "beat": int(time.time()), "cpu_share": cpu_share, **fields}
    redis.sadd("processes", identity)
    redis.hset(identity, mapping=told)
    redis.set(f"pyworkers:lease:{identity}", 1)
    for number, queue in enumerate(running):
        work = {"queue": queue, "payload": job().decode(), "run_at": int(time.time())}
        redis.hset(f"{identity}:work", str(number), json.dumps(work))


def wait(redis: redis_py.Redis, *ages_s: float, job_class: str = "Report", size: int = 0) -> None:
    """Jobs that wait in the queue, the oldest first."""
    redis.sadd("queues", "reports")
    now = time.time()
    told = {"class": job_class, "args": ["x" * size], "created_at": now - 9_000, "jid": "a"}
    if ages_s:
        redis.lpush("queue:reports", *[json.dumps({**told, "enqueued_at": now - age_s}) for age_s in ages_s])


def ran(redis: redis_py.Redis, runs: int = 40, mean_s: float = 7.4, job_class: str = "Report") -> None:
    key = time.strftime("j|%y%m%d|%-H:%M", time.gmtime(time.time() - 600))
    redis.hset(key, mapping={f"{job_class}|p": runs, f"{job_class}|ms": round(runs * mean_s * 1000)})


# 12 a minute, for four minutes. The test may look some seconds later.
STEADY = [242.5 - 5 * number for number in range(48)]


def test_a_queue_that_falls_behind_is_a_problem_with_the_threads_that_it_needs(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    show(redis)
    wait(redis, *STEADY)
    ran(redis)
    [(problem, what, todo)] = found(inspector)
    assert re.fullmatch(
        r"queue reports falls behind: its oldest job waits for 4 min; 1[12] jobs a minute come, 8\.1 a minute end, "
        r"each takes 7\.4 s on 1 thread: it needs 2 threads",
        what,
    )
    assert (problem, todo) == (True, "[queue:reports] concurrency = 2, or start more processes")


def test_a_job_takes_what_the_waiting_classes_took_each_by_its_number(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    show(redis)
    wait(redis, *STEADY)
    wait(redis, *STEADY, job_class="Quick")
    ran(redis)
    ran(redis, 10_000, 0.4, "Quick")
    ran(redis, 10_000, 60.0, "Elsewhere")
    [(_, what, _)] = found(inspector)
    assert re.search(r" 2[234] jobs a minute come, 15 a minute end, each takes 3\.9 s on 1 thread: it needs 2 th", what)


@pytest.mark.parametrize(
    "ages_s",
    [
        [240 - 40 * number for number in range(6)],
        [240.0] * 500,
        [240.0] * 500 + [5.0, 4.0],
        [3_600.0] * 400 + [1_800 - 30 * number for number in range(60)],
        [100 - number for number in range(100)],
        [],
    ],
    ids=["the threads do", "a burst", "two more", "an outage is over", "not late", "no job"],
)
def test_a_queue_that_becomes_shorter_is_no_finding(
    ages_s: Sequence[float], redis: redis_py.Redis, inspector: Inspector
) -> None:
    show(redis)
    wait(redis, *ages_s)
    ran(redis)
    assert found(inspector) == []


def test_the_newest_page_of_a_long_queue_tells_the_rate(redis: redis_py.Redis, inspector: Inspector) -> None:
    show(redis)
    wait(redis, *[300 - number / 10 for number in range(3_000)])
    ran(redis)
    [(_, what, _)] = found(inspector)
    assert re.search(r" [56]\d\d jobs a minute come", what)


def test_a_burst_is_none_where_more_jobs_wait_than_are_read(
    redis: redis_py.Redis, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_queues, "MOST_READ", 100)
    show(redis)
    wait(redis, *[125.0] * 100, *[25.0] * 200)
    ran(redis)
    assert found(inspector) == []
    redis.delete("queue:reports")
    wait(redis, *[300 - number / 10 for number in range(3_000)])
    [(_, what, _)] = found(inspector)
    assert re.search(r" [3-6]\d\d jobs a minute come", what)


def test_large_jobs_are_not_read_as_a_whole(redis: redis_py.Redis, inspector: Inspector) -> None:
    show(redis)
    wait(redis, *STEADY, size=500_000)
    ran(redis)
    before = int(redis.info("stats")["total_net_output_bytes"])
    [late] = late_queues.late_queues(inspector)
    assert re.search(r" 1[12] jobs a minute come", str(late))
    assert int(redis.info("stats")["total_net_output_bytes"]) - before < 3_000_000


def test_no_thread_is_missing_where_the_queue_is_paused_or_nobody_works_it(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    wait(redis, *STEADY)
    ran(redis)
    assert found(inspector) == []
    show(redis, quiet="true")
    assert found(inspector) == []
    show(redis, quiet="false")
    redis.sadd("paused", "reports")
    assert found(inspector) == []
    redis.srem("paused", "reports")
    assert len(found(inspector)) == 1


def test_nothing_is_told_of_classes_that_have_not_run(redis: redis_py.Redis, inspector: Inspector) -> None:
    show(redis)
    wait(redis, *STEADY)
    assert found(inspector) == []


def test_threads_that_run_jobs_of_other_queues_of_their_pool_are_needed_there(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    show(redis, 4, queues=("mail", "reports"), running=["mail", "mail", "mail", "reports"])
    wait(redis, *STEADY)
    ran(redis)
    [(_, what, todo)] = found(inspector)
    assert what.endswith("each takes 7.4 s on 1 of 4 threads: it needs 5 threads")
    assert todo == "give its pool of threads concurrency = 5, or start more processes"


def test_the_threads_of_all_processes_count(redis: redis_py.Redis, inspector: Inspector) -> None:
    show(redis)
    show(redis, identity="host:2:y")
    wait(redis, *STEADY)
    ran(redis)
    assert found(inspector) == []
    wait(redis, *STEADY)
    [(_, what, todo)] = found(inspector)
    assert re.search(r" 2[234] jobs a minute come, 16 a minute end, .* on 2 threads: it needs 4 threads$", what)
    assert todo == "[queue:reports] concurrency = 2 in each of its 2 processes, or start more processes"


def test_more_threads_are_no_advice_where_each_process_uses_a_whole_core(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    show(redis, cpu_share=0.98)
    wait(redis, *STEADY)
    ran(redis)
    [(_, _, todo)] = found(inspector)
    assert todo == "start 1 more of its processes: these use a whole core each, so more threads do not help"


def test_ruby_has_no_section_of_a_queue(redis: redis_py.Redis, inspector: Inspector) -> None:
    show(redis, version="8.1.7")
    wait(redis, *STEADY)
    ran(redis)
    [(_, _, todo)] = found(inspector)
    assert todo == "give its pool of threads concurrency = 2, or start more processes"
