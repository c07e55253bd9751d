"""The access rules in the docs: all features work with exactly these rules, and each rule is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from access_rules import COMMANDS, OPTIONAL, PASSWORD, PATTERNS, RULES
from apps import job, own_broker
from daemon import pyworkers
from fleet import Fleet
from hasty import hasty
from lua_sets import word_sets
from oldest_redis import OldestRedis
from process_life import STEPS, ProcessLife
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.driver.composition import scripts
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server import access
from goworkers_py.brokers.redis.server.access import probes
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.outcome import Retry
from goworkers_py.features.batches.batch import Membership, NewBatch
from goworkers_py.features.batches.contract import Batches

ADMIN, ADMIN_PASSWORD = "admin", "of-the-admin"
ONLY_FOR_SPEED = {"lpos", "lset", "sscan", "publish", "subscribe", "unsubscribe"}
ASKED = {words[0] for words in probes(Keys())} - {"CLIENT"}


class Walled:
    """A server with two users: `pyworkers` with the documented rules, and the test itself."""

    def __init__(self, server: RedisServer) -> None:
        with closing(redis_py.Redis(port=server.port)) as first:
            first.execute_command("ACL", "SETUSER", ADMIN, "on", f">{ADMIN_PASSWORD}", "~*", "&*", "+@all")
        self.redis = redis_py.Redis(port=server.port, username=ADMIN, password=ADMIN_PASSWORD)
        self.redis.execute_command("ACL", "SETUSER", "default", "off")
        self.url = server.url.replace("//", f"//pyworkers:{PASSWORD}@")

    def allow(self, *rules: str) -> None:
        """Allows these commands and keys only."""
        self.redis.flushall()
        self.redis.script_flush()
        self.redis.execute_command("ACL", "SETUSER", *rules)
        self.redis.acl_log_reset()

    def denied(self) -> set[str]:
        """The commands and keys that the server refused (it tells ten unless asked), but for the driver's greeting."""
        return {entry["object"] for entry in self.redis.acl_log(128)} - {"client|setinfo"}


@pytest.fixture(scope="module")
def server(server_program: str) -> Iterator[RedisServer]:
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


@pytest.mark.server
def test_redis_6_2_takes_the_documented_rules_and_does_everything_under_them() -> None:
    with closing(OldestRedis(appendonly="no")) as server:
        walled = Walled(server)
        walled.allow(*RULES)
        told = everything(walled)
        assert walled.denied() <= {"client"}  # 6.2 does not say that `client setinfo` was refused
        assert not [answer for answer in told.values() if isinstance(answer, Exception)]


# --- without one of them


def everything(walled: Walled) -> dict[str, object]:
    """Everything that a process asks of the server in its life."""
    told: dict[str, object] = {}
    with (
        own_broker(walled.url, dead_max_jobs=2, dead_timeout=100) as broker,
        closing(Connections(walled.url)) as connections,
    ):
        life = ProcessLife(broker, walled.redis, connections)
        for step in STEPS:
            try:
                told[step.__name__] = step(life)
            except Exception as error:  # whatever error it is
                told[step.__name__] = error
        try:
            stats = broker.admin.stats()
            told["stats"] = (stats.processed, stats.failed, stats.dead, [queue.name for queue in stats.queues])
            told["in progress"] = (stats.in_progress, stats.processes)
        except Exception as error:
            told["stats"] = error
    return told


@pytest.fixture(scope="module")
def expected(walled: Walled) -> dict[str, object]:
    """With all rules."""
    walled.allow(*RULES)
    told = everything(walled)
    assert not walled.denied()
    assert not [answer for answer in told.values() if isinstance(answer, Exception)]
    return told


def test_the_documented_rules_use_no_categories_and_name_every_command() -> None:
    assert RULES[1:3] == ["reset", "on"]
    assert {word[0] for word in RULES[3:] if word != "resetchannels"} == {">", "~", "&", "+"}
    assert "~*" not in PATTERNS
    assert not [command for command in COMMANDS if command.startswith("+@") or command[1:] in OPTIONAL]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_without_one_of_the_commands_something_breaks(
    walled: Walled, expected: dict[str, object], command: str
) -> None:
    walled.allow(*RULES, f"-{command[1:]}")
    told = everything(walled)
    differs = {name: (value, told.get(name)) for name, value in expected.items() if value != told.get(name)}
    assert bool(differs) == (command[1:] not in ONLY_FOR_SPEED), differs
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
    assert every - set(access.rules(Config(metrics="off"))) == {"+bitfield"}
    assert every == set(access.rules(Config(metrics="8")))  # the runs of others are read in both layouts
    assert set(access.rules(Config(broker="redis://h/3"))) - every == {"+select"}
    assert set(access.rules(Config(broker="sentinel://h:1/service/3"))) - every == {"+select"}
    assert set(access.rules(Config(broker="unix:///run/redis.sock?db=3"))) - every == {"+select"}
    assert set(access.rules(Config(broker="redis://h?db=3"))) - every == {"+select"}
    assert "+select" not in access.rules(Config(broker="unix:///run/redis.sock"))
    assert " ~a\\[b:queue:* " in told(namespace="a[b")
    assert " ~queue:* " not in told(namespace="a[b")
    assert told(broker="redis://some%20body:secret@h/0").startswith("ACL SETUSER some body reset on >PASSWORD ")
    assert "secret" not in told(broker="redis://u:secret@h/0")
    assert told(broker="sentinel://h:1/s").endswith("+sentinel|masters")


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


