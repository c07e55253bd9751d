"""What the doctor finds, on servers that have it, and that it changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis as redis_py
from apps import job
from calls import Call
from daemon import Daemon
from servers import RedisServer
from test_acl import COMMANDS, OPTIONAL, PATTERNS, RULES

from goworkers_py.access import probes
from goworkers_py.connection import Connections
from goworkers_py.inspect import doctor as doctor_module
from goworkers_py.inspect.doctor import Doctor, Finding
from goworkers_py.keys import Keys

DEAD = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})


@pytest.fixture
def connections(redis_url: str) -> Iterator[Connections]:
    with closing(Connections(redis_url)) as connections:
        yield connections


def findings(connections: Connections, check: str) -> list[Finding]:
    return [one for one in Doctor(connections, Keys(), None).findings() if one.check == check]


def the_only(found: list[Finding]) -> Finding:
    [one] = found
    return one


# --- the server


def test_a_server_that_keeps_jobs_needs_no_mending(own_redis: RedisServer, call: Call) -> None:
    own_redis.client().config_set("appendonly", "yes")
    done = call("doctor", "--redis", own_redis.url, "--skip", "round-trip")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to mend\n", "")
    assert call("doctor", "--redis", own_redis.url, "--json", "--skip", "round-trip").stdout == ""


def test_a_server_that_evicts_is_a_problem(own_redis: RedisServer, call: Call) -> None:
    own_redis.client().config_set("maxmemory-policy", "allkeys-lru")
    done = call("doctor", "--redis", own_redis.url)
    assert done.returncode == 1
    assert (
        "problem (eviction): the server throws jobs away when its memory is full (maxmemory-policy allkeys-lru); "
        "set maxmemory-policy noeviction" in done.stdout.splitlines()
    )


def test_what_the_server_keeps_on_disk_is_told(own_redis: RedisServer) -> None:
    client = own_redis.client()
    with closing(Connections(own_redis.url)) as connections:
        client.config_set("appendonly", "no")
        client.config_set("save", "")
        found = the_only(findings(connections, "persistence"))
        assert (found.problem, found.todo) == (True, "set appendonly yes")
        client.config_set("save", "3600 1")
        found = the_only(findings(connections, "persistence"))
        assert (found.problem, found.todo) == (False, "set appendonly yes")
        client.config_set("appendonly", "yes")
        assert findings(connections, "persistence") == []


def test_a_server_that_is_too_old_is_a_problem(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Doctor, "_info", lambda doctor, section: {"redis_version": "6.0.16"})
    assert the_only(findings(connections, "version")).what == "the server is of version 6.0.16"
    told = {"redis_version": "6.0.0", "valkey_version": "8.1.0"}
    monkeypatch.setattr(Doctor, "_info", lambda doctor, section: told)
    assert findings(connections, "version") == []


def test_a_server_that_is_slow_to_answer_is_noted(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "SLOW_PING_S", 0)
    assert not the_only(findings(connections, "round-trip")).problem


@pytest.mark.parametrize(("off_s", "found"), [(0, 0), (30, 1), (-30, 1)])
def test_a_clock_that_is_off_is_a_problem(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, off_s: float, found: int
) -> None:
    shifted = SimpleNamespace(time=lambda: time.time() + off_s, perf_counter=time.perf_counter)
    monkeypatch.setattr(doctor_module, "time", shifted)
    assert len(findings(connections, "clock")) == found


def test_permissions_are_asked_for_without_doing_anything(redis: redis_py.Redis, connections: Connections) -> None:
    assert findings(connections, "permissions") == []
    assert redis.keys() == []


@pytest.fixture(scope="module")
def walled() -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


def as_user(server: RedisServer, *rules: str) -> Connections:
    server.client().execute_command("ACL", "SETUSER", *rules)
    name, password = RULES[0], next(word for word in RULES if word.startswith(">"))[1:]
    return Connections(server.url.replace("//", f"//{name}:{password}@"))


def test_under_the_documented_rules_nothing_is_missing_and_the_rest_is_noted(walled: RedisServer) -> None:
    with closing(as_user(walled, *RULES)) as connections:
        told = list(Doctor(connections, Keys(), None).findings())
    assert [one for one in told if one.check == "permissions"] == []
    refused = {one.check for one in told if one.what.startswith("this could not be looked at")}
    assert {"version", "eviction", "persistence", "go-workers"} <= refused
    assert not [one for one in told if one.problem and one.check in refused]


def test_every_documented_command_is_asked_for() -> None:
    asked = {"|".join(map(str, words[:2] if words[0] == "CLIENT" else words[:1])).lower() for words in probes(Keys())}
    documented = {word[1:] for word in COMMANDS} - OPTIONAL - {"client|setname", "multi", "exec"}
    assert documented <= asked


@pytest.mark.parametrize("missing", [*(word for word in PATTERNS), "+lpush", "+evalsha", "+client|unblock", "+multi"])
def test_a_permission_that_is_missing_is_a_problem(walled: RedisServer, missing: str) -> None:
    rules = [word for word in RULES if word != missing]
    if missing.startswith("+"):
        rules.append(f"-{missing[1:]}")
    with closing(as_user(walled, *rules)) as connections:
        found = findings(connections, "permissions")
    assert found
    assert all(one.problem and one.todo == "grant what `pyworkers doctor --acl` prints" for one in found)
    if missing.startswith("+") and missing != "+multi":
        assert the_only(found).what.lower().startswith(missing[1:].replace("|", " "))


# --- the jobs


def test_queues_that_nobody_works_and_classes_that_nobody_knows_are_problems(
    redis_url: str, redis: redis_py.Redis, call: Call, tmp_path: Path
) -> None:
    redis.sadd("queues", "idle", "q", "rails", "resting", "empty")
    redis.lpush("queue:idle", job(), job())
    redis.lpush("queue:resting", job())
    redis.lpush("queue:rails", job("Ruby::Only"))
    redis.sadd("paused", "q", "resting")
    redis.lpush("queue:q", job("Quick"), job("Slow"), job("Slow"))
    redis.sadd("processes", "rails:1:a")
    redis.hset("rails:1:a", mapping={"info": '{"queues":["rails"]}'})
    folder = tmp_path / "daemon"
    folder.mkdir()
    with Daemon(folder, redis_url, "", "-q", "q").ready():
        done = call("doctor", "-r", "jobs", "--redis", redis_url)
    lines = [line for line in done.stdout.splitlines() if "(queues)" in line or "(classes)" in line]
    assert lines == [
        "problem (queues): queue idle holds 2 jobs and no process works it; start one that does",
        "note (queues): queue q is paused and holds 3 jobs; pyworkers queue resume q",
        "note (queues): queue resting is paused and holds 1 job; pyworkers queue resume resting",
        (
            "problem (classes): no code is registered for class Slow of 2 jobs waiting in queue q; "
            "name its module in require, or let another queue have it"
        ),
    ]


def test_a_queue_with_a_handler_knows_every_class(
    redis_url: str, redis: redis_py.Redis, call: Call, here: Path
) -> None:
    redis.sadd("queues", "q")
    redis.lpush("queue:q", job("Anything"))
    (here / "conf.ini").write_text("[queue:q]\nhandler = jobs:quick\n")
    done = call("doctor", "-c", "conf.ini", "--redis", redis_url, "--json")
    assert "classes" not in {json.loads(line)["check"] for line in done.stdout.splitlines()}


def test_every_module_that_does_not_import_is_told(redis_url: str, call: Call, here: Path) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    done = call("doctor", "-r", "nowhere, broken", "--redis", redis_url)
    told = [line for line in done.stdout.splitlines() if "(modules)" in line]
    assert done.returncode == 1
    assert [line.partition("(modules): ")[2][:40] for line in told] == [
        "require: there is no module 'nowhere' in", "require: module 'broken' cannot be impor",
    ]  # fmt: skip
    (here / "conf.ini").write_text("[middleware]\nappend = jobs:nothing\n")
    done = call("doctor", "-c", "conf.ini", "--redis", redis_url)
    assert "[middleware] append: module 'jobs' has no 'nothing'" in done.stdout


def test_jobs_that_the_dead_hold_are_a_problem(redis: redis_py.Redis, connections: Connections) -> None:
    redis.hset("pyworkers:owners", mapping={"dead:1:x": DEAD, "lives:2:y": DEAD, "left:3:z": DEAD})
    redis.set("pyworkers:lease:lives:2:y", 1)
    redis.lpush("queue:q:dead:1:x:inprogress", job(), job())
    redis.lpush("queue:q:lives:2:y:inprogress", job())
    found = the_only(findings(connections, "in-progress"))
    assert found == Finding("in-progress", True, "dead:1:x is dead and holds 2 jobs", "pyworkers recover")
    assert findings(connections, "go-workers") == []


def test_what_go_workers_left_is_offered(redis: redis_py.Redis, connections: Connections) -> None:
    redis.lpush("queue:q:7:inprogress", job())
    found = the_only(findings(connections, "go-workers"))
    assert found.what == "process 7 of go-workers holds 1 job of queue q"
    assert found.todo == "when it has ended: pyworkers recover --go-workers 7"


def test_payloads_that_cannot_be_read_are_told_where_they_lie(redis: redis_py.Redis, connections: Connections) -> None:
    redis.sadd("queues", "q")
    redis.lpush("queue:q", b"{no job", job(), b"[]")
    redis.zadd("retry", {b"\xff": 1})
    redis.zadd("dead", {b"{": 1})
    assert [(one.problem, one.what) for one in findings(connections, "unreadable")] == [
        (True, "queue q holds 2 jobs that nobody can read"),
        (True, "retries holds 1 job that nobody can read"),
        (False, "dead holds 1 job that nobody can read"),
    ]


def test_a_key_of_another_type_hides_nothing_else(redis: redis_py.Redis, connections: Connections) -> None:
    redis.set("retry", "no set")
    redis.lpush("queue:q:7:inprogress", job())
    told = list(Doctor(connections, Keys(), None).findings())
    assert "go-workers" in {one.check for one in told}
    assert not [one for one in told if "could not be looked at" in one.what]


def test_a_key_of_another_type_is_named(redis: redis_py.Redis, call: Call, redis_url: str) -> None:
    redis.set("retry", "no set")
    redis.sadd("queues", "mail")
    redis.set("queue:mail", "no list")
    redis.set("stat:processed", "1,000")
    assert [line for line in call("doctor", "--redis", redis_url).stdout.splitlines() if "(types)" in line] == [
        f"problem (types): key {what} belongs; some other program wrote it: rename or delete it"
        for what in ("retry is a string, where a sorted set", "queue:mail is a string, where a list")
    ] + ["problem (types): key stat:processed holds no number, so nothing is counted there; delete it"]


def test_without_a_server_the_exit_code_is_75(call: Call) -> None:
    assert call("doctor", "--redis", "redis://127.0.0.1:1/0").returncode == 75
