"""`pyworkers config push`, `list`, `show`, `diff`, `rollback` and `delete`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis as redis_py
from calls import Call, one_line
from daemon import Daemon
from waiting import eventually

from goworkers_py.api.app import App

JOBS = """
    import goworkers_py as workers

    @workers.job("Pay", queue="mail")
    def pay(): ...
"""
TEN, TWENTY = "[queue:mail]\nconcurrency = 10\n", "[queue:mail]\nconcurrency = 20\n"


@pytest.fixture(autouse=True)
def _broker(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYWORKERS_BROKER", redis_url)


@pytest.fixture
def push(call: Call, here: Path):  # type: ignore[no-untyped-def]
    def run(text: str, *more: str):  # type: ignore[no-untyped-def]
        (here / "conf.ini").write_text(text, "utf-8")
        return call("config", "push", "conf.ini", "--name", "billing", *more)

    return run


def shown(call: Call, *more: str) -> str:
    return call("config", "show", "--name", "billing", *more).stdout


def test_each_push_is_a_version_that_tells_who_stored_it(push, call: Call, redis: redis_py.Redis) -> None:  # type: ignore[no-untyped-def]
    assert push(TEN).stdout == "billing version 1 is stored\n"
    assert push(TWENTY).stdout == "billing version 2 is stored\n"
    assert push(TWENTY).stdout == "billing version 2 has this text already\n"
    assert shown(call) == TWENTY
    assert shown(call, "1") == TEN
    versions = call("config", "list", "--name", "billing", "--json").stdout.splitlines()
    told = [json.loads(line) for line in versions]
    assert [one["version"] for one in told] == [1, 2]
    assert "@" in told[0]["by"]
    assert abs(told[0]["at"] - redis.time()[0]) < 60
    assert json.loads(redis.hget("pyworkers:config:billing", "2"))["v"] == 1
    assert "billing  " in call("config", "list").stdout
    assert "+concurrency = 20" in call("config", "diff", "--name", "billing").stdout
    assert push(TEN, "--dry-run").stdout.endswith("-concurrency = 20\n+concurrency = 10\n")
    assert shown(call) == TWENTY


def test_a_rollback_stores_the_old_text_as_the_newest_version(push, call: Call) -> None:  # type: ignore[no-untyped-def]
    for text in (TEN, TWENTY, TEN + "[limit:a]\nconcurrent = 1\n"):
        push(text)
    told = call("config", "rollback", "--name", "billing")
    assert told.stdout == "billing version 4 is stored, with the text of version 2\n"
    assert shown(call) == TWENTY
    assert call("config", "rollback", "--name", "billing", "1").returncode == 0
    assert shown(call) == TEN
    assert "it has 1, 2, 3, 4, 5" in one_line(call("config", "rollback", "--name", "billing", "9").stderr)


def test_a_number_never_returns_after_a_delete(push, call: Call) -> None:  # type: ignore[no-untyped-def]
    push(TEN)
    assert "to delete billing with its 1 version, add --yes" in call("config", "delete", "--name", "billing").stderr
    assert call("config", "delete", "--name", "billing", "--yes").stdout == "billing is deleted\n"
    assert (
        "there is no central configuration 'billing'; there are: none; `pyworkers config push FILE --name billing`"
        in call("config", "show", "--name", "billing").stderr
    )
    assert call("config", "list").stdout == ""
    assert push(TEN).stdout == "billing version 2 is stored\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[queue:mail]\nconcurency = 10\n", "did you mean 'concurrency'?"),
        ("[pyworkers]\n; redis = redis://:secret@host/0\n", "line 2 has a password in an address"),
        ("[pyworkers]\nbroker = redis://user:secret@host/0\n", "set PYWORKERS_BROKER"),
        ("[pyworkers]\nbroker = redis://host/0?password=secret\n", "line 2 has a password"),
        ("[pyworkers]\nsentinel_password = x\n", "is not an option"),
        ("mail = 10\n", "conf.ini: line 1 is in no section; begin with [pyworkers]"),
        (
            "[queue:mail]\nhandler = os:system\n[web]\nport = 1\nhost = 127.0.0.1\n",
            "line 2 [queue:mail] handler, line 4 [web] port, line 5 [web] host: local, because everybody who may write",
        ),
    ],
)
def test_a_text_that_cannot_start_or_has_a_secret_is_refused(push, call: Call, text: str, why: str) -> None:  # type: ignore[no-untyped-def]
    told = push(text)
    assert told.returncode == 2
    assert why in one_line(told.stderr)
    assert "secret" not in told.stderr
    assert call("config", "list").stdout == ""


def test_fifty_versions_are_kept(push, call: Call, redis: redis_py.Redis) -> None:  # type: ignore[no-untyped-def]
    push(TEN)
    redis.hset("pyworkers:config:billing", "50", redis.hget("pyworkers:config:billing", "1") or "")
    redis.hset("pyworkers:configs", "billing", 50)
    push(TWENTY)
    assert "it has 50, 51" in call("config", "show", "--name", "billing", "1").stderr


def test_what_a_later_release_has_written_is_left_alone(push, call: Call, redis: redis_py.Redis) -> None:  # type: ignore[no-untyped-def]
    push(TEN)
    redis.hset("pyworkers:config:billing", "v", "2")
    before = redis.hgetall("pyworkers:config:billing")
    assert "a later release" in one_line(push(TWENTY).stderr)
    assert "a later release" in one_line(call("config", "delete", "--name", "billing", "--yes").stderr)
    assert redis.hgetall("pyworkers:config:billing") == before


def test_a_broker_without_a_store_for_it_says_so(push, call: Call) -> None:  # type: ignore[no-untyped-def]
    told = push(TEN, "--broker", "memory://")
    assert told.returncode == 2
    assert "set a Redis as the broker" in one_line(told.stderr)


def test_a_run_starts_from_the_newest_version(push, here: Path, redis_url: str, called_app: App) -> None:  # type: ignore[no-untyped-def]
    """It overrides the local file, and flags and environment override it. The variable of a partition of the local file
    does not disturb the search for it."""
    other = "[partition:other]\nqueues = b 1\nbroker = redis://localhost:1\n"
    (here / "local.ini").write_text("[pyworkers]\nrequire = jobs\ntag = file\nlog_level = error\n" + TEN + other)
    push(TEN)
    push("[queue:mail]\nconcurrency = 3\n[pyworkers]\nlog_level = debug\n")
    variables = {
        "PYWORKERS_PARTITION_OTHER_BROKER": redis_url, "PYWORKERS_CONFIG_FROM": "billing",
        "PYWORKERS_LOG_LEVEL": "info",
    }  # fmt: skip
    with Daemon(here, redis_url, JOBS, "-c", str(here / "local.ini"), changes=variables) as process:
        assert "mail (3 threads)" in process.says("ready: ")
        assert eventually(lambda: {one.tag for one in called_app.inspector.processes()} >= {"file"})


def test_a_run_tells_what_is_wrong_with_its_central_configuration(push, call: Call) -> None:  # type: ignore[no-untyped-def]
    push(TEN)
    none = call("run", "--config-from", "biling")
    assert none.returncode == 2
    assert "there are: billing" in one_line(none.stderr)
    away = call("run", PYWORKERS_CONFIG_FROM="billing", PYWORKERS_BROKER="redis://127.0.0.1:1")
    assert away.returncode == 75
    assert "127.0.0.1:1" in away.stderr


def test_what_a_stranger_has_written_hides_no_other_configuration(push, call: Call, redis: redis_py.Redis) -> None:  # type: ignore[no-untyped-def]
    push(TEN)
    push(TWENTY)
    record = {"v": 1, "text": TEN, "by": "me", "of": 0}
    for name, number, at in (("late", 1, 1e30), ("early", 1, -1), ("large", 1, 1)):
        text = "x" * 4_000_000 if name == "large" else TEN
        redis.hset(f"pyworkers:config:{name}", str(number), json.dumps({**record, "text": text, "at": at}))
        redis.hset("pyworkers:configs", name, number)
    redis.hset("pyworkers:configs", "word", "newest")
    redis.hset("pyworkers:config:billing", "not a number", "x")
    redis.hset("pyworkers:config:billing", "3", "broken")
    listed = call("config", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in listed] == ["billing"]
    redis.hset("pyworkers:configs", "billing", 3)
    told = call("config", "rollback", "--name", "billing")
    assert told.stdout == "billing version 4 is stored, with the text of version 2\n"
