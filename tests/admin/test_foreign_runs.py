"""Jobs that run in Ruby and Go, by what these programs write: where they are shown, what a cancel of them answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
import redis as redis_py
from web_processes import KEYS, ProcessScene, go_process, ruby_process

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.long_runs import long_runs
from goworkers_py.api.app import App
from goworkers_py.core.command import Command
from goworkers_py.features.calls.admin import why_not_asked
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.iteration.redis_part import iteration_key

RUBY, GO = "web-1:42:ab12ab12ab12", "go-1:77:dcd959843c076876427ce5c6"


def payload(jid: str, job_class: str = "J") -> bytes:
    return json.dumps({"class": job_class, "args": [], "jid": jid, "queue": "q", "created_at": time.time()}).encode()


def runs_in_ruby(redis: redis_py.Redis, *jids: str, version: str = "8.1.7") -> None:
    running = [("q", payload(jid)) for jid in jids]
    ruby_process(redis, ProcessScene(RUBY, [("default", 5, ["q"])], running, version=version), time.time())


def runs_in_go(redis: redis_py.Redis, *jids: str, silent_s: float = 0.0) -> None:
    running = [("q", payload(jid)) for jid in jids]
    go_process(redis, ProcessScene(GO, [("q", 2, ["q"])], running), time.time() - silent_s)


def iterates(redis: redis_py.Redis, jid: str) -> None:
    """As Sidekiq tells it some five seconds after the begin."""
    redis.hset(iteration_key(KEYS, jid), mapping={"ex": 1, "c": "41", "rt": 5.0})


# --- who they are


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ({"version": "8.1.7", "pid": 42}, "Ruby"),
        ({"pid": 42, "labels": []}, "Ruby"),  # Sidekiq 6.4.1
        ({"Pid": 42, "labels": []}, "Go"),
        ({"version": "pyworkers 0.4.0", "pid": 42}, ""),  # without a lease it has ended
        ({"version": "own 1.0", "pid": 42}, ""),
        ({}, ""),
    ],
)
def test_a_process_is_known_by_what_it_writes(
    redis: redis_py.Redis, app: App, info: Mapping[str, Any], language: str
) -> None:
    redis.sadd("processes", RUBY)
    redis.hset(RUBY, mapping={"info": json.dumps(info), "beat": int(time.time()), "busy": 0})
    assert [one.language for one in app.inspector.processes()] == ([language] if "pyw" not in str(info) else [])


def test_what_go_has_fetched_is_shown_as_running_since_nobody_knows_when(redis: redis_py.Redis, app: App) -> None:
    runs_in_go(redis, "a", "b")
    runs_in_ruby(redis, "c")
    shown = [(one.identity, one.queue, one.job.jid) for one in app.inspector.running()]
    assert shown == [(RUBY, "q", "c"), (GO, "q", "a"), (GO, "q", "b")]
    assert [one.since for one in app.inspector.running()][1:] == [None, None]
    status = app.status("b")
    assert (status.state, status.owner, status.since, status.verified) == ("running", GO, None, True)
    assert list(long_runs(app.inspector)) == []


def test_a_process_of_go_without_a_beat_for_a_minute_is_dead_and_its_jobs_do_not_run(
    redis: redis_py.Redis, app: App
) -> None:
    """Its hash never expires."""
    runs_in_go(redis, "a", silent_s=61)
    assert (app.inspector.running(), app.inspector.processes()) == ([], [])


@pytest.mark.parametrize(
    "told",
    ["{no", "3", "[3]", '[{"queue":"q"}]', '[{"queue":"\\"q\\"","in_progress_queue":"\\"dead\\""}]', "[" * 2_000],
)
def test_what_is_no_heartbeat_of_go_names_no_list(redis: redis_py.Redis, app: App, told: str) -> None:
    runs_in_go(redis, "a")
    redis.hset(GO, "worker_heartbeats", told)
    assert app.inspector.running() == []


# --- a cancel


@pytest.mark.parametrize(
    ("version", "is_iterable", "answer", "asked"),
    [
        ("", False, "runs in Ruby", False),
        ("7.3.2", True, "runs in Ruby", False),
        ("7.3.8", True, "runs in Ruby", True),  # it looks when it begins only
        ("7.3.10", True, "requested", True),
        ("8.1.7", True, "requested", True),
        ("8.1.7", False, "runs in Ruby", True),  # it may not have said yet that it is iterable
    ],
)
def test_a_cancel_asks_an_iterable_job_of_sidekiq_and_says_what_does_not_obey(
    redis: redis_py.Redis, app: App, version: str, is_iterable: bool, answer: str, asked: bool
) -> None:
    runs_in_ruby(redis, "a", version=version)
    if is_iterable:
        iterates(redis, "a")
    assert app.cancel("a", timeout=30) == answer
    told = redis.hgetall(iteration_key(KEYS, "a"))
    assert (b"cancelled" in told) == asked
    if asked:  # Sidekiq cannot read a hash with `cancelled` alone
        assert {b"ex", b"c", b"rt"} < set(told)
        assert 0 < redis.ttl(iteration_key(KEYS, "a")) <= 30 * 86_400
    assert not app.broker.require_part(Cancels).stands("a"), "no process would meet it"


def test_an_interruption_is_nothing_that_ruby_knows(redis: redis_py.Redis, app: App) -> None:
    runs_in_ruby(redis, "a")
    iterates(redis, "a")
    assert app.cancel("a", retry=True) == "runs in Ruby"
    assert not redis.hexists(iteration_key(KEYS, "a"), "cancelled")


def test_a_second_cancel_keeps_the_time_of_the_first(redis: redis_py.Redis, app: App) -> None:
    runs_in_ruby(redis, "a")
    redis.hset(iteration_key(KEYS, "a"), mapping={"ex": 3, "c": "41", "rt": 5.0, "cancelled": 1})
    assert app.cancel("a") == "requested"
    told = redis.hgetall(iteration_key(KEYS, "a"))
    assert (told[b"ex"], told[b"c"], told[b"cancelled"]) == (b"3", b"41", b"1")


def test_a_job_that_runs_in_go_is_not_cancelled(redis: redis_py.Redis, app: App) -> None:
    runs_in_go(redis, "a")
    assert app.cancel("a", timeout=30) == "runs in Go"
    assert not app.broker.require_part(Cancels).stands("a")


def test_a_cancel_of_many_counts_those_that_do_not_obey(redis: redis_py.Redis, app: App) -> None:
    runs_in_ruby(redis, "a", "b")
    runs_in_go(redis, "c")
    iterates(redis, "a")
    redis.lpush("queue:q", payload("d"), payload("e", "Other"))
    redis.sadd("queues", "q")
    wanted = Filter(job_class="J")
    planned = app.inspector.cancel_all(wanted, dry_run=True)
    assert (planned.cancelled, planned.requested, planned.foreign) == (1, 0, 3)
    assert not redis.hexists(iteration_key(KEYS, "a"), "cancelled")
    done = app.inspector.cancel_all(wanted)
    assert (done.cancelled, done.requested, done.foreign, done.too_late) == (1, 1, 2, 0)
    assert redis.llen("queue:q") == 1


# --- commands


def test_a_process_of_go_is_not_asked_to_stop(redis: redis_py.Redis, app: App) -> None:
    runs_in_go(redis)
    runs_in_ruby(redis)
    processes = app.inspector.processes()
    for command in Command.QUIET, Command.STOP:
        assert [one.identity for one in app.inspector.ask(processes, command)] == [RUBY]
    assert not redis.exists(KEYS.signals(GO))
    why = {one.identity: why_not_asked(one, "stop") for one in processes}
    assert why[RUBY] == ""
    assert "kill -TERM 77` on go-1" in why[GO]