SCRIPTS = [Script(path, words=words) for path in scripts() for words in word_sets(path)]


@pytest.mark.parametrize("command", sorted(ASKED & set().union(*(one.commands for one in SCRIPTS)) - {"TIME"}))
def test_a_script_that_is_refused_a_command_names_it_too(walled: Walled, tmp_path: Path, command: str) -> None:
    """Since 7.2 the server itself names the command."""
    [words] = [words for words in probes(Keys()) if words[0] == command][:1]
    (tmp_path / "own.lua").write_text(f"return redis.call('{command}', KEYS[1], unpack(ARGV))")
    walled.allow(*RULES, f"-{command.lower()}")
    with (
        closing(Connections(walled.url)) as connections,
        pytest.raises(BrokerRefused, match=rf"do not allow {command}: add \+{command.lower()} "),
    ):
        connections.script(Script(tmp_path / "own.lua"), [str(words[1])], words[2:])
    assert walled.redis.keys() == []


@pytest.mark.parametrize("command", ["hincrby", "hset"])
def test_a_batch_that_cannot_be_opened_leaves_nothing(walled: Walled, command: str) -> None:
    walled.allow(*RULES, f"-{command}")
    with own_broker(walled.url) as broker, pytest.raises(BrokerRefused, match=rf"\+{command} "):
        broker.require_part(Batches).open(NewBatch(Membership("bid"), "import", "hold"))
    assert walled.redis.keys() == []


@pytest.mark.parametrize("command", ["lrem", "rpush", "zadd"])
def test_an_error_that_a_script_gives_back_names_the_command_too(walled: Walled, command: str) -> None:
    walled.allow(*RULES, f"-{command}")
    payload = job()
    walled.redis.lpush("queue:q:me:inprogress", payload)
    with own_broker(walled.url) as broker:
        [told] = broker.transport.settle(SettlementBatch("s", 1, [(Delivery(payload, "q", "me"), Retry(2.0, payload))]))
    assert str(told).startswith(f"the server's access rules do not allow {command.upper()}: add +{command} ")
    assert walled.redis.lrange("queue:q:me:inprogress", 0, -1) == [payload]


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
    """A failure after the push must not be an error: the program would push again."""
    own_redis.client().execute_command("ACL", "SETUSER", "pusher", "on", ">secret", "~queue*", "+@all")
    url = own_redis.url.replace("//", "//pusher:secret@")
    done = pyworkers("enqueue", "-q", "q", "J", PYWORKERS_REDIS=url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) == 24
    assert own_redis.client().llen("queue:q") == 1


@pytest.mark.parametrize(("command", "told"), [("LPUSH", True), ("BITPOS", False)])
def test_a_refused_command_that_pyworkers_never_sends_is_not_called_one_of_its_rules(
    walled: Walled, command: str, told: bool
) -> None:
    walled.allow(*RULES, f"-{command.lower()}")
    with closing(Connections(walled.url)) as connections, pytest.raises(BrokerRefused) as caught:
        connections.call(command, "queue:q", 1)
    assert f"add +{command.lower()}" in str(caught.value)
    assert ("doctor --acl" in str(caught.value)) == told


@pytest.mark.parametrize(
    ("feature", "warning"),
    [
        ("pauses", "cannot read which queues are paused: "),
        ("fleet", "cannot be shown to the fleet or asked by it: "),
        ("metrics", "nothing can be written for Sidekiq's Metrics page: "),
        ("commands with answers", "commands cannot be read and answered: "),
        ("wake", ""),
    ],
)
def test_without_the_rules_of_a_feature_only_that_feature_is_off(
    walled: Walled, tmp_path: Path, feature: str, warning: str
) -> None:
    of_feature = {rules.name: rules.commands.split() for rules in access.all_rules()} | {"wake": ["client|unblock"]}
    walled.allow(*RULES, *(f"-{command}" for command in of_feature[feature]))
    with Fleet(tmp_path, walled.url, walled.redis) as fleet:
        daemon = fleet.start("-q", "q", "--metrics", "8", prefix=hasty({"timing.beat_every_s": 0.5})).ready()
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
    walled.redis.lpush("queue:q", *(job("J", "x" * size, number) for number in range(3)))
    with own_broker(walled.url) as broker:
        for _ in range(2):
            with suppress(BrokerError):
                broker.transport.consume("me", [("q", 3)], 3)
    assert walled.redis.llen("queue:q") + walled.redis.llen("queue:q:me:inprogress") == 3
