"""Processes die, are stopped for a while, or do not learn what the server did for them: no job is lost.

Real processes and real signals; where a minute's lease would have to be waited for, it lasts seconds.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_broker, queue
from daemon import Daemon, environment
from fleet import Fleet
from hasty import SHORT, hasty
from proxy import Direction, Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.redis.queues import consumer, settlement
from goworkers_py.policy.poison import RecoveryDecision

LEASE_S = SHORT["timing.lease_s"]
BEAT_S = SHORT["timing.beat_every_s"]
LOOKING = {"timing.recover_every_s": 0.05}
STEADY = {**SHORT, "timing.steady_for_s": 0.0}
# Of a process that must outlive the test, however long the machine pauses.
HEIR = {**STEADY, "timing.lease_s": 60, "timing.lease_fresh_s": 50}
# A lease that a live process keeps on a busy machine, and whose end a test can await.
LASTING_S = 12
LASTING = {**SHORT, "timing.lease_s": LASTING_S, "timing.lease_fresh_s": 10}

RECOVERED = "recovered from dead process"
DECLARED_DEAD = "expired and its jobs were recovered; continuing as"
LOST_LEASE = "lost lease: finished here after it was recovered elsewhere"
INTERRUPTED = "lost lease: interrupted here after it was recovered elsewhere"
FETCH, SETTLE = (
    b"EVALSHA " + script.sha.upper().encode()
    for script in (consumer.FETCH, settlement._script("settle.lua", frozenset()))
)


def lines_with(output: str, text: str) -> list[str]:
    return [line for line in output.splitlines() if text in line]


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    with Proxy(int(redis_url.rpartition(":")[2].partition("/")[0])) as proxy:
        yield proxy


# --- a process that is killed


@pytest.mark.parametrize(
    ("constants", "lease_s", "within_s"),
    [
        pytest.param({**SHORT, "timing.lease_s": 8, "timing.lease_fresh_s": 6}, 8, 30, id="a short lease"),
        pytest.param({}, 60, 90, id="the real lease", marks=[pytest.mark.slow, pytest.mark.timeout(180)]),
    ],
)
def test_the_jobs_of_a_killed_process_are_run_by_another_when_its_lease_is_over(
    fleet: Fleet, constants: dict[str, float], lease_s: float, within_s: float
) -> None:
    first = fleet.start("-q", "q", prefix=hasty(constants, machine="a")).ready()
    fleet.push("j1", "Gated", "gate")
    fleet.await_run("began", "j1")
    fleet.start("-q", "q", prefix=hasty(constants, machine="b")).ready()
    lease = f"pyworkers:lease:{_owner(first)}"
    assert eventually(lambda: fleet.redis.pttl(lease) > 1000 * (lease_s - BEAT_S)), "it has just sent a beat"
    first.kill()
    killed_at = time.monotonic()
    left_s = fleet.redis.pttl(lease) / 1000
    again = fleet.await_run("began", "j1", times=2, within_s=within_s)
    assert again.at - killed_at > left_s - 0.1, "a live process could look like this"
    assert again.at - killed_at <= within_s
    fleet.open("gate")
    assert eventually(lambda: not fleet.lists()), fleet.told()
    assert fleet.count("began") == {"j1": 2}
    assert fleet.count("ended") == {"j1": 1}


def test_a_process_that_is_started_again_on_its_machine_recovers_at_once(fleet: Fleet) -> None:
    first = fleet.start("-q", "q").ready()
    fleet.push("j1", "Gated", "gate")
    fleet.await_run("began", "j1")
    first.kill()
    second = fleet.start("-q", "q")
    fleet.await_run("began", "j1", times=2)
    assert _moment(second.says(RECOVERED)) - _moment(second.says("jobs: ")) < 10, "before its next look"
    fleet.open("gate")
    assert eventually(lambda: not fleet.lists()), fleet.told()


@pytest.mark.timeout(180)  # nine starts
def test_each_job_is_recovered_once_however_many_processes_look_at_the_same_time(fleet: Fleet) -> None:
    victim = fleet.start("-q", "q=40").ready()
    jids = {f"j{number}" for number in range(40)}
    for jid in jids:
        fleet.push(jid, "Gated", "gate")
    assert eventually(lambda: set(fleet.count("began")) == jids), fleet.told()
    others = [fleet.start("-q", "elsewhere=1", prefix=hasty(LOOKING)).ready() for _ in range(8)]
    victim.kill()
    assert eventually(lambda: len(queue(fleet.redis)) >= len(jids)), fleet.told()
    assert Counter(fields(queue(fleet.redis), "jid")) == dict.fromkeys(jids, 1)
    time.sleep(0.5)  # for one that would move them once more
    assert len(queue(fleet.redis)) == len(jids)

    def lines() -> list[str]:
        return [line for other in others for line in lines_with(other.output, RECOVERED)]

    assert eventually(lambda: len(lines()) >= len(jids)), fleet.told()  # each is written after its job was moved
    assert Counter(re.search(r"jid=(\w+)", line)[1] for line in lines()) == dict.fromkeys(jids, 1)


def test_brokers_that_recover_in_the_same_moment_move_each_job_once(redis_url: str, redis: redis_py.Redis) -> None:
    payloads = [job(jid=f"j{number}") for number in range(700)]
    together = threading.Barrier(8)
    moved: list[bytes] = []

    def recover() -> None:
        with own_broker(redis_url) as broker:
            together.wait(10)
            recovered = list(broker.recoverable.recover("me", lambda found: RecoveryDecision(found.payload), proof=""))
            moved.extend(job.payload for job in recovered)

    with own_broker(redis_url) as broker:
        broker.recoverable.beat(Presence("dead", {"q": 10}))
    redis.lpush("queue:q:dead:inprogress", *payloads)
    redis.delete("pyworkers:lease:dead")
    threads = [threading.Thread(target=recover) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(queue(redis)) == sorted(payloads)
    assert sorted(moved) == sorted(payloads)
    assert not in_progress(redis)


def test_a_recovered_job_waits_behind_those_that_waited_before_it(fleet: Fleet) -> None:
    victim = fleet.start("-q", "q=1").ready()
    fleet.push("running", "Gated", "gate")
    fleet.await_run("began", "running")
    for jid in ("first", "second"):
        fleet.push(jid, "Short")
    fleet.start("-q", "elsewhere", prefix=hasty(LOOKING)).ready()
    victim.kill()
    assert eventually(lambda: not in_progress(fleet.redis)), fleet.told()
    assert fields(queue(fleet.redis), "jid") == ["first", "second", "running"]


def test_a_recovery_is_told_in_one_line_with_the_job_and_its_dead_owner(fleet: Fleet) -> None:
    victim = fleet.start("-q", "q").ready()
    owner = _owner(victim)
    fleet.push("j1", "Gated", "gate")
    fleet.await_run("began", "j1")
    other = fleet.start("-q", "elsewhere", prefix=hasty(LOOKING)).ready()
    victim.kill()
    line = other.says(RECOVERED)
    assert line.endswith(f"WARNING: recovered from dead process {owner}: class=Gated jid=j1 queue=q")
    # Once, or once more: Redis may not have seen yet that the victim waits for jobs no more.
    assert all(line.endswith(f"{owner}: class=Gated jid=j1 queue=q") for line in lines_with(other.output, "jid=j1"))


# --- a process that is stopped for a while


@pytest.mark.parametrize("how", ["stopped by a signal", "held up by C code"])
def test_a_process_that_is_silent_for_less_than_its_lease_is_left_alone(fleet: Fleet, how: str) -> None:
    steady = {**LASTING, "timing.steady_for_s": 0.0}
    other = fleet.start("-q", "elsewhere", prefix=hasty(steady, machine="b")).ready()
    sleeper = fleet.start("-q", "q", prefix=hasty(LASTING, machine="a")).ready()
    pause_s = 4  # many beats; the rest of the lease is for pauses of the machine
    if how == "stopped by a signal":
        fleet.push("j1", "Gated", "gate")
        fleet.await_run("began", "j1")
        sleeper.signal(signal.SIGSTOP)
        time.sleep(pause_s)
        sleeper.signal(signal.SIGCONT)
        fleet.open("gate")
    else:
        fleet.push("j1", "Clinging", pause_s)
        fleet.await_run("began", "j1")
    assert eventually(lambda: not in_progress(fleet.redis)), fleet.told()
    assert fleet.count("began") == {"j1": 1}
    assert RECOVERED not in other.output
    assert DECLARED_DEAD not in sleeper.output


def test_a_process_that_was_stopped_for_longer_leaves_its_jobs_to_the_others(fleet: Fleet, tmp_path: Path) -> None:
    """Its two running jobs are run elsewhere too, those that it had only fetched are run elsewhere alone."""
    (tmp_path / "q.ini").write_text("[queue:q]\nconcurrency = 2\nprefetch = 5\n")
    sleeper = fleet.start("-c", str(tmp_path / "q.ini"), prefix=hasty(machine="a")).ready()
    fleet.push("good", "Gated", "gate")
    fleet.push("bad", "Gated", "gate", "it failed")
    fetched = [f"fetched{number}" for number in range(5)]
    for jid in fetched:
        fleet.push(jid, "Short")
    assert eventually(lambda: len(in_progress(fleet.redis)) == 7 and len(fleet.of("began")) == 2), fleet.told()
    sleeper.signal(signal.SIGSTOP)
    other = fleet.start("-q", "q", prefix=hasty(HEIR, machine="b")).ready()
    assert eventually(lambda: len(fleet.of("began")) == 9), fleet.told()
    # The other one has settled those that had only been fetched.
    assert eventually(lambda: [sorted(jids) for jids in fleet.lists().values()] == [["bad", "good"]]), fleet.told()

    sleeper.signal(signal.SIGCONT)
    fleet.open(f"gate-{sleeper.process.pid}")
    # The failure of "bad" comes before the process learns that the job was given away, or after.
    assert eventually(lambda: sleeper.output.count("lost lease: ") == 2), fleet.told()
    assert not fleet.redis.exists("retry"), "the copy of another is not its own to retry"
    assert [sorted(jids) for jids in fleet.lists().values()] == [["bad", "good"]], "nor to remove"
    fleet.open("gate")
    assert eventually(lambda: not in_progress(fleet.redis)), fleet.told()
    assert fleet.redis.zcard("retry") == 1
    assert fleet.count("began") == {"good": 2, "bad": 2, **dict.fromkeys(fetched, 1)}
    assert {run.pid for run in fleet.runs if run.jid in fetched} == {other.process.pid}

    other.stop()
    born = re.search(r"continuing as (\S+)", sleeper.says(DECLARED_DEAD))[1]
    fleet.push("next", "Gated", "later")
    fleet.await_run("began", "next")
    assert fleet.lists() == {f"queue:q:{born}:inprogress": ["next"]}
    fleet.open("later")
    assert eventually(lambda: not fleet.lists()), fleet.told()
    assert sleeper.stop() == 0


WATCHFUL = """
import asyncio

