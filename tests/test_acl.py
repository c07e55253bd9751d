"""The access rules that the docs list: everything works under exactly those, and each of them is needed."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import begun, job, own_broker
from daemon import pyworkers
from fleet import Fleet
from hasty import hasty
from servers import RedisServer
from waiting import eventually

from goworkers_py.admin.stats import Inspector
from goworkers_py.brokers.contracts import Batch, Forward, Found, Presence, Push, WaitingSet
from goworkers_py.brokers.redis import access
from goworkers_py.brokers.redis.access import probes
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.connection import Connections, Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import Membership
from goworkers_py.brokers.redis.sidekiq_metrics import SidekiqMetrics
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.outcome import DONE, Dead, Outcome, Requeue, Retry
from goworkers_py.observe.executions import Executions
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire.process_record import Member, ProcessSnapshot

DOCS = Path(__file__).resolve().parent.parent / "docs"
ADMIN, ADMIN_PASSWORD = "admin", "of-the-admin"
OPTIONAL = {"info", "client|setinfo", "select"}


def documented() -> list[str]:
    """The words after ACL SETUSER of the first such line in a fenced block."""
    for page in sorted(DOCS.rglob("*.md")):
        found = re.search(r"^```\w*\n(?:[^`]*\n)?ACL SETUSER (pyworkers .+)$", page.read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1].split()
    raise AssertionError("no page lists the access rules")


RULES = documented()
PASSWORD = next(word for word in RULES if word.startswith(">"))[1:]
COMMANDS = [word for word in RULES if word.startswith("+")]
PATTERNS = [word for word in RULES if word.startswith("~")]
ASKED = {words[0] for words in probes(Keys())} - {"CLIENT"}


class Walled:
    """A server that only `pyworkers`, by the documented rules, and the test itself may use."""

    def __init__(self, server: RedisServer) -> None:
        with closing(redis_py.Redis(port=server.port)) as first:
            first.execute_command("ACL", "SETUSER", ADMIN, "on", f">{ADMIN_PASSWORD}", "~*", "&*", "+@all")
        self.redis = redis_py.Redis(port=server.port, username=ADMIN, password=ADMIN_PASSWORD)
        self.redis.execute_command("ACL", "SETUSER", "default", "off")
        self.url = server.url.replace("//", f"//pyworkers:{PASSWORD}@")

    def allow(self, *rules: str) -> None:
        """These only."""
        self.redis.flushall()
        self.redis.script_flush()
        self.redis.execute_command("ACL", "SETUSER", *rules)
        self.redis.acl_log_reset()

    def denied(self) -> set[str]:
        """Commands and keys, but for the driver's greeting."""
        return {entry["object"] for entry in self.redis.acl_log()} - {"client|setinfo"}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


@pytest.fixture(scope="module")
def walled(server: RedisServer) -> Iterator[Walled]:
    walled = Walled(server)
    with closing(walled.redis):
        yield walled


# --- with them


def test_the_daemon_works_under_exactly_the_documented_rules(walled: Walled, tmp_path: Path) -> None:
    walled.allow(*RULES)
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        flags = ("-q", "q=5", "--poll-interval", "0.2", "--process", "one", "--dead-max-jobs", "1")
        first = fleet.start(*flags).ready()
        # Pushed: at once, many, later.
        jid = pyworkers("enqueue", "-q", "q", "Short", PYWORKERS_REDIS=walled.url)
        later = pyworkers("enqueue", "-q", "q", "--in", "0.3", "Short", PYWORKERS_REDIS=walled.url)
        for pushed in (jid, later):
            assert (pushed.returncode, pushed.stderr) == (0, "")
            fleet.await_run("began", pushed.stdout.strip())
        # Failed: retried with success, and buried; one dead job is kept.
        fleet.open("open")
        fleet.push("failing", "Gated", "open", "oh", retry=1)
        fleet.push("dying", "Gated", "open", "oh", retry=False)
        fleet.await_run("ended", "failing")
        assert eventually(lambda: walled.redis.zcard("retry") == 1), fleet.told()
        [entry] = walled.redis.zrange("retry", 0, -1)
        walled.redis.zadd("retry", {entry: 0})
        fleet.await_run("ended", "failing", times=2)
        assert eventually(lambda: walled.redis.zrange("dead", 0, -1)), fleet.told()
        assert eventually(lambda: not walled.redis.exists("retry")), fleet.told()
        # Killed in the middle of a job, which its successor on this machine runs.
        fleet.push("shared", "Gated", "gate")
        fleet.await_run("began", "shared")
        assert eventually(lambda: walled.redis.get("stat:processed") == b"5"), fleet.told()
        first.kill()
        second = fleet.start(*flags).ready()
        second.says("recovered from dead process")
        fleet.await_run("began", "shared", times=2)
        fleet.open("gate")
        fleet.await_run("ended", "shared")
        assert eventually(lambda: walled.redis.get("stat:processed") == b"6"), fleet.told()
        stats = pyworkers("stats", "--json", PYWORKERS_REDIS=walled.url)
        assert (stats.returncode, stats.stderr) == (0, "")
        told = json.loads(stats.stdout)
        assert (told["processed"], told["failed"], told["retries"], told["dead"]) == (6, 3, 0, 1)
        assert second.stop() == 0
        output = first.output + second.output + stats.stderr
        assert "NOPERM" not in output
        assert "no permissions" not in output.lower()
        assert " ERROR: Redis" not in output
    # `enqueue` and `stats` look at these too. Where they may not, they say less, and nobody is told of an error.
    assert walled.denied() <= {"info", "type", "hmget"}


