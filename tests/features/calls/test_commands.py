"""`processes quiet`, `processes stop` and the like, given to real daemons."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, running, started, working
from calls import Call, one_line
from daemon import SLOW, Daemon
from waiting import eventually

from goworkers_py.config.options import QueueConfig

pytestmark = pytest.mark.usefixtures("on_this_server")

TWO_PARTITIONS = """
[pyworkers]
[queue:q]
concurrency = 2
[partition:billing]
queues = invoices 3
"""


BOTH = {"main", "billing"}


@pytest.fixture
def two_partitions(tmp_path: Path, redis_url: str, here: Path) -> Iterator[dict[str, str]]:
    """A daemon with two partitions on one server. The identity of each, by its name."""
    (here / "conf.ini").write_text(TWO_PARTITIONS)
    with Daemon(tmp_path, redis_url, SLOW, "-c", str(here / "conf.ini")).ready() as daemon, own_app(redis_url) as app:
        assert eventually(lambda: {one.partition for one in app.inspector.processes() if one.commands} == BOTH)
        yield {one.partition: one.identity for one in app.inspector.processes()}
        assert daemon.stop() == 0


def listed(call: Call, name: str, value: str) -> dict[str, Any]:
    shown = map(json.loads, call("processes", "--json").stdout.splitlines())
    return {one[name]: one[value] for one in shown}


def test_a_command_reaches_the_processes_of_its_partition_alone(two_partitions: dict[str, str], call: Call) -> None:
    for partition, others in (("billing", "main"), ("main", "billing")):
        named = ("-c", "conf.ini", "--partition", partition)
        told = call("processes", "quiet", *named, "--yes")
        assert (told.returncode, told.stdout) == (0, f"{two_partitions[partition]}: quiet\n")
        quiet = {partition: True, others: False}
        assert eventually(lambda quiet=quiet: listed(call, "partition", "quiet") == quiet, 20)  # after its next beat
        assert call("processes", "resume", *named, "--all").stdout == f"{two_partitions[partition]}: working\n"
        told = call("processes", "dump", two_partitions[others], *named)
        assert told.returncode == 1
        assert one_line(told.stderr).startswith(
            f"there is no process {two_partitions[others]} of partition {partition}"
        )
    told = call("processes", "log-level", "configured", "-c", "conf.ini", "--partition", "all")
    assert told.stdout == "".join(f"{two_partitions[one]}: configured\n" for one in ("main", "billing"))
    assert call("processes", "resume", "--all").stdout.count(": working\n") == 2, "without a partition: all"


def test_the_list_of_processes_shows_their_partitions_or_those_of_one(
    two_partitions: dict[str, str], call: Call
) -> None:
    header, *rows = call("processes").stdout.splitlines()
    column = header.index("partition")
    assert {row.split()[0]: row[column:].split() for row in rows} == {
        two_partitions["main"]: ["main", "q"], two_partitions["billing"]: ["billing", "invoices"],
    }  # fmt: skip
    for partition, identity in two_partitions.items():
        _, row = call("processes", "-c", "conf.ini", "--partition", partition).stdout.splitlines()
        assert row.split()[0] == identity
    assert re.search(r" MB +billing +invoices", call("top", "--once").stdout)


def test_a_pool_is_told_from_processes_that_lack_it_and_is_missed_if_all_do(
    two_partitions: dict[str, str], call: Call
) -> None:
    main, billing = two_partitions["main"], two_partitions["billing"]
    told = call("processes", "concurrency", "4", "--pool", "q", "--all")
    assert (told.returncode, told.stderr) == (0, "")
    assert sorted(told.stdout.splitlines()) == sorted(
        [f'{main}: {{"q": [2, 4]}}', f"{billing}: not here: this process has no pool 'q', but invoices"]
    )
    told = call("processes", "concurrency", "4", "--pool", "q", "--all", "--json")
    assert {one.pop("identity"): one for one in map(json.loads, told.stdout.splitlines())} == {
        main: {"ok": True, "value": {"q": [4, 4]}},
        billing: {"ok": False, "here": False, "error": "not here: this process has no pool 'q', but invoices"},
    }
    told = call("processes", "pause-queue", "invoices", "--all")
    assert (told.returncode, told.stdout.count("not here: ")) == (0, 1)
    for words in (("--pool", "x", "--all"), ("--pool", "q", "-c", "conf.ini", "--partition", "billing")):
        told = call("processes", "concurrency", "4", *words)
        assert told.returncode == 1
        assert "not here: this process has no pool " in told.stdout
        assert one_line(told.stderr) == "no process has obeyed: none has this pool or queue"


def test_one_that_obeys_does_not_excuse_another_that_fails(redis_url: str, call: Call) -> None:
    own_pool, serial = QueueConfig("q", concurrency=1), QueueConfig("q", concurrency=1, mode="serial")
    with own_app(redis_url, own_pool) as app, own_app(redis_url, serial) as other, started(app) as one, started(other):
        assert eventually(lambda: len(app.inspector.processes()) == 2)
        told = call("processes", "concurrency", "2", "--pool", "q", "--all")
        assert (told.returncode, told.stdout) == (1, f'{one.identity}: {{"q": [1, 2]}}\n')
        assert "q has mode = serial" in one_line(told.stderr)


def test_a_process_that_does_not_say_its_partition_is_chosen_by_its_queues(
    redis: redis_py.Redis, redis_url: str, call: Call, here: Path
) -> None:
    """As those of pyworkers 0.3.0, which obey signals, and those that answer but have no such field."""
    (here / "conf.ini").write_text(TWO_PARTITIONS)
    for name, queues in (("old:1:a", ["q"]), ("old:2:b", ["invoices"]), ("old:3:c", ["other"])):
        redis.sadd("processes", name)
        redis.hset(name, mapping={"info": json.dumps({"queues": queues}), "beat": time.time()})
    for partition, name in (("main", "old:1:a"), ("billing", "old:2:b")):
        told = call("processes", "quiet", "-c", "conf.ini", "--partition", partition, "--yes")
        assert (told.returncode, told.stdout) == (0, f"{name}: asked; this program does not answer\n")
        assert redis.delete(f"{name}-signals") == 1
    redis.delete("processes")
    with own_app(redis_url, QueueConfig("invoices")) as app:
        launcher = app.runner.launcher(None)
        launcher._reporter._partition = ""
        with running(launcher):
            assert eventually(lambda: all(one.partition == "" for one in app.inspector.processes()))
            told = call("processes", "dump", "-c", "conf.ini", "--partition", "billing")
            assert told.stdout.startswith(f"{launcher.identity}: thread ")
            told = call("processes", "dump", "-c", "conf.ini", "--partition", "main")
            assert (told.returncode, told.stdout) == (0, "0 processes asked to dump\n")


def test_processes_are_listed_and_asked_to_dump_to_quiet_and_to_stop(
    slow_daemon: Daemon, redis: redis_py.Redis, call: Call
) -> None:
    [line] = call("processes", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["concurrency"], told["queues"], told["quiet"]) == (2, ["q"], False)
    assert told["version"].startswith("pyworkers ")
    header, row = call("processes").stdout.splitlines()
    assert header.split()[:4] == ["process", "busy", "threads", "state"]
    assert row.split()[:4] == [told["identity"], "0", "2", "working"]
    name = told["identity"]
    assert call("processes", "dump", name).stdout.startswith(f"{name}: thread ")
    assert call("processes", "quiet", "--all", "--yes").stdout == f"{name}: quiet\n"
    assert call("processes", "resume", name, "--as", "the\nend").stdout == f"{name}: working\n"
    assert call("processes", "log-level", "warning", "--of-queue", "q").stdout == f"{name}: warning\n"
    assert call("processes", "log-level", "configured", "--all").stdout == f"{name}: configured\n"
    told = json.loads(call("processes", "concurrency", "3", "--all", "--json").stdout)
    assert told == {"identity": name, "ok": True, "value": {"q": [2, 3]}}
    assert call("processes", "pause-queue", "q", "--all").stdout == f"{name}: true\n"
    assert call("processes", "resume-queue", "q", "--all").stdout == f"{name}: true\n"
    done = call("processes", "call", "flush-cache", "--all", "--arg", "[1]")
    assert (done.returncode, done.stdout) == (1, "")
    assert one_line(done.stderr) == f"{name}: this process has no command flush-cache"
    assert call("processes", "stop", name).stdout == f"{name}: stopping\n"
    slow_daemon.says("quiet: no new jobs are fetched")
    assert slow_daemon.wait() == 0
    assert call("processes").stdout == ""


def test_unknown_and_embedded_processes_cannot_be_asked(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("processes", "rails:7:a")
    redis.hset("rails:7:a", mapping={"info": '{"embedded":true}', "beat": time.time()})
    done = call("processes", "stop", "nobody:1:x")
    assert done.returncode == 1
    assert one_line(done.stderr) == "there is no process nobody:1:x; `pyworkers processes list` shows all"
    done = call("processes", "stop", "rails:7:a")
    assert done.returncode == 1
    assert one_line(done.stderr) == "rails:7:a: part of another program; only that program can stop it"
    for words, code, line in (
        (["stop"], 2, "give the identity of a process, as `processes list` shows it, or --tagged, --of-queue, "),
        (["stop", "--all"], 2, "to stop all of 1 process, add --yes"),
        (["resume", "--all"], 1, "rails:7:a: this program does not know resume"),
        (["resume", "--tagged", "other"], 1, "there is no such process; `pyworkers processes list` shows all"),
    ):
        done = call("processes", *words)
        assert done.returncode == code
        assert line in one_line(done.stderr)
    assert not redis.keys("*-signals")


def test_a_process_that_stands_by_is_in_its_partition_and_obeys_signals_alone(redis_url: str, call: Call) -> None:
    with (
        own_app(redis_url, QueueConfig("q"), standby=True) as first,
        own_app(redis_url, QueueConfig("q"), standby=True) as second,
        working(first),
        working(second),
    ):
        assert eventually(lambda: sorted(bool(one.standby) for one in first.inspector.processes()) == [False, True])
        [follower] = [one for one in first.inspector.processes() if one.standby]
        assert follower.partition == "main"
        told = call("processes", "dump", follower.identity, "--partition", "main")
        assert told.returncode == 1
        told = call("processes", "resume", follower.identity)
        stands_by = f"{follower.identity}: stands by; it obeys resume only while it leads\n"
        assert (told.returncode, told.stdout) == (1, stands_by)
        assert one_line(told.stderr) == "no process has obeyed: all of them stand by"


def test_a_process_that_stands_by_is_no_failure_while_the_leader_obeys(redis_url: str, call: Call) -> None:
    with (
        own_app(redis_url, QueueConfig("q", concurrency=1), standby=True) as first,
        own_app(redis_url, QueueConfig("q", concurrency=1), standby=True) as second,
        working(first),
        working(second),
    ):
        assert eventually(lambda: sorted(bool(one.commands) for one in first.inspector.processes()) == [False, True])
        # The leader tells its commands a moment before it reads any: those of before its thread are not obeyed.
        assert eventually(lambda: any(thread.name == "commands" for thread in threading.enumerate()))
        told = call("processes", "concurrency", "2", "--all")
        assert (told.returncode, told.stderr) == (0, "")
        by_identity = dict(line.split(": ", 1) for line in told.stdout.splitlines())
        for one in first.inspector.processes():
            wanted = "stands by; it obeys concurrency only while it leads" if one.standby else '{"q": [1, 2]}'
            assert by_identity[one.identity] == wanted


def test_processes_that_do_not_answer_are_asked_by_a_signal(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("processes", "sidekiq:7:a")
    redis.hset("sidekiq:7:a", mapping={"info": "{}", "beat": time.time()})
    done = call("processes", "quiet", "sidekiq:7:a")
    assert (done.returncode, done.stdout) == (0, "sidekiq:7:a: asked; this program does not answer\n")
    assert redis.lrange("sidekiq:7:a-signals", 0, -1) == [b"TSTP"]
