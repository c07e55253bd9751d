"""`pyworkers job cancel`: what it prints and its exit codes."""

from __future__ import annotations

import json

import pytest
import redis as redis_py
from apps import job
from calls import Call

pytestmark = pytest.mark.usefixtures("on_this_server")


def test_jobs_are_cancelled_by_a_filter(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", job("A", jid="a1"), job("B", jid="b1"))
    redis.zadd("retry", {job("A", jid="a2"): 1})
    assert call("job", "cancel", "--class", "A", "--dry-run").stdout == "2 jobs would be cancelled\n"
    assert call("job", "cancel", "--class", "A").stdout == "2 jobs cancelled\n"
    assert (redis.llen("queue:mail"), redis.zcard("retry")) == (1, 0)
    assert json.loads(call("job", "cancel", "--class", "A", "--json").stdout) == {
        "cancelled": 0, "requested": 0, "too_late": 0, "foreign": 0,
    }  # fmt: skip


def test_running_jobs_are_cancelled_and_those_that_wait_stay(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", job("A", jid="a1"))
    entry = json.dumps({"queues": {"mail": 1}, "trial": "", "origin": {"machine": "elsewhere"}})
    redis.hset("pyworkers:owners", "lives:2:y", entry)
    redis.set("pyworkers:lease:lives:2:y", 1)
    redis.lpush("queue:mail:lives:2:y:inprogress", job("A", jid="a2"))
    for words in (["--running", "--all"], ["--running", "--class", "A"]):
        assert call("job", "cancel", *words, "--dry-run").stdout == "1 job would be cancelled\n"
    done = call("job", "cancel", "--running", "--all", "--wait", "0")
    assert (done.returncode, "1 job requested" in done.stdout, redis.llen("queue:mail")) == (1, True, 1)


@pytest.mark.parametrize(
    "words",
    [
        [], ["x", "--class", "A"], ["x", "--dry-run"], ["--class", "A", "--retry"], ["--running"], ["--all"],
        ["x", "--running"], ["--running", "--all", "--class", "A"],
    ],
)  # fmt: skip
def test_a_cancel_of_nothing_or_of_two_kinds_is_refused(words: list[str], call: Call) -> None:
    assert call("job", "cancel", *words).returncode == 2