# --- without one of them


def everything(walled: Walled) -> dict[str, object]:
    """What a process asks of the server in its life, and what it then finds there."""
    told: dict[str, object] = {}
    with (
        own_broker(walled.url, dead_max_jobs=2, dead_timeout=100) as broker,
        closing(Connections(walled.url)) as connections,
    ):
        life = Life(broker, walled.redis, connections)
        for step in STEPS:
            try:
                told[step.__name__] = step(life)
            except Exception as error:  # however it shows
                told[step.__name__] = error
        try:
            stats = Inspector(connections, Keys()).stats()
            told["stats"] = (stats.processed, stats.failed, stats.dead, [queue.name for queue in stats.queues])
            told["in progress"] = (stats.in_progress, stats.processes)
        except Exception as error:
            told["stats"] = error
    return told


class Life:
    def __init__(self, broker: RedisBroker, redis: redis_py.Redis, connections: Connections) -> None:
        self.broker = broker
        self.redis = redis
        self.connections = connections

    def fetch(self, owner: str = "me") -> bytes:
        [raw] = self.broker.fetch(owner, "q", 1)
        return raw

    def settle(self, outcome: Callable[[bytes], Outcome]) -> object:
        raw = job(nonce=secrets.token_hex(4))
        self.redis.lpush("queue:q:me:inprogress", raw)
        delivery = Delivery(raw, "q", "me")
        return self.broker.settle(Batch(secrets.token_hex(4), 1, "q", [(delivery, outcome(raw))]))


def beats(life: Life) -> object:
    return [life.broker.beat(Presence("me", {"q": 1}, "name")).server_time > 0 for _ in range(2)]


def pushes(life: Life) -> object:
    life.broker.push([Push("q", job(), None), Push("q", job(), 1.0)])
    return life.redis.llen("queue:q"), life.redis.smembers("queues"), life.redis.zcard("schedule")


def fetches(life: Life) -> object:
    return len(life.fetch()), len(life.broker.held("me", "q"))


def fetches_a_large_job(life: Life) -> object:
    life.redis.lpush("queue:q", job("J", "x" * 2_000))
    return len(life.fetch()), len(life.broker.held("me", "q"))


def waits_for_a_job(life: Life) -> object:
    life.broker._likely_more["q"] = False
    life.redis.lpush("queue:q", job())
    return len(life.fetch())


def is_woken(life: Life) -> object:
    life.broker._lines["q"]._client_id = 10**9  # as though it waited
    life.broker.wake("q")
    return True


def succeeds(life: Life) -> object:
    return life.settle(lambda raw: DONE)


def retries(life: Life) -> object:
    return life.settle(lambda raw: Retry(2.0, raw)), life.redis.zcard("retry")


def gives_back(life: Life) -> object:
    before = life.redis.llen("queue:q")
    settled = [life.settle(lambda raw, last=last: Requeue(last)) for last in (False, True)]
    return settled, life.redis.llen("queue:q") - before


def dies(life: Life) -> object:
    life.redis.zadd("dead", {b"old": 1})
    settled = life.settle(Dead)
    kept = life.redis.zcard("dead")
    life.redis.zadd("dead", {b"newer": 3e9, b"newest": 4e9})
    return settled, kept, life.settle(Dead), life.redis.zcard("dead")


