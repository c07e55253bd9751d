"""The doctor's findings on real servers with each problem. It changes nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from access_rules import COMMANDS, OPTIONAL, PATTERNS, RULES
from apps import job, own_app
from calls import Call
from daemon import Daemon
from other_machine import other_machine
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.admin import doctor as doctor_module
from goworkers_py.admin.doctor import Doctor, Finding
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.long_runs import long_runs
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.server import checks
from goworkers_py.brokers.redis.server.access import probes
from goworkers_py.core.errors import NoSuchDatabase
from goworkers_py.observe.health_report import OF_SUSPECT

DEAD = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})


def findings(inspector: Inspector, check: str) -> list[Finding]:
    return [one for one in Doctor(inspector, None).findings() if one.check == check]


def only(found: list[Finding]) -> Finding:
    [one] = found
    return one


# --- the server


def test_nothing_is_found_on_a_server_that_keeps_jobs(own_redis: RedisServer, call: Call) -> None:
    own_redis.client().config_set("appendonly", "yes")
    done = call("doctor", "--redis", own_redis.url, "--skip", "round-trip")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no findings\n", "")
    assert call("doctor", "--redis", own_redis.url, "--json", "--skip", "round-trip").stdout == ""


def test_a_server_that_evicts_is_a_problem(own_redis: RedisServer, call: Call) -> None:
    own_redis.client().config_set("maxmemory-policy", "allkeys-lru")
    done = call("doctor", "--redis", own_redis.url)
    assert done.returncode == 1
    assert (
        "problem (eviction): the server evicts jobs when its memory is full (maxmemory-policy allkeys-lru); "
        "set maxmemory-policy noeviction" in done.stdout.splitlines()
    )


def test_a_full_server_is_a_problem_and_hides_no_other_check(own_redis: RedisServer, call: Call) -> None:
    client = own_redis.client()
    client.rpush("queue:mail", "not json")
    client.sadd("queues", "mail")
    client.config_set("maxmemory", 1)  # of a server that needs a megabyte for itself
    done = call("doctor", "--redis", own_redis.url)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(
        r"^problem \(memory\): the server uses [\d,]+% of its memory \(maxmemory 1 byte", done.stdout, re.M
    )
    assert "note (permissions): this check could not run: command not allowed when used memory" in done.stdout
    assert "queue mail holds 1 unreadable job" in done.stdout


def test_a_server_with_room_or_without_a_limit_is_no_finding(own_redis: RedisServer) -> None:
    client = own_redis.client()
    with own_app(own_redis.url) as app:
        for limit in ("0", "1gb"):
            client.config_set("maxmemory", limit)
            assert findings(app.inspector, "memory") == []


def test_a_server_without_an_append_only_file_is_found(own_redis: RedisServer) -> None:
    client = own_redis.client()
    with own_app(own_redis.url) as app:
        client.config_set("appendonly", "no")
        client.config_set("save", "")
        found = only(findings(app.inspector, "persistence"))
        assert (found.problem, found.todo) == (True, "set appendonly yes")
        client.config_set("save", "3600 1")
        found = only(findings(app.inspector, "persistence"))
        assert (found.problem, found.todo) == (False, "set appendonly yes")
        client.config_set("appendonly", "yes")
        assert findings(app.inspector, "persistence") == []


def test_a_server_that_is_too_old_is_a_problem(inspector: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "info_of", lambda connections, section: {"redis_version": "6.0.16"})
    assert only(findings(inspector, "version")).what == "the server has version 6.0.16"
    told = {"redis_version": "6.0.0", "valkey_version": "8.1.0"}
    monkeypatch.setattr(checks, "info_of", lambda connections, section: told)
    assert findings(inspector, "version") == []


def test_a_server_that_is_slow_to_answer_is_noted(own_redis: RedisServer) -> None:
    with Proxy(own_redis.port) as proxy, own_app(proxy.url) as app:
        proxy.delay(0.03, b"PING")
        found = only(findings(app.inspector, "round-trip"))
    assert not found.problem
    assert re.fullmatch(r"the server takes \d\d+ ms to answer", found.what)


@pytest.mark.parametrize(("off_s", "found"), [(0, 0), (30, 1), (-30, 1)])
def test_clocks_that_differ_by_30_seconds_are_a_problem(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch, off_s: float, found: int
) -> None:
    monkeypatch.setattr(checks, "machine", other_machine(time=lambda: time.time() + off_s))
    assert len(findings(inspector, "clock")) == found


def test_the_check_of_permissions_writes_no_key(redis: redis_py.Redis, inspector: Inspector) -> None:
    assert findings(inspector, "permissions") == []
    assert redis.keys() == []


@pytest.fixture(scope="module")
def server_with_acl(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


@contextmanager
def as_user(server: RedisServer, *rules: str) -> Iterator[Inspector]:
    server.client().execute_command("ACL", "SETUSER", *rules)
    name, password = RULES[0], next(word for word in RULES if word.startswith(">"))[1:]
    with own_app(server.url.replace("//", f"//{name}:{password}@")) as app:
        yield app.inspector


def test_under_the_documented_rules_no_permission_is_missing_and_checks_that_need_more_are_notes(
    server_with_acl: RedisServer,
) -> None:
    with as_user(server_with_acl, *RULES) as inspector:
        told = list(Doctor(inspector, None).findings())
    assert [one for one in told if one.check == "permissions"] == []
    refused = {one.check for one in told if one.what.startswith("this check could not run")}
    assert {"version", "eviction", "persistence", "go-workers"} <= refused
    assert not [one for one in told if one.problem and one.check in refused]


def test_the_check_of_permissions_covers_every_documented_command() -> None:
    asked = {"|".join(map(str, words[:2] if words[0] == "CLIENT" else words[:1])).lower() for words in probes(Keys())}
    documented = (
        {word[1:] for word in COMMANDS} - OPTIONAL - {"client|setname", "multi", "exec", "subscribe", "unsubscribe"}
    )
    assert documented <= asked


@pytest.mark.parametrize("missing", [*(word for word in PATTERNS), "+lpush", "+evalsha", "+client|unblock", "+multi"])
def test_a_permission_that_is_missing_is_a_problem(server_with_acl: RedisServer, missing: str) -> None:
    rules = [word for word in RULES if word != missing]
    if missing.startswith("+"):
        rules.append(f"-{missing[1:]}")
    with as_user(server_with_acl, *rules) as inspector:
        found = findings(inspector, "permissions")
    assert found
    assert all(one.problem and one.todo == "grant what `pyworkers doctor --acl` prints" for one in found)
    if missing.startswith("+") and missing != "+multi":
        assert only(found).what.lower().startswith(missing[1:].replace("|", " "))


# --- the jobs


def test_queues_without_a_process_and_classes_without_code_are_problems(
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
        (
            "problem (queues): queue idle holds 2 jobs, but no live process fetches from it; "
            "start a process for this queue: pyworkers run -q idle -r MODULE"
        ),
        "note (queues): queue q is paused and holds 3 jobs; pyworkers queue resume q",
        "note (queues): queue resting is paused and holds 1 job; pyworkers queue resume resting",
        (
            "problem (classes): no code is registered for class Slow: 2 jobs waiting in queue q; "
            "add its module to `require`, or push this class to another queue"
        ),
    ]


def test_echoes_that_nobody_works_need_a_ruby_process(
    redis_url: str, redis: redis_py.Redis, call: Call, here: Path
) -> None:
    redis.sadd("queues", "echoes")
    redis.lpush("queue:echoes", job())
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\n[echo]\nqueue = echoes\n")
    done = call("doctor", "-c", "conf.ini", "--redis", redis_url)
    assert "fetches from it; start a Ruby process that works it: it holds echoes\n" in done.stdout


def test_a_queue_with_a_handler_knows_every_class(
    redis_url: str, redis: redis_py.Redis, call: Call, here: Path
) -> None:
    redis.sadd("queues", "q")
    redis.lpush("queue:q", job("Anything"))
    (here / "conf.ini").write_text("[queue:q]\nhandler = jobs:quick\n")
    done = call("doctor", "-c", "conf.ini", "--redis", redis_url, "--json")
    assert "classes" not in {json.loads(line)["check"] for line in done.stdout.splitlines()}


def test_without_any_module_no_class_is_said_to_have_no_code(redis_url: str, redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "default")
    redis.lpush("queue:default", job("OfAnotherConfiguration"))
    told = [json.loads(line)["check"] for line in call("doctor", "--redis", redis_url, "--json").stdout.splitlines()]
    assert "queues" in told
    assert "classes" not in told


def test_every_module_that_cannot_be_imported_is_reported(redis_url: str, call: Call, here: Path) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    (here / "script.py").write_text("raise SystemExit(0)\n")
    done = call("doctor", "-r", "nowhere, broken, script", "--redis", redis_url)
    told = [line for line in done.stdout.splitlines() if "(modules)" in line]
    assert done.returncode == 1
    assert [line.partition("(modules): ")[2][:40] for line in told] == [
        "require: there is no module 'nowhere' in", "require: module 'broken' cannot be impor",
        "require: module 'script' cannot be impor",
    ]  # fmt: skip
    (here / "conf.ini").write_text("[middleware]\nappend = jobs:nothing\n")
    done = call("doctor", "-c", "conf.ini", "--redis", redis_url)
    assert "[middleware] append: module 'jobs' has no 'nothing'" in done.stdout


def test_jobs_in_progress_of_a_dead_process_are_a_problem(redis: redis_py.Redis, inspector: Inspector) -> None:
    redis.hset("pyworkers:owners", mapping={"dead:1:x": DEAD, "lives:2:y": DEAD, "left:3:z": DEAD})
    redis.set("pyworkers:lease:lives:2:y", 1)
    redis.lpush("queue:q:dead:1:x:inprogress", job(), job())
    redis.lpush("queue:q:lives:2:y:inprogress", job())
    found = only(findings(inspector, "in-progress"))
    what = "process dead:1:x is dead and has 2 jobs in progress"
    assert found == Finding("in-progress", True, what, "to recover them now: pyworkers recover")
    assert findings(inspector, "go-workers") == []


def test_jobs_in_a_list_of_go_workers_are_a_problem(redis: redis_py.Redis, inspector: Inspector) -> None:
    redis.lpush("queue:q:7:inprogress", job())
    found = only(findings(inspector, "go-workers"))
    assert found.what == "process 7 of go-workers holds 1 job of queue q"
    assert found.todo == "if it has ended: pyworkers recover --go-workers 7"


def test_the_jobs_of_a_go_workers_process_that_lives_are_no_finding(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    redis.lpush("queue:q:7:inprogress", job())
    redis.sadd("processes", "go")
    heartbeats = json.dumps([{"pid": "1", "in_progress_queue": '"q:7:inprogress"'}])
    redis.hset("go", mapping={"info": "{}", "beat": int(time.time()), "worker_heartbeats": heartbeats})
    assert findings(inspector, "go-workers") == []
    redis.hset("go", "beat", int(time.time()) - 100)
    assert only(findings(inspector, "go-workers")).problem


def test_unreadable_payloads_are_reported_with_their_place(redis: redis_py.Redis, inspector: Inspector) -> None:
    redis.sadd("queues", "q")
    redis.lpush("queue:q", b"{no job", job(), b"[]")
    redis.zadd("retry", {b"\xff": 1})
    redis.zadd("dead", {b"{": 1})
    assert [(one.problem, one.what) for one in findings(inspector, "unreadable")] == [
        (True, "queue q holds 2 unreadable jobs"),
        (True, "retries holds 1 unreadable job"),
        (False, "dead holds 1 unreadable job"),
    ]


# --- the processes


def test_a_process_that_fetches_no_jobs_is_a_problem_unless_it_starts_or_stops(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    for number, trouble in enumerate(("", "starting", "quiet", "stopping", "fetcher:q stands still for 130 s")):
        entry = {"queues": {"q": 1}, "trial": "", "trouble": trouble, "origin": {"machine": "elsewhere"}}
        redis.hset("pyworkers:owners", f"host:{number}:x", json.dumps(entry))
        redis.set(f"pyworkers:lease:host:{number}:x", 1)
    found = only(findings(inspector, "processes"))
    assert (found.problem, found.what) == (True, "process host:4:x fetcher:q stands still for 130 s")


def test_a_process_with_a_suspect_in_quarantine_is_a_note_that_says_not_to_restart(
    redis: redis_py.Redis, inspector: Inspector
) -> None:
    trouble = f"has begun no other jobs for 30 s, {OF_SUSPECT} class=J jid=1"
    entry = {"queues": {"q": 1}, "trial": "", "trouble": trouble, "origin": {"machine": "elsewhere"}}
    redis.hset("pyworkers:owners", "host:1:x", json.dumps(entry))
    redis.set("pyworkers:lease:host:1:x", 1)
    found = only(findings(inspector, "processes"))
    assert (found.problem, found.what) == (False, f"process host:1:x {trouble}")
    assert found.todo == "do not restart it: this ends within minutes"


@pytest.mark.parametrize(("beat_s", "found"), [(15, 0), (30, 1)])
def test_a_process_without_a_recent_beat_is_a_problem_before_its_lease_expires(
    redis: redis_py.Redis, inspector: Inspector, beat_s: float, found: int
) -> None:
    redis.hset("pyworkers:owners", "host:1:x", DEAD)
    redis.set("pyworkers:lease:host:1:x", 1)
    redis.hset("host:1:x", "beat", int(time.time() - beat_s))
    told = findings(inspector, "processes")
    assert len(told) == found
    assert all(one.what.startswith("process host:1:x sent no beat for ") and one.problem for one in told)


@pytest.mark.parametrize("entry", ['{"v":2,"queues":["q"]}', "[]", "{no json", '{"queues":12}', "\xff"])
def test_an_owner_entry_that_this_release_cannot_read_is_reported_and_its_jobs_are_left_alone(
    redis: redis_py.Redis, inspector: Inspector, entry: str
) -> None:
    redis.hset("pyworkers:owners", mapping={"later:1:x": entry.encode("latin-1"), "host:2:y": DEAD})
    redis.sadd("queues", "q")
    redis.lpush("queue:q:later:1:x:inprogress", job())
    redis.lpush("queue:q:7:inprogress", job())
    told = list(Doctor(inspector, None).findings())
    found = only([one for one in told if one.check == "owners"])
    assert (found.problem, "later:1:x" in found.what) == (True, True)
    assert [one.what for one in told if one.check == "go-workers"] == ["process 7 of go-workers holds 1 job of queue q"]


def show(redis: redis_py.Redis, identity: str, threads: int, *begun_s: float) -> None:
    capsules = {"q": {"concurrency": threads, "mode": "strict", "weights": {"q": 0}}}
    redis.sadd("processes", identity)
    info = {"version": "pyworkers 9", "queues": ["q"], "capsules": capsules}
    redis.hset(identity, mapping={"info": json.dumps(info), "beat": int(time.time())})
    redis.set(f"pyworkers:lease:{identity}", 1)
    for number, seconds in enumerate(begun_s):
        work = {"queue": "q", "payload": job().decode(), "run_at": int(time.time() - seconds)}
        redis.hset(f"{identity}:work", str(number), json.dumps(work))


@pytest.mark.parametrize(
    ("other", "waiting", "found"),
    [([430.0, 900.0], 2, 1), ([430.0, 100.0], 2, 0), ([430.0], 2, 0), ([430.0, 900.0], 0, 0)],
    ids=["all threads are held", "a job began lately", "a thread is free", "no job waits"],
)
def test_a_queue_in_which_no_job_has_begun_for_minutes_is_noted(
    redis: redis_py.Redis, inspector: Inspector, other: list[float], waiting: int, found: int
) -> None:
    show(redis, "host:1:x", 1, 700.0)
    show(redis, "host:2:y", 2, *other)
    redis.sadd("queues", "q")
    for _ in range(waiting):
        redis.lpush("queue:q", job())
    redis.hset("pyworkers:owners", "host:3:z", DEAD)
    redis.lpush("queue:q:host:3:z:inprogress", *[job()] * 9)  # of a dead process: these do not wait for a thread
    told = findings(inspector, "long-runs")
    what = "no job of queue q has begun for 7 min: long-running jobs occupy all of its threads (3), waiting: 2 jobs"
    assert [(one.problem, one.what) for one in told] == [(False, what)] * found


def test_the_threads_of_a_pool_are_those_of_all_its_queues(redis: redis_py.Redis, inspector: Inspector) -> None:
    def show(*queues: str) -> None:
        capsules = {"web": {"concurrency": 2, "mode": "strict", "weights": {"q": 0, "low": 0}}}
        info = {"version": "pyworkers 9", "queues": ["q", "low"], "capsules": capsules}
        redis.hset("host:1:x", mapping={"info": json.dumps(info), "beat": int(time.time())})
        for number, queue in enumerate(queues):
            work = {"queue": queue, "payload": job().decode(), "run_at": int(time.time() - 430)}
            redis.hset("host:1:x:work", str(number), json.dumps(work))

    redis.sadd("processes", "host:1:x")
    redis.set("pyworkers:lease:host:1:x", 1)
    redis.sadd("queues", "q", "low")
    redis.lpush("queue:q", job())
    show("low")
    assert findings(inspector, "long-runs") == []
    show("low", "low")
    what = "no job of queue q has begun for 7 min: long-running jobs occupy all of its threads (2), waiting: 1 job"
    assert [one.what for one in findings(inspector, "long-runs")] == [what]


@pytest.mark.parametrize(("key", "name"), [("schedule", "scheduled"), ("retry", "retries")])
def test_due_jobs_that_nobody_puts_into_their_queue_are_a_problem(
    key: str, name: str, redis: redis_py.Redis, inspector: Inspector
) -> None:
    redis.zadd(key, {job(): time.time() - 60, job(jid="later"): time.time() + 60})
    assert findings(inspector, "due") == []
    redis.zadd(key, {job(jid="late"): time.time() - 300})
    finding = only(findings(inspector, "due"))
    assert finding.problem
    late = r"the first of them due 3\d\d s ago: nobody has put it into its queue"
    assert re.fullmatch(f"{name} holds 3 jobs, {late}", finding.what)


def test_a_line_whose_first_job_was_parked_a_day_ago_is_noted(redis: redis_py.Redis, inspector: Inspector) -> None:
    for line, age_s in (("old", 90_000), ("new", 80_000)):
        redis.sadd("pyworkers:lines", line)
        for at in (age_s, 10):
            redis.lpush(f"pyworkers:line:{line}", line_entry.written(job(), "q", time.time() - at))
    [told] = findings(inspector, "parked")
    assert (told.problem, told.what) == (False, "line old holds 2 jobs, the first of them for 25 hours")


def test_pushes_that_nobody_relays_are_a_problem(redis: redis_py.Redis, inspector: Inspector) -> None:
    redis.sadd("pyworkers:outboxes", "redis://far", "redis://near")
    for to, age_s in (("far", 90), ("near", 5)):
        redis.lpush(f"pyworkers:outbox:redis://{to}", line_entry.written(job(), "q", time.time() - age_s, id="x"))
    [told] = findings(inspector, "outbox")
    assert told.problem
    assert re.fullmatch(r"1 push to redis://far wait in the outbox, the first for (9\d|1\d\d) s", told.what)


HOLDING = """
import threading
import goworkers_py as workers
from goworkers_py.core.timing import Timing

