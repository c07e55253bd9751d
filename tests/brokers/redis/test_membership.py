"""How a process of ours is shown to the fleet, and how it obeys the fleet's commands."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import begun, job, own_app, started
from daemon import Daemon
from servers import RedisServer
from waiting import eventually

from goworkers_py import __version__
from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.membership import FleetMembership
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.timing import Timing
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.system.lifecycle import SAME_REQUEST_S
from goworkers_py.wire.process_record import (
    LONGEST_PAYLOAD,
    MemberPool,
    ProcessMember,
    ProcessSnapshot,
    info,
    state,
    work,
)

KEYS = Keys()
ME = "host:12:abcdef012345"
SOON = Timing(beat_every_s=0.05)
MEMBER = ProcessMember(1700000000.5, [MemberPool("mail", 5, {"mail": 0}), MemberPool("low", 2, {"low": 0})], "web")
JOBS = """
import os
import time
import goworkers_py as workers
from goworkers_py.core.timing import Timing

workers.app.timing = Timing(beat_every_s=0.2)

@workers.job("Long", queue="q")
def long(gate):
    while gate and not os.path.exists(gate):
        time.sleep(0.01)
"""


def moment(**changes: Any) -> ProcessSnapshot:
    now = {"running": {}, "quiet": False, "rss": 2**20, "round_trip_s": 0.0004, "at": 1700000001.9, "embedded": False}
    return ProcessSnapshot(**{**now, **changes})


@pytest.fixture
def membership(redis_url: str) -> Iterator[FleetMembership]:
    connections = Connections(redis_url)
    yield FleetMembership(connections, Keys())
    connections.close()


def told(redis: redis_py.Redis, identity: str) -> dict[str, Any]:
    fields = {name.decode(): value.decode() for name, value in redis.hgetall(identity).items()}
    return fields | {"info": json.loads(fields["info"])} if fields else {}


def members(redis: redis_py.Redis) -> list[str]:
    return sorted(member.decode() for member in redis.smembers("processes"))


# --- what is told


def test_the_entry_has_what_every_version_of_sidekiq_and_go_workers_looks_for() -> None:
    told = state(ME, MEMBER, moment(quiet=True, running={"worker:mail:1": begun(Delivery(b"", "mail", ME), 1.0)}))
    assert json.loads(str(told.pop("info"))) == {
        "hostname": "host",
        "started_at": 1700000000.5,
        "pid": 12,
        "tag": "web",
        "concurrency": 7,
        "queues": ["mail", "low"],
        "weights": [{"mail": 0}, {"low": 0}],
        "labels": ["python"],
        "identity": ME,
        "version": f"pyworkers {__version__}",
        "embedded": False,
        "pyworkers": {"v": 1, "commands": []},
        "capsules": {
            "mail": {"concurrency": 5, "mode": "strict", "weights": {"mail": 0}},
            "low": {"concurrency": 2, "mode": "strict", "weights": {"low": 0}},
        },
    }
    assert told == {
        "concurrency": 7, "busy": 1, "beat": 1700000001, "quiet": "true", "rss": 1024, "rtt_us": 400,
        "worker_heartbeats": "[]", "manager_priority": -(2**31), "standby": "", "cpu_share": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "mode"),
    [((0, 0, 0), "strict"), ((6, 3, 1), "weighted"), ((1, 1, 1), "random"), ((2, 2, 2), "weighted")],
)
def test_a_pool_is_a_capsule_and_its_threads_are_counted_once(weights: tuple[int, ...], mode: str) -> None:
    of_queues = dict(zip(("critical", "default", "low"), weights, strict=True))
    told = json.loads(info(ME, ProcessMember(1.0, [MEMBER.pools[0], MemberPool("web", 20, of_queues)]), embedded=False))
    assert (told["concurrency"], told["queues"]) == (25, ["mail", "critical", "default", "low"])
    assert told["weights"] == [{"mail": 0}, of_queues]
    assert told["capsules"]["web"] == {"concurrency": 20, "mode": mode, "weights": of_queues}


def test_the_entry_tells_the_partition_and_the_commands_where_other_programs_do_not_look() -> None:
    member = ProcessMember(1.0, MEMBER.pools, commands=["quiet"], partition="billing")
    told = json.loads(info(ME, member, embedded=False))
    assert told["pyworkers"] == {"v": 1, "commands": ["quiet"], "partition": "billing"}
    assert told.keys() == json.loads(info(ME, MEMBER, embedded=False)).keys()


def test_the_entry_of_an_embedded_process_says_so() -> None:
    assert json.loads(info(ME, MEMBER, embedded=True))["embedded"] is True


def test_running_payloads_are_shown_as_they_were_fetched_and_unreadable_ones_are_left_out() -> None:
    raw = '{"class":"Ünï", "args":[1.0e+16],"jid":"a"}'.encode()
    running = {
        "worker:q:1": begun(Delivery(raw, "q", ME), 1700000000.9),
        "worker:q:2": begun(Delivery(b"{broken", "q", ME), 1700000000.9),
    }
    told = work(running)
    assert list(told) == ["worker:q:1"]
    assert json.loads(told["worker:q:1"]) == {"queue": "q", "payload": raw.decode(), "run_at": 1700000000}


def test_of_a_very_long_payload_the_arguments_are_not_shown() -> None:
    raw = job("Long", "x" * LONGEST_PAYLOAD, jid="1", secret=[1])
    told = json.loads(work({"worker:q:1": begun(Delivery(raw, "q", ME), 1.0)})["worker:q:1"])
    assert json.loads(told["payload"]) == {
        "class": "Long", "jid": "1", "queue": "q", "args": [f"{len(raw):,} bytes, too long to be shown here"],
    }  # fmt: skip


# --- where it stands, and for how long


def test_the_hash_of_a_process_expires_without_beats(membership: FleetMembership, redis: redis_py.Redis) -> None:
    membership.meet(ME, MEMBER, moment(running={"worker:q:1": begun(Delivery(job(), "q", ME), 1.0)}))
    assert members(redis) == [ME]
    assert 0 < redis.ttl(ME) <= 300
    assert [0 < redis.ttl(key) <= 60 for key in (f"{ME}:work", f"{ME}:workers")] == [True] * 2
    assert redis.hkeys(f"{ME}:work") == redis.hkeys(f"{ME}:workers") == [b"worker:q:1"]


def test_ended_jobs_are_no_longer_shown_as_running(membership: FleetMembership, redis: redis_py.Redis) -> None:
    membership.meet(ME, MEMBER, moment(running={"worker:q:1": begun(Delivery(job(), "q", ME), 1.0)}))
    membership.meet(ME, MEMBER, moment())
    assert not redis.exists(f"{ME}:work", f"{ME}:workers")


def test_a_new_identity_replaces_the_old_one_in_the_fleet(membership: FleetMembership, redis: redis_py.Redis) -> None:
    membership.meet("host:12:000000000000", MEMBER, moment())
    membership.meet(ME, MEMBER, moment())
    assert members(redis) == [ME]


def unchanged(found: FoundJob) -> RecoveryDecision:
    return RecoveryDecision(found.payload)


def dies(url: str, namespace: str = "") -> RedisBroker:
    """Shows a process whose lease then expires. Returns the broker of another process."""
    keys, config = Keys(namespace), Config(namespace=namespace)
    with closing(RedisBroker(url, config)) as broker:
        broker.recoverable.beat(Presence(ME, {"q": 0}))
    with redis_py.Redis.from_url(url) as redis:
        redis.delete(keys.lease(ME))
    connections = Connections(url)
    FleetMembership(connections, keys).meet(
        ME, MEMBER, moment(running={"worker:q:1": begun(Delivery(job(), "q", ME), 1.0)})
    )
    connections.close()
    return RedisBroker(url, config)


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_a_process_that_is_declared_dead_leaves_the_fleet(
    redis_url: str, redis: redis_py.Redis, namespace: str
) -> None:
    keys = Keys(namespace)
    redis.lpush(keys.signals(ME), "TSTP")
    with closing(dies(redis_url, namespace)) as heir:
        assert redis.exists(keys.member(ME))
        list(heir.recoverable.recover("heir", unchanged, proof=""))
    left = (keys.owners, keys.gone, keys.process_cleanup, keys.member(ME))
    assert sorted(redis.keys()) == sorted(key.encode() for key in left)
    assert 0 < redis.ttl(keys.member(ME)) <= 300


@pytest.mark.parametrize("name", ["dead", "retry", "schedule", "queues", "stat:processed", "queue:q"])
def test_an_owner_whose_name_is_that_of_another_key_does_not_delete_that_key(
    redis_url: str, redis: redis_py.Redis, name: str
) -> None:
    redis.set(name, "of others")
    redis.hset(KEYS.owners, name, '{"v":1,"queues":{"q":1},"trial":"","origin":{}}')
    with closing(RedisBroker(redis_url, Config())) as heir:
        list(heir.recoverable.recover("heir", unchanged, proof=""))
    assert redis.get(name) == b"of others"
    assert redis.hexists(KEYS.gone, name)


def test_jobs_are_recovered_also_when_the_access_rules_refuse_the_keys_of_the_fleet(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis = own_redis.client()
    redis.execute_command("ACL", "SETUSER", "walled", "on", ">secret", "~queue*", "~stat:*", "~pyworkers:*", "+@all")
    redis.execute_command("ACL", "SETUSER", "walled", "~retry", "~schedule", "~dead")
    dies(own_redis.url).close()
    redis.lpush(KEYS.inprogress("q", ME), job())
    with closing(RedisBroker(own_redis.url.replace("//", "//walled:secret@"), Config())) as heir:
        assert len(list(heir.recoverable.recover("heir", unchanged, proof=""))) == 1
    assert redis.llen("queue:q") == 1
    assert "cannot be removed from the fleet" in caplog.text


def test_after_leave_only_the_hash_of_the_process_is_left_for_minutes(
    membership: FleetMembership, redis: redis_py.Redis
) -> None:
    """go-workers2 may have read the identity just before; its heartbeat ends for good when the hash is missing."""
    membership.meet(ME, MEMBER, moment(running={"worker:q:1": begun(Delivery(job(), "q", ME), 1.0)}))
    redis.lpush(f"{ME}-signals", "TSTP")
    membership.leave()
    assert set(redis.keys()) <= {b"process_cleanup", ME.encode()}
    assert 0 < redis.ttl(ME) <= 300


def test_the_namespace_is_before_every_key(redis_url: str, redis: redis_py.Redis) -> None:
    connections = Connections(redis_url)
    FleetMembership(connections, Keys("ns")).meet(ME, MEMBER, moment())
    connections.close()
    assert sorted(redis.keys()) == sorted([f"ns:{ME}".encode(), b"ns:process_cleanup", b"ns:processes"])
    assert redis.smembers("ns:processes") == {ME.encode()}


def test_identities_whose_hash_has_expired_leave_the_set_once_a_minute(redis_url: str, redis: redis_py.Redis) -> None:
    connections = Connections(redis_url)
    redis.sadd("processes", "gone:1:000000000000", b"\xff", "live:1:000000000000")
    redis.hset("live:1:000000000000", "info", "{}")
    FleetMembership(connections, Keys()).meet(ME, MEMBER, moment())
    assert members(redis) == [ME, "live:1:000000000000"]
    assert 0 < redis.ttl("process_cleanup") <= 60
    redis.sadd("processes", "gone:1:000000000000")
    FleetMembership(connections, Keys()).meet(ME, MEMBER, moment())  # another process did it just now
    assert "gone:1:000000000000" in members(redis)
    connections.close()


def test_commands_come_in_the_order_in_which_they_were_sent(membership: FleetMembership, redis: redis_py.Redis) -> None:
    for word in ("TSTP", "TTIN", "TERM"):
        redis.lpush(f"{ME}-signals", word)
    assert membership.meet(ME, MEMBER, moment()) == ["TSTP", "TTIN", "TERM"]
    assert membership.meet(ME, MEMBER, moment()) == []


@pytest.mark.usefixtures("server_program")
def test_a_full_server_refuses_the_entry_and_commands_still_come() -> None:
    server = RedisServer(appendonly="no", maxmemory="2mb")
    connections = Connections(server.url)
    try:
        client = server.client()
        client.lpush(f"{ME}-signals", "TSTP")
        with suppress(redis_py.RedisError):
            for _ in range(100):
                client.append("ballast", b"x" * 100_000)
        assert FleetMembership(connections, Keys()).meet(ME, MEMBER, moment()) == ["TSTP"]
        assert not client.exists("processes")
    finally:
        connections.close()
        server.close()


# --- a whole process


def test_a_process_is_shown_from_its_start_to_its_end(redis_url: str, redis: redis_py.Redis) -> None:
    gate = threading.Event()
    with own_app(redis_url, timing=SOON, tag="tagged") as app:
        app.process("a", lambda message: gate.wait(20), 2)
        with started(app) as launcher:
            assert eventually(lambda: members(redis) == [launcher.identity])
            redis.lpush("queue:a", job("Shown", jid="1"))
            assert eventually(lambda: redis.hlen(f"{launcher.identity}:work") == 1)
            ((thread, run),) = redis.hgetall(f"{launcher.identity}:work").items()
            assert thread in (b"worker:a:1", b"worker:a:2")
            assert json.loads(json.loads(run)["payload"])["jid"] == "1"
            entry = told(redis, launcher.identity)
            assert (entry["busy"], entry["quiet"], entry["concurrency"]) == ("1", "false", "2")
            assert entry["info"]["tag"] == "tagged"
            assert entry["info"]["embedded"] is True
            assert int(entry["rss"]) > 1000
            assert int(entry["rtt_us"]) > 0
            assert abs(entry["info"]["started_at"] - time.time()) < 60
            launcher.quiet()
            assert eventually(lambda: told(redis, launcher.identity)["quiet"] == "true")
            gate.set()
            assert launcher.stop()
            assert redis.keys(f"{launcher.identity}?*") == []
            assert members(redis) == []


def test_an_embedded_process_ignores_the_commands_of_the_fleet(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, timing=SOON) as app:
        app.process("a", print, 1)
        with started(app) as launcher:
            redis.lpush(f"{launcher.identity}-signals", "TSTP", "TERM")
            assert eventually(lambda: not redis.exists(f"{launcher.identity}-signals"))
            assert not launcher.state.quiet
            assert not caplog.records


def test_a_process_that_continues_under_a_new_identity_is_shown_under_that_identity(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_app(redis_url, timing=SOON) as app:
        app.process("a", print, 1)
        with started(app) as launcher:
            before = launcher.identity
            assert eventually(lambda: members(redis) == [before])
            redis.hset("pyworkers:gone", before, int(time.time()) + 1000)
            assert eventually(lambda: launcher.identity != before and members(redis) == [launcher.identity])


def test_without_the_permission_it_warns_once_and_its_jobs_run(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis = own_redis.client()
    redis.execute_command("ACL", "SETUSER", "walled", "on", ">secret", "~queue*", "~stat:*", "~pyworkers:*", "+@all")
    redis.execute_command("ACL", "SETUSER", "walled", "~retry", "~schedule", "~dead")
    with own_app(own_redis.url.replace("//", "//walled:secret@"), timing=SOON) as app:
        done = threading.Event()
        app.process("q", lambda message: done.set(), 1)
        with caplog.at_level(logging.WARNING), started(app) as launcher:
            redis.lpush("queue:q", job())
            assert done.wait(20)
            assert eventually(lambda: int(redis.get(KEYS.lease(launcher.identity))) > 3)  # the number of its beat
            assert not launcher.health.report()["cut_off"]
            assert launcher.stop()
    for told in ("shown to the fleet", "which queues are paused"):
        warnings = [record.getMessage() for record in caplog.records if told in record.getMessage()]
        assert len(warnings) == 1
        assert "`pyworkers doctor --acl` prints all" in warnings[0]
    assert not redis.exists("processes")


def test_damaged_keys_of_the_fleet_stop_neither_the_beat_nor_the_commands(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    redis.sadd("processes", "ruby:1:aa", "ruby:2:bb", "ruby:3:cc")
    for identity, told_there in (("ruby:1:aa", "[" * 100_000), ("ruby:2:bb", "[1]"), ("ruby:3:cc", '{"version": {}}')):
        redis.hset(identity, mapping={"info": told_there, "beat": "x"})
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as daemon:
        daemon.ready()
        redis.lpush("queue:q", job("Long", ""))
        mine = eventually(lambda: [identity for identity in members(redis) if "ruby" not in identity])
        redis.lpush(f"{mine[0]}-signals", "TERM")
        assert daemon.wait() == 0
        assert " CRITICAL" not in daemon.output


# --- Quiet and Stop


def test_commands_of_the_fleet_are_obeyed(redis_url: str, redis: redis_py.Redis, tmp_path: Path) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-t", "40") as daemon:
        daemon.ready()
        redis.lpush("queue:q", job("Long", "gate"))
        (identity,) = eventually(lambda: members(redis))
        assert eventually(lambda: redis.exists(f"{identity}:work"))
        redis.lpush(f"{identity}-signals", "TTIN", "HUH", "TSTP")
        daemon.says("thread worker:q:1 runs class=Long")
        daemon.says("unknown command HUH")
        daemon.says("quiet: no new jobs are fetched")
        assert eventually(lambda: told(redis, identity)["quiet"] == "true")
        redis.lpush("queue:q", job("Long", ""))
        redis.lpush(f"{identity}-signals", "TERM")
        daemon.says("stopping: running jobs have")
        time.sleep(SAME_REQUEST_S)
        redis.lpush(f"{identity}-signals", "TERM")  # clicked again: the job must run to its end all the same
        assert eventually(lambda: daemon.output.count("the fleet asks: stop") == 2)
        (tmp_path / "gate").touch()
        assert daemon.wait() == 0
        assert "not waiting for running jobs" not in daemon.output
        assert (redis.get("stat:processed"), redis.llen("queue:q")) == (b"1", 1)
        assert members(redis) == []
        assert redis.keys(f"{identity}?*") == []


def test_each_child_is_a_member_and_the_parent_replaces_one_that_the_fleet_stops(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "--processes", "2") as parent:
        assert eventually(lambda: len(members(redis)) == 2), parent.output
        first, second = members(redis)
        assert first.split(":")[1] != second.split(":")[1]
        redis.lpush(f"{first}-signals", "TERM")
        parent.says("exited with 0 unexpectedly; starting a replacement")
        assert eventually(lambda: len(members(redis)) == 2 and first not in members(redis)), parent.output
        assert second in members(redis)
        assert parent.stop() == 0, parent.output
        assert members(redis) == [], parent.output