def counts_for_a_time_only(life: Life) -> object:
    return sorted(life.redis.ttl(key) > 0 for key in life.redis.keys("stat:processed:*"))


def promotes(life: Life) -> object:
    moved = []
    forward: Forward = lambda entry, now: ("promoted", entry)  # noqa: E731
    for waiting in WaitingSet:
        step = life.broker.promote(waiting, forward, 10)
        moved.append((step.looked_at, step.stuck))
    return moved, life.redis.llen("queue:promoted"), life.redis.sismember("queues", "promoted")


def promotes_what_others_promote_too(life: Life) -> object:
    life.redis.zadd("schedule", {b"first": 1, b"second": 2})

    def forward(entry: bytes, now: float) -> tuple[str, bytes]:
        life.redis.zrem("schedule", b"first")
        return "promoted", entry

    life.broker.promote(WaitingSet.SCHEDULE, forward, 10)
    return life.redis.lrange("queue:promoted", 0, 0), life.redis.zcard("schedule")


DEAD, LONG_GONE = "host:1:dddddddddddd", "host:2:dddddddddddd"


def recovers(life: Life) -> object:
    def judge(found: Found) -> RecoveryDecision:
        return RecoveryDecision(found.raw)

    dead = {"queues": {"q": 1}, "trial": "", "origin": {}}
    life.redis.hset("pyworkers:owners", mapping={DEAD: json.dumps(dead), LONG_GONE: json.dumps(dead)})
    life.redis.hset("pyworkers:gone", LONG_GONE, 1)
    life.redis.lpush(f"queue:q:{DEAD}:inprogress", job("Lost"))
    recovered = len(list(life.broker.recover("me", judge, proof="")))
    return recovered, life.redis.hexists("pyworkers:gone", DEAD), life.redis.hexists("pyworkers:gone", LONG_GONE)


def takes_the_name_of_another(life: Life) -> object:
    life.redis.set("pyworkers:lease:other", 1)
    life.redis.set("pyworkers:process:taken", "other")
    try:
        life.broker.beat(Presence("me", {"q": 1}, "taken"))
    except BrokerError as error:
        return "is in use by other" in str(error)
    return False


def meets_the_fleet(life: Life) -> object:
    life.redis.sadd("processes", "gone:1:aaaaaaaaaaaa")
    me = "host:1:bbbbbbbbbbbb"
    life.redis.lpush(f"{me}-signals", "TSTP")
    membership = Membership(life.connections, Keys(), Member(1.0, {"q": 1}))
    running = {"worker:q:1": begun(Delivery(job(), "q", me), 1.0)}
    words = membership.meet(me, ProcessSnapshot(running, quiet=False, rss=1, round_trip_s=0.1, at=1.0, embedded=False))
    keys = ("processes", me, f"{me}:work", f"{me}:workers", f"{me}-signals", "process_cleanup")
    shown = [life.redis.exists(key) for key in keys], life.redis.scard("processes")
    membership.leave()
    return words, shown, [life.redis.exists(key) for key in keys], life.redis.ttl(me)


def sees_what_is_paused(life: Life) -> object:
    return life.broker.paused()


def writes_metrics(life: Life) -> object:
    for layout in "78":
        SidekiqMetrics(life.connections, Keys(), layout).write({"J": Executions(1, 0, 5, (1, *[0] * 25))}, at=0.0)
    return sorted(key for pattern in ("j|*", "h|*", "J-*") for key in life.redis.keys(pattern))


def leaves(life: Life) -> object:
    return len(list(life.broker.leave("me"))), life.redis.exists("queue:q:me:inprogress", "pyworkers:lease:me")


STEPS: list[Callable[[Life], Any]] = [
    beats, pushes, fetches, fetches_a_large_job, waits_for_a_job, is_woken, succeeds, retries, gives_back, dies,
    counts_for_a_time_only, promotes, promotes_what_others_promote_too, recovers, takes_the_name_of_another,
    meets_the_fleet, writes_metrics, sees_what_is_paused, leaves,
]  # fmt: skip


@pytest.fixture(scope="module")
def expected(walled: Walled) -> dict[str, object]:
    """With all of them."""
    walled.allow(*RULES)
    told = everything(walled)
    assert not walled.denied()
    assert not [answer for answer in told.values() if isinstance(answer, Exception)]
    return told