@workers.job("Watchful", queue="q", track=True)
def watchful(gate):
    note("began")
    try:
        while not (HERE / gate).exists():
            time.sleep(0.01)
    except workers.JobCancelled as error:
        message = workers.current_message()
        note(f"{type(error).__name__}-{message.lease_lost}")
        raise
    note("ended")

@workers.job("Asking", queue="q", interrupt=False)
def asking(gate):
    note("began")
    while not workers.current_message().lease_lost:
        if (HERE / gate).exists():
            return note("ended")
        time.sleep(0.01)
    note("asked")

@workers.job("Awaiting", queue="q")
async def awaiting(gate):
    note("began")
    try:
        while not (HERE / gate).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note("stopped")
        raise
    note("ended")

@workers.job("Steps", queue="q")
def steps(gate, *, cursor=None):
    note("began")
    try:
        while not (HERE / gate).exists():
            time.sleep(0.01)
            yield None
    finally:
        note("closed")
"""


def test_a_job_that_was_given_to_another_process_is_interrupted(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "q.ini").write_text("[queue:q]\nconcurrency = 4\nprefetch = 0\n")
    started = ("-c", str(tmp_path / "q.ini"))
    only_when_told = {**SHORT, "features.cancelling.service.Canceller.compare_every_s": 3_600}
    sleeper = fleet.start(*started, prefix=hasty(only_when_told, machine="a"), more=WATCHFUL).ready()
    kinds = ("Watchful", "Asking", "Awaiting", "Steps")
    for kind in kinds:
        fleet.push(kind, kind, "gate")
        fleet.await_run("began", kind)
    sleeper.signal(signal.SIGSTOP)
    other = fleet.start(*started, prefix=hasty(HEIR, machine="b"), more=WATCHFUL).ready()
    for kind in kinds:
        fleet.await_run("began", kind, times=2)
    assert eventually(lambda: fleet.redis.hget("pyworkers:job:Watchful", "state") == b"running"), fleet.told()

    sleeper.signal(signal.SIGCONT)
    words = {"Watchful": "LeaseLost-True", "Asking": "asked", "Awaiting": "stopped", "Steps": "closed"}
    assert [fleet.await_run(word, kind).pid for kind, word in words.items()] == [sleeper.process.pid] * 4
    assert eventually(lambda: sleeper.output.count(INTERRUPTED) == 3), fleet.told()
    assert eventually(lambda: sleeper.output.count(LOST_LEASE) == 1), fleet.told()
    assert "cancelled" not in sleeper.output
    assert len(in_progress(fleet.redis)) == 4, "they are not its own to remove"
    assert fleet.redis.hget("pyworkers:job:Watchful", "state") == b"running"

    fleet.open("gate")
    assert eventually(lambda: not in_progress(fleet.redis)), fleet.told()
    assert {run.pid for run in fleet.of("ended")} == {other.process.pid}
    assert fleet.count("began") == dict.fromkeys(kinds, 2)
    record = fleet.redis.hgetall("pyworkers:job:Watchful")
    assert record[b"state"] == b"completed"
    assert not [move for move in record.values() if move.startswith(b"cancelled")]
    assert fleet.redis.zcard("retry") == fleet.redis.zcard("dead") == 0


@pytest.mark.slow
def test_after_an_outage_longer_than_a_lease_nobody_is_declared_dead(tmp_path: Path, own_redis: RedisServer) -> None:
    """All leases have run out in it, and one process is back later than the other."""
    constants = {**SHORT, "timing.steady_for_s": 5.0, "runtime.outage.LONGEST_PAUSE_S": 0.3}
    with Proxy(own_redis.port) as late, Fleet(tmp_path, own_redis.url, own_redis.client()) as fleet:
        daemons = [
            fleet.start("-q", "q=1", prefix=hasty(constants, machine="a")).ready(),
            fleet.start("-q", "q=1", prefix=hasty(constants, machine="b"), url=late.url).ready(),
        ]
        for jid in ("j1", "j2"):
            fleet.push(jid, "Gated", "gate")
            fleet.await_run("began", jid)
        late.refuse()
        own_redis.kill()
        time.sleep(LEASE_S + 1)
        own_redis.start()
        daemons[0].says("Redis serves again")
        time.sleep(2)
        late.pass_through()
        daemons[1].says("Redis serves again")
        time.sleep(constants["timing.steady_for_s"])  # from here on leases count
        fleet.open("gate")
        assert eventually(lambda: not fleet.lists()), fleet.told()
        assert fleet.count("began") == {"j1": 1, "j2": 1}
        assert not any(text in daemon.output for daemon in daemons for text in (RECOVERED, DECLARED_DEAD))


@pytest.mark.timeout(120)
def test_a_server_that_comes_back_with_an_old_snapshot_makes_nobody_dead(tmp_path: Path) -> None:
    """In the snapshot all leases have run out; the server is away for less than a beat."""
    lease_s = 8
    constants = {
        **SHORT, **LOOKING, "timing.lease_s": lease_s, "timing.lease_fresh_s": 6, "timing.steady_for_s": lease_s - 2,
    }  # fmt: skip
    server = RedisServer(appendonly="no")
    try:
        with Fleet(tmp_path, server.url, server.client()) as fleet:
            daemons = [fleet.start("-q", f"q{n}=1", prefix=hasty(constants, machine=str(n))).ready() for n in (1, 2)]
            for number in (1, 2):
                fleet.push(f"j{number}", "Gated", "gate", queue=f"q{number}")
                fleet.await_run("began", f"j{number}")
            for _ in range(3):
                server.client().save()
                time.sleep(lease_s + 0.5)
                server.kill()
                server.start()
                time.sleep(2 * BEAT_S)
            fleet.open("gate")
            assert eventually(lambda: len(fleet.of("ended")) == 2), fleet.told()
            assert fleet.count("began") == {"j1": 1, "j2": 1}
            assert not any(text in daemon.output for daemon in daemons for text in (RECOVERED, DECLARED_DEAD))
    finally:
        server.close()


@pytest.mark.timeout(120)
def test_a_start_hook_that_takes_longer_than_a_lease_does_not_cost_the_identity(fleet: Fleet) -> None:
    hook = f"\n@workers.before_start\ndef slow():\n    time.sleep({LASTING_S + 2})\n"
    other = fleet.start("-q", "other", prefix=hasty(HEIR, machine="b")).ready()
    slow = fleet.start("-q", "q", prefix=hasty(LASTING, machine="a"), more=hook)
    slow.says("; stop it with TERM", LASTING_S + 30)
    fleet.push("j1", "Short")
    fleet.await_run("began", "j1")
    assert DECLARED_DEAD not in slow.output + other.output


# --- replies that get lost


@pytest.mark.parametrize("command", [b"BRPOPLPUSH", FETCH], ids=["one job", "several jobs"])
def test_jobs_whose_fetch_was_not_answered_run_once(fleet: Fleet, proxy: Proxy, command: bytes) -> None:
    # It waits for the first job, and for so long that no other reply than the one with that job can get lost.
    long_waits = hasty({"brokers.redis.queues.transport.RedisTransport.block_s": 60})
    daemon = fleet.start("-q", "q", prefix=long_waits, url=proxy.url).ready()
    assert eventually(lambda: proxy.commands[b"BRPOPLPUSH"])
    jids = ["j1", "j2", "j3"]
    if command == FETCH:
        with stopped(daemon):
            proxy.drop_reply_of(command)
            for jid in jids:
                fleet.push(jid, "Short")
    else:
        proxy.drop_reply_of(command)
        for jid in jids:
            fleet.push(jid, "Short")
    assert eventually(lambda: set(fleet.count("began")) == set(jids) and not in_progress(fleet.redis), 30)
    assert proxy.hits == 1
    assert fleet.count("began") == dict.fromkeys(jids, 1)
    assert "their reply was lost; running them" in daemon.output


def test_jobs_whose_settling_was_not_answered_are_settled_once_and_not_run_again(fleet: Fleet, proxy: Proxy) -> None:
    daemon = fleet.start("-q", "q", url=proxy.url).ready()
    fleet.push("first", "Short")  # the script is loaded at its first use
    assert eventually(lambda: fleet.redis.get("stat:processed") == b"1"), fleet.told()
    proxy.drop_reply_of(SETTLE, times=3)
    fleet.push("good", "Short")
    fleet.push("bad", "Gated", "gate", "it failed")
    fleet.open("gate")
    assert eventually(lambda: len(fleet.of("began")) == 3 and not in_progress(fleet.redis), 30), fleet.told()
    assert eventually(lambda: proxy.hits == 3), fleet.told()
    assert eventually(lambda: fleet.redis.get("stat:processed") == b"3"), fleet.told()
    time.sleep(1)  # for a second run
    assert fleet.count("began") == {"first": 1, "good": 1, "bad": 1}
    assert fleet.redis.zcard("retry") == 1
    assert fleet.redis.get("stat:failed") == b"1"
    assert LOST_LEASE not in daemon.output, "the server remembers what it has answered"


@pytest.mark.slow
def test_jobs_that_went_into_a_half_open_connection_run_once(fleet: Fleet, proxy: Proxy) -> None:
    """The server answers and waits on; the process hears nothing, and no end of the connection either."""
    fleet.start("-q", "q", url=proxy.url).ready()
    assert eventually(lambda: proxy.commands[b"BRPOPLPUSH"])
    proxy.swallow(b"BRPOPLPUSH", Direction.REPLY, times=1)
    fleet.push("j1", "Short")
    fleet.await_run("began", "j1", within_s=30)
    assert proxy.hits == 1
    assert eventually(lambda: not in_progress(fleet.redis), 10), fleet.told()
    assert fleet.count("began") == {"j1": 1}


@pytest.mark.slow
def test_a_job_that_a_fetch_took_long_after_it_was_given_up_runs_once(fleet: Fleet, proxy: Proxy) -> None:
    """The command was on its way for longer than its sender waited, so nothing was there when it looked."""
    daemon = fleet.start("-q", "q=1", url=proxy.url).ready()
    proxy.delay(8, b"BRPOPLPUSH", Direction.COMMAND, times=1)
    assert eventually(lambda: proxy.hits == 1), fleet.told()
    daemon.says("Redis serves again")  # it gave up, looked what it has, and goes on
    fleet.push("j1", "Gated", "gate")
    fleet.await_run("began", "j1")  # from here on it fetches no more
    fleet.push("j2", "Short")
    daemon.says("their reply was lost; running them", within_s=30)
    fleet.open("gate")
    assert eventually(lambda: fleet.of("began", "j2") and not in_progress(fleet.redis)), fleet.told()
    assert fleet.count("began") == {"j1": 1, "j2": 1}


# --- schedulers

SCHEDULER = """
    import os, random, signal, sys, time
    from goworkers_py.brokers.redis.broker import RedisBroker
    from goworkers_py.config.options import Config
    from goworkers_py.core.clock import Clock
    from goworkers_py.runtime.scheduling import scheduler
    from goworkers_py.runtime.scheduling.due_hints import DueHints
    from goworkers_py.runtime.outage import Outage

    scheduler.PROMOTED_AT_ONCE = 20

    def schedule():
        config = Config(broker=sys.argv[1], poll_interval=0.01)
        store = RedisBroker(config.broker, config).store
        scheduler.Scheduler(store, config, DueHints(), Clock(), Outage("Redis")).run()

    if sys.argv[2] == "steady":
        schedule()
    while True:
        child = os.fork()
        if child == 0:
            schedule()
        time.sleep(random.uniform(0.005, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print("killed", flush=True)
"""


def test_schedulers_of_which_one_is_killed_again_and_again_lose_and_double_nothing(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    jids = [f"j{number}" for number in range(20_000)]
    for waiting, half in (("schedule", jids[::2]), ("retry", jids[1::2])):
        redis.zadd(waiting, {job(jid=jid, queue=f"q{number % 3}"): 1 + number for number, jid in enumerate(half)})
    script = tmp_path / "schedule.py"
    script.write_text(textwrap.dedent(SCHEDULER))
    killed = tmp_path / "killed"
    with ExitStack() as stack:
        stack.enter_context(running(script, redis_url, "mortal", output=killed))
        assert eventually(lambda: len(killed.read_text().split()) > 10)
        for _ in range(2):
            stack.enter_context(running(script, redis_url, "steady"))
        assert eventually(lambda: not redis.exists("schedule", "retry"), 40)
    queued = Counter(jid for number in range(3) for jid in fields(queue(redis, f"q{number}"), "jid"))
    assert queued == dict.fromkeys(jids, 1)


@pytest.mark.parametrize("payload", ["any-numbers", "gw1-escapes-and-numbers", "sk64-activejob-rails61-scheduled"])
def test_a_due_job_of_another_program_is_forwarded_with_nothing_changed_but_the_time(
    fleet: Fleet, payload: str
) -> None:
    raw = (Path(__file__).parents[1] / "wire/golden" / f"{payload}.json").read_bytes()
    name = json.loads(raw)["queue"]
    fleet.redis.zadd("schedule", {raw: 1})
    fleet.start("-q", "elsewhere").ready()
    assert eventually(lambda: queue(fleet.redis, name)), fleet.told()
    forwarded = queue(fleet.redis, name)[0]
    assert time.time() - json.loads(forwarded)["enqueued_at"] < 30
    assert _without_time(forwarded) == _without_time(raw)
    assert fleet.redis.sismember("queues", name)


def _without_time(raw: bytes) -> bytes:
    return re.sub(rb',?"enqueued_at":[\d.]+', b"", raw)  # the inner one of ActiveJob is text


def _owner(daemon: Daemon) -> str:
    """The identity of a process that is ready."""
    return re.search(r"(\S+) is processing", daemon.says("; stop it with TERM"))[1]


def _moment(line: str) -> float:
    """When a log line was written."""
    return datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    daemon.signal(signal.SIGSTOP)
    yield
    daemon.signal(signal.SIGCONT)


@contextmanager
def running(script: Path, *arguments: str, output: Path | None = None) -> Iterator[None]:
    """A program with whatever it has forked, in a process group of its own."""
    with (output or Path(os.devnull)).open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments], env=environment(), stdout=said, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
