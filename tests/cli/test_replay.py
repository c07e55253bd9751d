"""`pyworkers replay`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from calls import Call, one_line

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig

MODULE = """
import goworkers_py

@goworkers_py.job("Shop::Charge", queue="money")
def charge(order, fails=False):
    if fails:
        raise ConnectionError("the bank\\ndoes not answer")
    remind.enqueue_in(60, order)

@goworkers_py.job("Shop::Remind", queue="mail")
def remind(order): ...

@goworkers_py.job("Shop::Kill", queue="money")
def kill():
    raise goworkers_py.KillJob("enough")
"""


@pytest.fixture
def app(redis_url: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("PYWORKERS_REDIS", redis_url)
    monkeypatch.setenv("PYWORKERS_REQUIRE", "shop")
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    (here / "shop.py").write_text(MODULE)
    with own_app(redis_url) as app:
        yield app
    sys.modules.pop("shop", None)


def bury(redis: redis_py.Redis, jid: str = "6f1c2d3e", **fields: Any) -> None:
    failure = {"error_class": "ConnectionError", "error_message": "the bank\ndoes not answer", "failed_at": 2.0}
    job = {"class": "Shop::Charge", "args": [42, True], "jid": jid, "queue": "money", "created_at": 1.0, **failure}
    redis.zadd("dead", {json.dumps({**job, **fields}): 3.0})


def content(redis: redis_py.Redis) -> dict[bytes, bytes | None]:
    return {key: redis.dump(key) for key in redis.scan_iter()}


# --- as a test


@pytest.mark.usefixtures("app")
def test_the_test_is_printed_or_written_and_no_file_is_overwritten(
    call: Call, here: Path, redis: redis_py.Redis
) -> None:
    bury(redis)
    before = content(redis)
    printed = call("replay", "6f1c2d3e", "--pytest")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "    charge.enqueue(42, True)\n    with pytest.raises(ConnectionError, match=" in printed.stdout

    wrote = call("replay", "6f1c2d3e", "--pytest", "-o", "test_charge.py")
    assert (wrote.returncode, wrote.stdout) == (
        0,
        "wrote test_charge.py; run it with: python -m pytest test_charge.py\n",
    )
    assert (here / "test_charge.py").read_text() == printed.stdout

    (here / "test_charge.py").write_text("mine")
    refused = call("replay", "6f1c2d3e", "--pytest", "-o", "test_charge.py")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert one_line(refused.stderr) == "test_charge.py is there already; --force overwrites it"
    assert (here / "test_charge.py").read_text() == "mine"
    assert call("replay", "6f1c2d3e", "--pytest", "-o", "test_charge.py", "--force").returncode == 0
    assert (here / "test_charge.py").read_text() == printed.stdout

    nowhere = call("replay", "6f1c2d3e", "--pytest", "-o", "nowhere/test_charge.py")
    assert nowhere.returncode == 1
    assert one_line(nowhere.stderr) == "nowhere/test_charge.py cannot be written: No such file or directory"
    assert content(redis) == before


@pytest.mark.usefixtures("app")
def test_of_several_copies_one_that_has_failed_is_taken(call: Call, redis: redis_py.Redis) -> None:
    redis.sadd("queues", "money")
    redis.lpush("queue:money", json.dumps({"class": "Shop::Charge", "args": [1], "jid": "6f1c2d3e", "queue": "money"}))
    bury(redis)
    assert "charge.enqueue(42, True)" in call("replay", "6f1c2d3e", "--pytest").stdout


@pytest.mark.usefixtures("app")
def test_a_job_is_found_wherever_it_waits(call: Call, redis: redis_py.Redis) -> None:
    for place in ("schedule", "retry"):
        job = {"class": "Shop::Charge", "args": [place], "jid": f"jid-{place}", "queue": "money"}
        redis.zadd(place, {json.dumps(job): 4_102_444_800.0})
        assert f'charge.enqueue("{place}")' in call("replay", f"jid-{place}", "--pytest").stdout


def test_a_job_whose_arguments_are_gone_is_told(call: Call, app: App, redis: redis_py.Redis) -> None:
    nowhere = call("replay", "1234", "--pytest")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert one_line(nowhere.stderr) == "no job with jid 1234 is kept anywhere"

    with own_app(str(app.config.broker), QueueConfig("money", 1)) as worker:
        jid = worker.job("Done", queue="money", retain=60)(lambda: None).enqueue()
        with working(worker):
            worker.result(jid, timeout=20)
    ended = call("replay", jid, "--pytest")
    assert ended.returncode == 1
    assert one_line(ended.stderr) == f"job {jid} is completed: its arguments are not kept any more"

    redis.zadd("dead", {b"no json": 1.0})
    [name] = re.findall(r"sha1:\w+", call("dead", "list", "--json").stdout)
    unreadable = call("replay", name, "--pytest")
    assert unreadable.returncode == 1
    assert one_line(unreadable.stderr) == f"job {name} cannot be read as a job, so no code runs it: no json"
    assert "cannot be read as a job" in one_line(call("replay", name, "--yes").stderr)


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-o", "a.py"], "-o and --force are for --pytest"),
        (["--force"], "-o and --force are for --pytest"),
        (["--pytest", "--force"], "--force is for -o"),
        ([], "to run the code of job 6f1c2d3e here, add --yes"),
    ],
)
def test_what_is_asked_for_wrongly_is_a_usage_error(
    call: Call, redis: redis_py.Redis, options: list[str], told: str
) -> None:
    bury(redis)
    refused = call("replay", "6f1c2d3e", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert told in one_line(refused.stderr)


# --- here and now


@pytest.mark.usefixtures("app")
def test_a_job_that_fails_here_shows_its_error_and_changes_nothing_in_redis(call: Call, redis: redis_py.Redis) -> None:
    bury(redis, expires_at=1.0, deadline=1.0, recovered={"v": 1, "count": 9, "since": 1.0})
    before = content(redis)
    failed = call("replay", "6f1c2d3e", "--yes")
    assert (failed.returncode, failed.stdout) == (1, "failed: ConnectionError: the bank\\ndoes not answer\n")
    assert failed.stderr.startswith("Traceback (most recent call last):\n")
    assert 'shop.py", line 7, in charge' in failed.stderr
    assert "to be retried" not in failed.stderr
    assert content(redis) == before


@pytest.mark.usefixtures("app")
def test_a_job_that_ends_well_here_tells_what_it_would_have_pushed(call: Call, redis: redis_py.Redis) -> None:
    bury(redis, args=[42])
    before = content(redis)
    done = call("replay", "6f1c2d3e", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    told, pushed = done.stdout.splitlines()
    assert told == "done: Shop::Charge(42)"
    # The push reads the clock twice.
    assert re.fullmatch(r"would have pushed: Shop::Remind\(42\) in queue mail, (60|59\.9\d*) s after its push", pushed)
    assert content(redis) == before


@pytest.mark.usefixtures("app")
def test_a_job_that_ends_itself_here_is_no_failure_with_a_traceback(call: Call, redis: redis_py.Redis) -> None:
    bury(redis, **{"class": "Shop::Kill", "args": []})
    killed = call("replay", "6f1c2d3e", "--yes")
    assert (killed.returncode, killed.stdout, killed.stderr) == (1, "dead: goworkers_py.KillJob: enough\n", "")


@pytest.mark.usefixtures("app")
def test_a_job_without_code_here_is_not_run(call: Call, redis: redis_py.Redis) -> None:
    bury(redis, **{"class": "Ruby::Only"})
    refused = call("replay", "6f1c2d3e", "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert one_line(refused.stderr).startswith("no job is registered as 'Ruby::Only'")


def test_a_job_with_a_lock_in_a_batch_runs_here(call: Call, app: App, redis: redis_py.Redis) -> None:
    """What it is tied to is in Redis, and stays as it is."""
    charge = app.job("Shop::Charge", queue="money", unique_for=60, limits=[app.limit("bank", concurrent=1)])(print)
    with app.batch("all"):
        jid = charge.enqueue(42)
    before = content(redis)
    assert call("replay", jid, "--yes").stdout.startswith("done: Shop::Charge(42)\n")
    assert content(redis) == before