workers.app.timing = Timing(beat_every_s=0.2)

@workers.job(queue="q")
def hold():
    threading.Event().wait(None)
"""


@pytest.mark.parametrize("prefetch", [0, 10], ids=["in the queue", "in the buffer"])
def test_jobs_that_wait_for_long_ones_are_found_wherever_they_wait(
    prefetch: int,
    redis_url: str,
    redis: redis_py.Redis,
    inspector: Inspector,
    tmp_path: Path,
) -> None:
    (tmp_path / "conf.ini").write_text(f"[queue:q]\nconcurrency = 1\nprefetch = {prefetch}\n")
    with Daemon(tmp_path, redis_url, HOLDING, "-c", "conf.ini", "--timeout", "0").ready() as daemon:
        redis.sadd("queues", "q")
        redis.lpush("queue:q", *[job("hold")] * 3)
        what = "no job of queue q has begun for 0 min: long-running jobs occupy all of its threads (1), waiting: 2 jobs"
        assert eventually(lambda: [str(found) for found in long_runs(inspector, 0.5)] == [what]), daemon.output
        daemon.stop()


# --- failures


def test_failures_are_counted_by_class_and_error(redis: redis_py.Redis, inspector: Inspector) -> None:
    def failed(name: str, error: str, count: int) -> dict[str | bytes, float]:
        return {job(name, n, error_class=error, failed_at=5.0): float(n) for n in range(count)}

    redis.zadd("retry", failed("Mail it", "OSError", 2))
    for number in range(5):
        redis.zadd("dead", failed(f"C{number}", "ValueError", 5 - number))
    told = findings(inspector, "failures")
    assert [(one.problem, one.what) for one in told] == [
        (False, "2 of 2 jobs in retries failed with OSError in class Mail it"),
        *((False, f"{5 - n} of 15 jobs in dead failed with ValueError in class C{n}") for n in range(3)),
    ]
    assert told[0].todo == (
        "`pyworkers retries list --class 'Mail it'` lists them, `pyworkers retries summary` counts all failures"
    )


def test_of_very_many_failures_only_the_last_are_counted_and_the_finding_says_so(
    redis: redis_py.Redis, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "MOST_FAILURES", 500)
    redis.zadd("dead", {job("Old", n, error_class="E"): n for n in range(600)})
    found = only(findings(inspector, "failures"))
    assert found.what == "500 of the last 500 jobs in dead failed with E in class Old"


@pytest.mark.parametrize("broken", ["retry", "schedule", "dead"])
def test_a_set_of_another_type_hides_no_finding_of_the_others(
    redis: redis_py.Redis, inspector: Inspector, broken: str
) -> None:
    redis.set(broken, "no set")
    others = {"retry", "schedule", "dead"} - {broken}
    for key in others:
        redis.zadd(key, {b"12": 1, job("J", error_class="E"): 2})
    assert len(findings(inspector, "unreadable")) == 2
    assert len(findings(inspector, "failures")) == len(others - {"schedule"})


def test_a_key_of_another_type_hides_no_other_check(redis: redis_py.Redis, inspector: Inspector) -> None:
    redis.set("retry", "no set")
    redis.lpush("queue:q:7:inprogress", job())
    told = list(Doctor(inspector, None).findings())
    assert "go-workers" in {one.check for one in told}
    assert not [one for one in told if "could not run" in one.what]


def test_a_key_of_another_type_is_named(redis: redis_py.Redis, call: Call, redis_url: str) -> None:
    redis.set("retry", "no set")
    redis.sadd("queues", "mail")
    redis.set("queue:mail", "no list")
    redis.set("stat:processed", "1,000")
    assert [line for line in call("doctor", "--redis", redis_url).stdout.splitlines() if "(types)" in line] == [
        f"problem (types): key {what}; some other program wrote it: rename or delete it"
        for what in ("retry is a string, and must be a sorted set", "queue:mail is a string, and must be a list")
    ] + ["problem (types): key stat:processed holds no number, so nothing is counted there; delete it"]


def test_without_a_server_the_exit_code_is_75(call: Call) -> None:
    assert call("doctor", "--redis", "redis://127.0.0.1:1/0").returncode == 75


def test_a_database_that_the_server_does_not_have_is_an_error_and_no_finding(redis_url: str) -> None:
    with own_app(f"{redis_url.rpartition('/')[0]}/99999") as app, pytest.raises(NoSuchDatabase):
        list(Doctor(app.inspector, None).findings())


def test_the_page_of_operations_has_a_row_for_each_check(inspector: Inspector) -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?) \| ", page.partition("## Doctor")[2], re.MULTILINE)
    of_code = {"modules"}  # found by the command, which imports them
    assert {name for row in rows for name in re.findall(r"`(.+?)`", row)} == {
        *of_code, *inspector.checks(()), *Doctor(inspector, None)._checks()
    }  # fmt: skip