def test_the_rules_stand_by_themselves_and_name_every_command() -> None:
    assert RULES[1:3] == ["reset", "on"]
    assert {word[0] for word in RULES[3:]} == {">", "~", "+"}
    assert "~*" not in PATTERNS
    assert not [command for command in COMMANDS if command.startswith("+@") or command[1:] in OPTIONAL]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_without_one_of_the_commands_something_breaks(
    walled: Walled, expected: dict[str, object], command: str
) -> None:
    walled.allow(*RULES, f"-{command[1:]}")
    assert everything(walled) != expected
    assert walled.denied() >= {command[1:]}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_without_one_of_the_patterns_something_breaks(
    walled: Walled, expected: dict[str, object], pattern: str
) -> None:
    walled.allow(*(word for word in RULES if word != pattern))
    assert everything(walled) != expected


# --- what is said and what still works without them


def test_the_documented_rules_are_those_of_the_table() -> None:
    assert RULES[:3] == ["pyworkers", "reset", "on"]
    assert RULES[4:] == access.rules(Config())


def test_the_rules_of_a_configuration_are_the_smallest_that_it_needs() -> None:
    def told(**options: Any) -> str:
        return "\n".join(access.lines(Config(**options)))

    every = set(access.rules(Config()))
    assert every - set(access.rules(Config(metrics="off"))) == {"~j|*", "~h|*", "~*-??-??:*", "+hincrby", "+bitfield"}
    assert every - set(access.rules(Config(metrics="8"))) == {"~*-??-??:*"}
    assert set(access.rules(Config(redis="redis://h/3"))) - every == {"+select"}
    assert set(access.rules(Config(redis="sentinel://h:1/service/3"))) - every == {"+select"}
    assert " ~a\\[b:queue:* " in told(namespace="a[b")
    assert " ~queue:* " not in told(namespace="a[b")
    assert told(redis="redis://some%20body:secret@h/0").startswith("ACL SETUSER some body reset on >PASSWORD ")
    assert "secret" not in told(redis="redis://u:secret@h/0")
    assert told(redis="sentinel://h:1/s").endswith("+sentinel|masters")


def test_a_daemon_works_under_exactly_the_rules_that_are_printed_for_it(walled: Walled, tmp_path: Path) -> None:
    flags = ("--namespace", "{jobs}", "--metrics", "8", "--process", "one")
    printed = pyworkers("doctor", "--acl", *flags, cwd=tmp_path, PYWORKERS_REDIS=walled.url)
    assert (printed.returncode, printed.stderr) == (0, "")
    words = printed.stdout.split()
    assert words[:2] == ["ACL", "SETUSER"]
    walled.allow(*(word.replace(">PASSWORD", f">{PASSWORD}") for word in words[2:]))
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        daemon = fleet.start("-q", "q", *flags).ready()
        walled.redis.lpush("{jobs}:queue:q", job("Short", jid="a"))
        fleet.await_run("began", "a")
        assert daemon.stop() == 0
        assert "access rules" not in daemon.output
    assert walled.denied() <= {"info"}
    assert all(key.startswith(b"{jobs}:") for key in walled.redis.scan_iter())


@pytest.mark.parametrize("command", sorted(ASKED))
def test_a_refusal_names_the_command_that_is_missing(walled: Walled, command: str) -> None:
    walled.allow(*RULES, f"-{command.lower()}")
    [words] = [words for words in probes(Keys()) if words[0] == command][:1]
    with (
        closing(Connections(walled.url)) as connections,
        pytest.raises(BrokerRefused, match=rf"do not allow {command}: add \+{command.lower()} "),
    ):
        connections.call(*words)


SCRIPTS = [Script(path) for path in sorted((Path(access.__file__).parent / "lua").glob("*.lua"))]


@pytest.mark.parametrize("command", sorted(ASKED & set().union(*(one.commands for one in SCRIPTS)) - {"TIME"}))
def test_a_script_that_is_refused_a_command_names_it_too(walled: Walled, tmp_path: Path, command: str) -> None:
    """The server itself does so from 7.2 on."""
    [words] = [words for words in probes(Keys()) if words[0] == command][:1]
    (tmp_path / "own.lua").write_text(f"return redis.call('{command}', KEYS[1], unpack(ARGV))")
    walled.allow(*RULES, f"-{command.lower()}")
    with (
        closing(Connections(walled.url)) as connections,
        pytest.raises(BrokerRefused, match=rf"do not allow {command}: add \+{command.lower()} "),
    ):
        connections.script(Script(tmp_path / "own.lua"), [str(words[1])], words[2:])
    assert walled.redis.keys() == []


