"""The server's access rules (ACL): the commands and key patterns that jobs need, and each ability beside them.

`pyworkers doctor --acl` prints the rules for a configuration; docs/access.md has the rules for all features. When
the server refuses a command, the error names the missing rule, see `refusal`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from urllib.parse import parse_qs, unquote, urlsplit

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.key_patterns import literally
from goworkers_py.config.cluster_address import is_cluster
from goworkers_py.config.options import Config
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one ability. An ability without its rules is off, and jobs run all the same. Only the first one is
    needed to run jobs."""

    name: str
    commands: str
    patterns: str  # without the namespace
    wanted: Callable[[Config], bool] = lambda config: True
    channels: str = ""


_JOBS = Rules(
    "jobs",
    "client|setname client|id client|unblock multi exec eval evalsha time get set del exists expire incrby lpush "
    "rpush lrange lindex llen lrem ltrim rpoplpush brpoplpush sadd zadd zcard zrem zmscore zrangebyscore "
    "zremrangebyscore zremrangebyrank hget hgetall hset hsetnx hexists hdel",
    "queues queue:* schedule retry dead stat:* pyworkers:*",
)
_OTHERS = (
    Rules("speed of large jobs", "lpos lset", ""),
    Rules("the audit list", "xadd xrevrange", ""),
    Rules("pauses", "smembers", "paused"),
    # The keys of a process begin with its identity, host:pid:nonce.
    Rules("fleet", "srem smembers rpop", "processes process_cleanup *:*:????????????*"),
    Rules("metrics", "hincrby bitfield", "", lambda config: config.metrics != "off"),
    # Read in both layouts, whatever this process writes: other programs write too.
    Rules("reading metrics", "hlen hmget hscan", "j|* *-??-??:* h|* ????????-marks"),
    Rules("another database", "select", "", lambda config: _database(config.broker) not in ("", "0")),
    Rules("a cluster", "cluster|slots asking", "", lambda config: is_cluster(config.broker)),
)


@dataclass(frozen=True, slots=True)
class ProducerRight:
    """The commands that a producer may use on some keys. No other command may touch these keys, and these commands no
    others: a command that a lock needs, such as DEL or EXPIRE, would delete a queue."""

    commands: str
    patterns: str = ""  # without the namespace, as are the channels
    channels: str = ""
    scripted: bool = True  # a script touches these keys


# A probe is a command with its arguments, by which the server says whether it is allowed. No probe is ever run.
Probe = tuple[str | int, ...]


def _no_probes(keys: Keys) -> list[Probe]:
    return []


def _none_named(config: Config) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class FeatureAccess:
    """The rules of a feature: a module `access` in its folder gives them."""

    rules: Sequence[Rules] = ()
    producer: Sequence[ProducerRight] = ()
    probes: Callable[[Keys], list[Probe]] = _no_probes
    # Of keys whose names the configuration has, with the namespace: patterns, and the rights of a producer.
    named_keys: Callable[[Config], Sequence[str]] = _none_named
    named_pushes: Callable[[Config], Sequence[ProducerRight]] = _none_named


# Pushes of each kind.
_PRODUCER = (
    ProducerRight("lpush llen", "queue:*"),
    ProducerRight("sadd", "queues"),
    ProducerRight("zadd zcard", "schedule"),
    # All commands of ties are tried on a key that is not there, before the first write of several pushes.
    ProducerRight(
        "zadd lrem lpush rpush hmget hget hlen hexists hset hdel hincrby llen expire persist srem sadd",
        "pyworkers:none:*",
    ),
    # Which processes live and work a queue.
    ProducerRight("hgetall exists", "pyworkers:owners pyworkers:gone pyworkers:lease:*", scripted=False),
)


@cache
def _of_features() -> list[FeatureAccess]:
    return [access for feature in FEATURES if (access := feature.access()) is not None]


@cache
def all_rules() -> list[Rules]:
    return [_JOBS, *(rules for access in _of_features() for rules in access.rules), *_OTHERS]


# Redis 6.2 gives a new user all channels, and refuses to add patterns to them. Since 7.0 a new user has no channels.
_NO_CHANNELS = "resetchannels"


def producer_rules(config: Config) -> list[str]:
    """The words after ACL SETUSER for a program that only pushes: first the commands without keys, then a selector for
    each kind of key, which Redis knows since release 7."""
    of_address = [
        rules for rules in _OTHERS if rules.name in ("another database", "a cluster") and rules.wanted(config)
    ]
    keyless = ["client|setname multi exec time", *(rules.commands for rules in of_address)]
    rights = [*_PRODUCER, *(right for access in _of_features() for right in access.producer)]
    scripts = ProducerRight("eval evalsha", " ".join(right.patterns for right in rights if right.scripted))
    selectors = [_selector(right, _prefix(config)) for right in (*rights, scripts)]
    selectors += [_selector(right, "") for access in _of_features() for right in access.named_pushes(config)]
    return [*(f"+{command}" for words in keyless for command in words.split()), _NO_CHANNELS, *selectors]