@pytest.mark.parametrize("command", ["lrem", "rpush", "zadd"])
def test_an_error_that_a_script_gives_back_names_the_command_too(walled: Walled, command: str) -> None:
    walled.allow(*RULES, f"-{command}")
    raw = job()
    walled.redis.lpush("queue:q:me:inprogress", raw)
    with own_broker(walled.url) as broker:
        [told] = broker.settle(Batch("s", 1, "q", [(Delivery(raw, "q", "me"), Retry(2.0, raw))]))
    assert str(told).startswith(f"the server's access rules do not allow {command.upper()}: add +{command} ")
    assert walled.redis.lrange("queue:q:me:inprogress", 0, -1) == [raw]


@pytest.mark.parametrize(
    "ask",
    [
        lambda connections, script: connections.call("GET", "mine"),
        lambda connections, script: connections.transaction([("GET", "mine")]),
        lambda connections, script: connections.script(script, ["mine"], []),
    ],
    ids=["call", "transaction", "script"],
)
def test_a_refusal_names_the_keys_that_are_missing(
    walled: Walled, tmp_path: Path, ask: Callable[[Connections, Script], object]
) -> None:
    (tmp_path / "own.lua").write_text("return redis.call('GET', KEYS[1])")
    walled.allow(*RULES)
    with closing(Connections(walled.url)) as connections, pytest.raises(BrokerRefused, match="add a pattern for ~mine"):
        ask(connections, Script(tmp_path / "own.lua"))


def test_a_user_who_may_only_push_enqueues_without_an_error(own_redis: RedisServer) -> None:
    """Nothing that goes wrong after the push is an error: a program would push again."""
    own_redis.client().execute_command("ACL", "SETUSER", "pusher", "on", ">secret", "~queue*", "+@all")
    url = own_redis.url.replace("//", "//pusher:secret@")
    done = pyworkers("enqueue", "-q", "q", "J", PYWORKERS_REDIS=url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) == 24
    assert own_redis.client().llen("queue:q") == 1


@pytest.mark.parametrize(("command", "told"), [("LPUSH", True), ("BITPOS", False)])
def test_a_command_of_somebody_elses_is_not_said_to_be_among_ours(walled: Walled, command: str, told: bool) -> None:
    walled.allow(*RULES, f"-{command.lower()}")
    with closing(Connections(walled.url)) as connections, pytest.raises(BrokerRefused) as caught:
        connections.call(command, "queue:q", 1)
    assert f"add +{command.lower()}" in str(caught.value)
    assert ("doctor --acl" in str(caught.value)) == told


@pytest.mark.parametrize(
    ("feature", "warning"),
    [
        ("pauses", "cannot see which queues are paused: "),
        ("fleet", "cannot be shown to the fleet or asked by it: "),
        ("metrics", "nothing can be written for Sidekiq's Metrics page: "),
        ("wake", ""),
    ],
)
def test_without_the_rules_of_a_feature_only_that_is_missing(
    walled: Walled, tmp_path: Path, feature: str, warning: str
) -> None:
    of_feature = {one.name: one.commands.split() for one in access.FEATURES} | {"wake": ["client|unblock"]}
    walled.allow(*RULES, *(f"-{command}" for command in of_feature[feature]))
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        daemon = fleet.start("-q", "q", "--metrics", "8", prefix=hasty()).ready()
        fleet.push("a", "Short")
        fleet.await_run("began", "a")
        if warning:
            daemon.says(f"{warning}the server's access rules do not allow ")
        fleet.push("b", "Short")
        fleet.await_run("began", "b")
        assert daemon.stop() == 0
        assert daemon.output.count(warning) == 1 or not warning
        assert " ERROR: " not in daemon.output
    assert walled.redis.get("stat:processed") == b"2"
    assert not walled.redis.keys("queue:*")


@pytest.mark.parametrize("size", [1, 2_000])
@pytest.mark.parametrize("command", ["lpush", "ltrim", "rpoplpush", "lrange"])
def test_a_fetch_that_is_not_allowed_one_of_its_commands_copies_no_job(walled: Walled, command: str, size: int) -> None:
    walled.allow(*RULES, f"-{command}")
    raws = [job("J", "x" * size, number) for number in range(3)]
    walled.redis.lpush("queue:q", *raws)
    with own_broker(walled.url) as broker:
        for _ in range(2):
            with suppress(BrokerError):
                broker.fetch("me", "q", 3)
    assert walled.redis.llen("queue:q") + walled.redis.llen("queue:q:me:inprogress") == 3