def _selector(right: ProducerRight, prefix: str) -> str:
    patterns = [
        *(f"~{prefix}{pattern}" for pattern in right.patterns.split()),
        *(f"&{prefix}{channel}" for channel in right.channels.split()),
    ]
    return f"({' '.join([*patterns, *(f'+{command}' for command in right.commands.split())])})"


def rules(config: Config) -> list[str]:
    """The words after ACL SETUSER, without the password: first the patterns of keys and channels, then the commands,
    each word once."""
    wanted = [rules for rules in all_rules() if rules.wanted(config)]
    prefix = _prefix(config)
    patterns = [f"~{prefix}{pattern}" for rules in wanted for pattern in rules.patterns.split()]
    patterns += [_NO_CHANNELS, *(f"&{prefix}{pattern}" for rules in wanted for pattern in rules.channels.split())]
    commands = [f"+{command}" for rules in wanted for command in rules.commands.split()]
    named = [f"~{pattern}" for access in _of_features() for pattern in access.named_keys(config)]
    return list(dict.fromkeys([*patterns, *named, *commands]))


def _prefix(config: Config) -> str:
    return literally(Keys(config.namespace).prefix)


def lines(config: Config, producer: bool = False) -> Iterator[str]:
    """The commands for an administrator to paste, who writes a password in place of PASSWORD."""
    user, words = ("producer", producer_rules(config)) if producer else ("pyworkers", rules(config))
    if producer:
        yield (
            "# for Redis 7 or later and Valkey. Redis 6.2 knows no brackets: leave them out there, and this user can "
            "delete queues too"
        )
    if is_cluster(config.broker):
        yield "# on each node of the cluster, also on the replicas, which may become masters:"
    yield " ".join(["ACL SETUSER", _user(config.broker) or user, "reset on >PASSWORD", *words])
    if config.broker.startswith("sentinel://"):
        yield (
            "# and on each sentinel, where it has users (?sentinel_username=...&sentinel_password=...):\n"
            f"ACL SETUSER {user} reset on >PASSWORD +sentinel|masters"
        )


def _user(address: str) -> str:
    login = urlsplit(address).netloc.rpartition("@")[0]
    return unquote(login.partition(":")[0])


def _database(address: str) -> str:
    if "://" not in address or is_cluster(address):
        return ""
    parts = urlsplit(address)
    database = parse_qs(parts.query).get("db", [""])[0]  # goes before that in the path
    return database or ("" if parts.scheme == "unix" else parts.path.rpartition("/")[2])


# A day and an hour of one digit: Sidekiq 7 and 8 write them in different ways.
_EARLY = datetime.datetime(2025, 2, 4, 8, 3, tzinfo=datetime.timezone.utc)


def probes(keys: Keys) -> list[Probe]:
    """A probe of each command that a process sends, and of each kind of key."""
    queue, held = keys.queue("default"), keys.inprogress("default", "doctor")
    member = "doctor:1:aaaaaaaaaaaa"
    return [
        ("LPUSH", queue, ""), ("RPUSH", queue, ""), ("LLEN", queue), ("LINDEX", queue, -1), ("LRANGE", held, 0, 0),
        ("LREM", held, -1, ""), ("LTRIM", queue, 0, -1), ("LPOS", held, ""), ("LSET", held, 0, ""),
        ("RPOPLPUSH", queue, held), ("BRPOPLPUSH", queue, held, 1),
        ("SADD", keys.queues, ""), ("SMEMBERS", keys.paused), ("SREM", keys.processes, ""),
        ("ZADD", keys.schedule, 0, ""), ("ZADD", keys.retry, 0, ""), ("ZADD", keys.dead, 0, ""),
        ("ZCARD", keys.retry), ("ZREM", keys.retry, ""), ("ZMSCORE", keys.retry, ""),
        ("ZRANGEBYSCORE", keys.retry, 0, 0), ("ZREMRANGEBYSCORE", keys.dead, 0, 0),
        ("ZREMRANGEBYRANK", keys.dead, 0, 0),
        ("GET", keys.processed), ("INCRBY", keys.failed, 1), ("SET", keys.lease(member), ""), ("DEL", keys.nothing),
        ("EXISTS", keys.nothing), ("EXPIRE", keys.nothing, 1), ("HGET", keys.owners, ""), ("HGETALL", keys.owners),
        ("HSET", keys.member(member), "", ""), ("HSETNX", keys.gone, "", ""), ("HEXISTS", keys.gone, ""),
        ("HDEL", keys.gone, ""), ("RPOP", keys.signals(member)), ("SET", keys.process_cleanup, ""),
        ("HINCRBY", keys.minute_of_eight(_EARLY), "", 1), ("BITFIELD", keys.histogram_of_seven("J", _EARLY)),
        ("BITFIELD", keys.histogram_of_eight("J", _EARLY)), ("HSCAN", keys.marks(_EARLY), 0),
        ("SSCAN", keys.lines, 0),
        *(probe for access in _of_features() for probe in access.probes(keys)),
        ("XADD", keys.audit, "*", "", ""), ("XREVRANGE", keys.audit, "+", "-"),
        ("TIME",), ("EVAL", "return 1", 0), ("EVALSHA", "0" * 40, 0), ("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0),
    ]  # fmt: skip
