from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from goworkers_py import App
from goworkers_py.config.loader import load
from goworkers_py.config.options import Config, MiddlewareConfig, PoolConfig, QueueConfig, options_of
from goworkers_py.config.parsers import with_password, without_password
from goworkers_py.core.errors import ConfigError

SAMPLES = sorted((Path(__file__).parents[2] / "conf").glob("*.ini"))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "conf.ini"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(*arguments, **{"environment": {}} | options)
    return str(refused.value)


# --- defaults, file, environment, flags


def test_without_any_source_the_defaults_are_used() -> None:
    assert load(environment={}) == Config()


def test_options_that_sidekiq_and_go_workers_have_share_their_defaults() -> None:
    config = Config()
    assert (config.max_retries, config.dead_max_jobs, config.dead_timeout) == (25, 10_000, 180 * 86_400)
    assert (config.timeout, config.poll_interval, QueueConfig("a").concurrency) == (25, 5, 10)


@pytest.mark.parametrize(
    "line",
    ["timeout = 0", "poll_interval = 0.01", "poll_interval = 3600", "max_retries = 0", "dead_max_jobs = 1",
     "dead_timeout = 1", "[queue:a]\nconcurrency = 1", "[queue:a]\nconcurrency = 10000", "[queue:a]\nprefetch = 10000"],
)  # fmt: skip
def test_the_bounds_themselves_are_allowed(write: Any, line: str) -> None:
    assert load(write(f"[pyworkers]\n{line}"), {}) != Config()


def test_every_option_can_be_given_in_a_file(write: Any) -> None:
    path = write(
        """
        # a comment
        [pyworkers]
        redis = rediss://user:p%40ss%%@host:6380/2    ; p%40ss%% is not interpolated
        data_dir = /var/lib/pyworkers
        namespace = shop
        process = 1
        require = shop.jobs, shop.reports
            shop.more
        timeout = 7.5
        poll_interval = 2
        max_retries = 3
        timestamps = ms
        dead_max_jobs = 100
        dead_timeout = inf
        poison_limit = 0
        poison_window = 3600
        stuck_grace = 2.5
        stuck_spares = 4
        stuck_exit = 2
        log_level = DEBUG
        log_format = json
        [queue:default]
        [queue: a:b ]
        concurrency = 5
        prefetch = 0
        handler = shop.jobs:send_mail
        middleware = shop.mw:Trace, shop.mw:Audit
        [middleware]
        prepend = shop.mw:First
        append = shop.mw:Last
        client = shop.mw:stamp
        """.replace("\n        ", "\n")
    )
    assert load(path, {}) == Config(
        broker="rediss://user:p%40ss%%@host:6380/2",
        data_dir="/var/lib/pyworkers",
        namespace="shop",
        process="1",
        require=("shop.jobs", "shop.reports", "shop.more"),
        timeout=7.5,
        poll_interval=2.0,
        max_retries=3,
        timestamps="ms",
        dead_max_jobs=100,
        dead_timeout=float("inf"),
        poison_limit=0,
        poison_window=3600.0,
        stuck_grace=2.5,
        stuck_spares=4,
        stuck_exit=2,
        log_level="debug",
        log_format="json",
        queues=(
            QueueConfig("default"),
            QueueConfig("a:b", 5, 0, "shop.jobs:send_mail", ("shop.mw:Trace", "shop.mw:Audit")),
        ),
        middleware=MiddlewareConfig(("shop.mw:First",), ("shop.mw:Last",), ("shop.mw:stamp",)),
    )


def test_flags_override_the_environment_and_the_environment_overrides_the_file(write: Any) -> None:
    path = write("[pyworkers]\nnamespace = file\nprocess = file\ntimeout = 1\n")
    environment = {"PYWORKERS_PROCESS": "environment", "PYWORKERS_TIMEOUT": "2", "HOME": "/"}
    config = load(path, environment, {"timeout": "3"})
    assert (config.namespace, config.process, config.timeout) == ("file", "environment", 3.0)


def test_the_environment_of_this_process_is_used_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYWORKERS_NAMESPACE", "from-here")
    assert load().namespace == "from-here"


def test_every_option_can_be_given_in_the_environment_and_by_a_flag() -> None:
    texts = {
        "broker": "embedded",
        "store": "embedded",
        "timestamps": "ms",
        "log_level": "error",
        "log_format": "json",
        "max_memory": "7G",
    }
    texts |= dict.fromkeys(["standby", "prefer_leader", "stats_jobs"], "yes")
    said = {name: texts.get(name, "7") for name in options_of(Config)}
    del said["process"]  # cannot be given together with `processes`
    assert load(environment={"PYWORKERS_PROCESS": "one"}) == load(environment={}, flags={"process": "one"})
    of_environment = load(environment={f"PYWORKERS_{name.upper()}": text for name, text in said.items()})
    assert of_environment == load(environment={}, flags=said)
    assert not [name for name in said if getattr(of_environment, name) == getattr(Config(), name)]


BAD_PORT = "--broker is not an address: only a colon and a port number up to 65535 may follow a host"


@pytest.mark.parametrize("name", ["PYWORKERS_TEST_REDIS", "PYWORKERS_CONFIG", "PYWORKER", "OTHER"])
def test_variables_that_are_not_options_are_ignored(name: str) -> None:
    assert load(environment={name: "x"}) == Config()


def test_the_path_of_the_file_may_be_a_string(write: Any) -> None:
    assert load(str(write("[pyworkers]\nnamespace=x")), {}).namespace == "x"


def test_an_empty_file_gives_the_defaults(write: Any) -> None:
    assert load(write(""), {}) == Config()


@pytest.mark.parametrize(
    ("flags", "queues"),
    [
        ([], (QueueConfig("mail", 5, 0), QueueConfig("default"))),
        (["mail"], (QueueConfig("mail", 5, 0),)),
        (["mail=7"], (QueueConfig("mail", 7, 0),)),
        (["other"], (QueueConfig("other"),)),
        (["other=1", "mail"], (QueueConfig("other", 1), QueueConfig("mail", 5, 0))),
        (["mail=1", "mail=2"], (QueueConfig("mail", 2, 0),)),
    ],
)
def test_queues_named_by_flags_replace_those_of_the_file(
    write: Any, flags: list[str], queues: tuple[QueueConfig, ...]
) -> None:
    path = write("[queue:mail]\nconcurrency = 5\nprefetch = 0\n[queue:default]\n")
    assert load(path, {}, queues=flags).queues == queues


def test_a_pool_names_the_queues_that_share_its_threads(write: Any) -> None:
    path = write(
        "[pool:web]\nqueues = critical, default low\nweights = 6 3 1\nconcurrency = 20\nprefetch = 7\n"
        "[queue:default]\nhandler = a:b\n[pool: jobs ]\nqueues = jobs, more\norder = strict\n[queue:mail]\n"
    )
    config = load(path, {})
    assert config.pools == (
        PoolConfig("web", ("critical", "default", "low"), weights=(6, 3, 1), concurrency=20, prefetch=7),
        PoolConfig("jobs", ("jobs", "more")),
    )
    assert [queue.name for queue in config.queues] == ["default", "mail", "critical", "low", "jobs", "more"]
    assert config.queues[0].handler == "a:b"


def test_queues_named_by_flags_replace_the_pools_of_the_file_too(write: Any) -> None:
    path = write("[pool:web]\nqueues = a, b\n[queue:a]\nhandler = x:y\n")
    config = load(path, {}, queues=["a=3"])
    assert (config.queues, config.pools) == ((QueueConfig("a", 3, handler="x:y"),), ())


@pytest.mark.parametrize("text", ["auto", "AUTO", " auto "])
def test_prefetch_may_be_auto(write: Any, text: str) -> None:
    assert load(write(f"[queue:a]\nprefetch = {text}"), {}).queues == (QueueConfig("a", prefetch=None),)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_a_valid_configuration(path: Path) -> None:
    assert load(path, {}) != Config()


def test_a_poison_limit_of_one_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"poison_limit: one crash does not tell which .* set 2 or more, or 0"):
        Config(poison_limit=1)
    Config(poison_limit=2)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().timeout = 1


@pytest.mark.parametrize("section", [Config, QueueConfig, PoolConfig, MiddlewareConfig])
def test_every_option_has_a_description_and_its_parser_accepts_its_default(section: type[Any]) -> None:
    for name, row in options_of(section).items():
        assert row.metadata["help"], name
        default = row.default
        text = "auto" if default is None else ", ".join(default) if isinstance(default, tuple) else str(default)
        assert row.metadata["parse"](text) == default, name


# --- an option with another name


def test_only_the_brokers_options_have_another_name() -> None:
    aliases = {name: row.metadata["alias"] for name, row in options_of(Config).items() if row.metadata["alias"]}
    assert aliases == {"broker": "redis", "broker_password_file": "redis_password_file"}


@pytest.mark.parametrize("name", ["broker", "redis"])
def test_every_source_accepts_both_names_of_an_option(write: Any, name: str) -> None:
    password_file = f"{name}_password_file"
    meant = Config(broker="redis://h", broker_password_file="p")
    assert load(write(f"[pyworkers]\n{name} = redis://h\n{password_file} = p\n"), {}) == meant
    environment = {f"PYWORKERS_{name.upper()}": "redis://h", f"PYWORKERS_{password_file.upper()}": "p"}
    assert load(environment=environment) == meant
    assert load(environment={}, flags={name: "redis://h", password_file: "p"}) == meant


@pytest.mark.parametrize("of_file", ["broker", "redis"])
@pytest.mark.parametrize("of_environment", ["broker", "redis"])
@pytest.mark.parametrize("of_flags", ["broker", "redis"])
def test_a_later_source_overrides_an_earlier_one_under_either_name(
    write: Any, of_file: str, of_environment: str, of_flags: str
) -> None:
    path = write(f"[pyworkers]\n{of_file} = redis://file\n")
    environment = {f"PYWORKERS_{of_environment.upper()}": "redis://environment"}
    assert load(path, {}).broker == "redis://file"
    assert load(path, environment).broker == "redis://environment"
    config = load(path, environment, {of_flags: "redis://flag"})
    assert (config.broker, config.spelling("broker")) == ("redis://flag", of_flags)


@pytest.mark.parametrize("names", [("broker", "redis"), ("redis", "broker")])
def test_both_names_in_one_source_are_refused(write: Any, names: tuple[str, str]) -> None:
    first, second = names
    path = write(f"[pyworkers]\n{first} = redis://h\n{second} = redis://h\n")
    why = "are two names of one option: leave one of them out"
    assert refusal(path) == f"{path}: [pyworkers] broker and redis {why}"
    environment = {f"PYWORKERS_{name.upper()}": "redis://h" for name in names}
    assert refusal(environment=environment) == f"environment: PYWORKERS_BROKER and PYWORKERS_REDIS {why}"
    flags = {f"{name}_password_file": "p" for name in names}
    assert refusal(flags=flags) == f"--broker-password-file and --redis-password-file {why}"


@pytest.mark.parametrize("name", ["broker", "redis"])
def test_an_error_names_an_option_as_it_was_written(write: Any, name: str) -> None:
    path = write(f"[pyworkers]\n{name} = localhost\n")
    assert refusal(path).startswith(f"{path}: [pyworkers] {name} must be redis://")
    assert refusal(environment={f"PYWORKERS_{name.upper()}": ""}).startswith(
        f"environment: PYWORKERS_{name.upper()} must be redis://"
    )
    assert refusal(flags={name: "localhost"}).startswith(f"--{name} must be redis://")
    assert "; it belongs in the section [pyworkers]" in refusal(write(f"[queue:q]\n{name} = redis://h\n"))


# --- addresses


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("redis://localhost:6379/0", None),
        ("redis://localhost", None),
        ("redis://:secret@10.0.0.1:6380/3?health_check_interval=5", None),
        ("rediss://user:p%23@[::1]:6379", None),
        ("unix:///run/redis.sock", None),
        ("unix:///run/redis.sock?db=2", None),
        ("/run/redis.sock", "unix:///run/redis.sock"),
        (" embedded ", "embedded"),
        ("sentinel://one:26379,two:26379,three/mymaster/0", None),
        ("sentinel://user:p%23@one,[::1]:26380/shop?sentinel_password=other", None),
        (" sentinel://one ", "sentinel://one"),
        ("memory://", None),
        (" memory://shop ", "memory://shop"),
        ("amqp://user:p%23@localhost:5672/vhost", None),
        ("disque://localhost", None),
        ("redis+cluster://one:7000,two,[::1]:7001/jobs", None),
        ("rediss+cluster://user:p%23@one/shop.eu-1?ssl_ca_certs=/a/b", None),
        ("redis+tls://one", None),
        ("s3.v4-x://", None),
    ],
)
def test_addresses_of_every_kind_are_accepted(address: str, meant: str | None) -> None:
    assert load(environment={}, flags={"broker": address}).broker == (meant or address)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("", "--broker must be redis://host:port/db, rediss://..., unix:///path, sentinel://host:port,"),
        ("localhost:6379", "must be redis://host:port/db"),
        ("reddis://localhost", "; did you mean 'redis'?"),
        ("sentinal://localhost", "; did you mean 'sentinel'?"),
        ("memory", "port, memory:// or embedded; did you mean 'memory'?"),
        ("embeded", "; did you mean 'embedded'?"),
        ("embedded://", "; did you mean 'embedded'?"),
        ("rediz://localhost", "; did you mean 'redis'?"),
        ("REDIS://localhost", "; did you mean 'redis'?"),
        ("redsi://localhost", "; did you mean 'redis'?"),
        ("unxi:///run/redis.sock", "; did you mean 'unix'?"),
        ("memroy://", "; did you mean 'memory'?"),
        ("my_broker://localhost", "must be redis://host:port/db"),
        ("://localhost", "must be redis://host:port/db"),
        ("redis://localhost:70000", BAD_PORT),
        ("redis://localhost:abc", BAD_PORT),
        ("redis://[::1", BAD_PORT),
        ("redis://localhost/shop", "--broker must end in the number of a database, not '/shop'"),
        ("redis://localhost/0/1", "not '/0/1'"),
        ("redis://localhost/-1", "not '/-1'"),
        ("redis+cluster://one:7000", "--broker must end in a namespace, a word such as the one in redis+cluster://"),
        ("redis+cluster://one:7000/0", "a cluster has no databases"),
        ("redis+cluster://one:7000/{jobs}", "without braces: {jobs} is written as in redis+cluster://"),
        ("redis+cluster://one:7000/jobs/0", "must end in a namespace of letters"),
        ("redis+cluster://one:70000/jobs", "write the nodes as host:port, with commas between them"),
        ("redis+cluster://one,/jobs", "write the nodes as host:port, with commas between them"),
        ("rediss+cluster://u:pa/ss@one/jobs", "has an @ after its host"),
    ],
)
def test_a_wrong_address_is_refused(address: str, told: str) -> None:
    assert told in refusal(flags={"broker": address})


ONE_SHARDS = "shards:redis://u:word@a/0,redis://u:word@b/0"
SHARDS_ARE_GONE = (
    "names shards, which are gone: write a [partition:NAME] for each Redis, with its own broker and queues; or on "
    "Redis Cluster, partitions with a namespace each, which it places, moves and fails over itself; see docs/growing.md"
)


@pytest.mark.parametrize("address", [ONE_SHARDS, "shards:one=redis://a,two=redis://b", "shards:", "shards://a"])
def test_an_address_of_shards_is_refused_with_what_to_write_in_its_place(write: Any, address: str) -> None:
    assert refusal(flags={"broker": address}) == f"--broker {SHARDS_ARE_GONE}"
    assert refusal(flags={"redis": address}) == f"--redis {SHARDS_ARE_GONE}"
    for option in ("broker", "redis"):
        with pytest.raises(ConfigError) as refused:
            App().configure(**{option: address})
        assert str(refused.value).endswith(f"{option} {SHARDS_ARE_GONE}")
    assert refusal(environment={"PYWORKERS_REDIS": address}).endswith(f"PYWORKERS_REDIS {SHARDS_ARE_GONE}")
    for option in ("broker", "redis", "store"):
        assert refusal(write(f"[pyworkers]\n{option} = {address}\n")).endswith(f"{option} {SHARDS_ARE_GONE}")
    assert refusal(write(f"[partition:x]\nqueues = q\nbroker = {address}\n")).endswith(f"broker {SHARDS_ARE_GONE}")


@pytest.mark.parametrize(
    "address",
    [
        "redis://u:pa/ss@host/0",
        "redis://u:12/ss@host/0",
        "rediss://u:pa?ss@host/0",
        "redis://u:12#ss@host",
        "sentinel://u:12/ss@one,two/shop",
    ],
)
def test_the_error_about_a_password_that_is_not_escaped_shows_no_part_of_it(address: str) -> None:
    told = "has an @ after its host: in a password or a query, write / ? # @ and % as %2F %3F %23 %40 and %25"
    assert refusal(flags={"broker": address}) == f"--broker {told}"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:secret@localhost/0", "redis://:***@localhost/0"),
        ("rediss://user:secret@localhost/0?password=secret", "rediss://user:***@localhost/0"),
        (
            "sentinel://user:secret@one,two:26380/shop?sentinel_password=secret",
            "sentinel://user:***@one,two:26380/shop",
        ),
        ("redis+cluster://user:secret@one,two/jobs?password=secret", "redis+cluster://user:***@one,two/jobs"),
        ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ("embedded", "embedded"),
    ],
)
def test_an_address_is_shown_without_its_passwords(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    ("address", "whole"),
    [
        ("redis://h:1/0", "redis://:p%40%2F@h:1/0"),
        ("rediss://user@h?ssl_ca_certs=/a/b", "rediss://user:p%40%2F@h?ssl_ca_certs=/a/b"),
        ("unix:///run/redis.sock", "unix://:p%40%2F@/run/redis.sock"),
        ("sentinel://one,[::1]:26380/shop/2?sentinel_username=u", "sentinel://:p%40%2F@one,[::1]:26380/shop/2?sentinel_username=u"),
        ("rediss+cluster://user@one,two/jobs", "rediss+cluster://user:p%40%2F@one,two/jobs"),
        ("sentinel://user@one,two/shop", "sentinel://user:p%40%2F@one,two/shop"),
    ],
)  # fmt: skip
def test_a_password_is_added_to_an_address(address: str, whole: str) -> None:
    assert with_password(address, "p@/") == whole


@pytest.mark.parametrize("address", ["redis://:a@h", "redis://u:@h", "redis://h?password=a", "embedded", "memory://a"])
def test_a_second_password_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="password"):
        with_password(address, "p")


# --- an error is one line with file, section, option and the word that was probably meant


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[pyworkers]\nredsi = x", "[pyworkers] redsi is not an option; did you mean 'redis'?"),
        ("[pyworkers]\nRedis = x", "[pyworkers] Redis is not an option; did you mean 'redis'?"),
        ("[pyworkers]\nbrokr = x", "[pyworkers] brokr is not an option; did you mean 'broker'?"),
        ("[pyworkers]\nconcurrency = 5", "[pyworkers] concurrency is not an option"),
        ("[pyworkers]\nqueues = a", "[pyworkers] queues is not an option"),
        ("[pyworkers]\nname = a", "[pyworkers] name is not an option"),
        ("[queue:mail]\nconcurency = 5", "[queue:mail] concurency is not an option; did you mean 'concurrency'?"),
        ("[queue:mail]\nname = x", "[queue:mail] name is not an option"),
        ("[middleware]\nappends = x", "[middleware] appends is not an option; did you mean 'append'?"),
        ("[pyworker]\n", "[pyworker] is not a section; did you mean 'pyworkers'?"),
        ("[queue]\n", "[queue] is not a section; did you mean 'queue:NAME'?"),
        ("[queue billing]\n", "[queue billing] is not a section; did you mean 'queue:billing'?"),
        ("[pool.web]\n", "[pool.web] is not a section; did you mean 'pool:web'?"),
        ("[middlewares]\n", "[middlewares] is not a section; did you mean 'middleware'?"),
        ("[DEFAULT]\nredis = x", "[DEFAULT] is not a section"),
        ("[queue:]\n", "[queue:] needs the queue's name: [queue:default]"),
        ("[queue: ]\n", "[queue: ] needs the queue's name"),
        ("[pool]\n", "[pool] is not a section; did you mean 'pool:NAME'?"),
        ("[pool:web]\nqueues = a\n[pool: web]\nqueues = b\n", "[pool:web] is there twice; make one section of both"),
        ("[pool:]\n", "[pool:] needs the pool's name: [pool:web]"),
        ("[pool:web]\n", "[pool:web] queues must name the pool's queues, such as: queues = critical, default, low"),
        ("[pool:web]\nqueue = a, b", "[pool:web] queue is not an option; did you mean 'queues'?"),
        ("[pool:web]\nhandler = a:b", "handler is not an option; it belongs in a section [queue:NAME] for each queue"),
        ("[pool:web]\ntimeout = 5", "timeout is not an option; it belongs in the section [pyworkers]"),
        ("[pyworkers]\nconcurency = 5", "did you mean 'concurrency'? It belongs in a section [queue:NAME]"),
        ("[queue:web]\nweights = 5", "weights is not an option; it belongs in a section [pool:NAME]"),
        ("[pool:web]\nqueues = a, b, a", "[pool:web] queues: 'a' is named twice; name each queue once, in one pool"),
        ("[pool:web]\nqueues = a\n[pool:b]\nqueues = b, a", "[pool:b] queues: 'a' is in [pool:web] too; name each"),
        ("[pool:web]\nqueues = a:3, b:1", "[pool:web] queues: for shares write queues = a, b and weights = 3, 1"),
        (
            "[pool:web]\nqueues = a, b\norder = random",
            "[pool:web] order must be strict, is 'random'; for shares leave it out and set weights",
        ),
        ("[pool:web]\nqueues = a, b\nweights = 3", "[pool:web] weights: 1 for 2 queues; give one for each of a, b, in"),
        ("[pool:web]\nqueues = a, b\nweights = 3, 0", "weights must be whole numbers from 1 on, such as 6, 3, 1; is"),
        ("[pool:web]\nqueues = a, b\nweights = 3, -1", "weights must be whole numbers from 1 on, such as 6, 3, 1"),
        (
            "[pool: web ]\nqueues = a, b\norder = strict\nweights = 3, 1",
            "[pool:web] order and weights: leave one of them out",
        ),
        (
            "[pool:web]\nqueues = a, b\n[queue: b]\nhandler = x:y\nconcurrency = 5",
            "[queue:b] concurrency: the queue shares the threads of [pool:web]; set concurrency there, or take",
        ),
        ("[pool:web]\nqueues = a, b\n[queue:b]\nprefetch = 5", "[queue:b] prefetch: the queue shares the threads of"),
        ("[pool:web]\nqueues = a\n[queue:web]\n", "[pool:web] has the name of queue 'web', which has threads of its"),
        ("[pyworkers]\ntimeout = soon", "[pyworkers] timeout must be a number of seconds, is 'soon'"),
        ("[pyworkers]\ntimeout = nan", "[pyworkers] timeout must be a number of seconds, is 'nan'"),
        ("[pyworkers]\ntimeout = -1", "[pyworkers] timeout must be at least 0, is -1"),
        ("[pyworkers]\ntimeout = inf", "[pyworkers] timeout must be at most 31536000, is inf"),
        ("[pyworkers]\npoll_interval = 0", "[pyworkers] poll_interval must be at least 0.01, is 0"),
        ("[pyworkers]\nmax_retries = 2.5", "[pyworkers] max_retries must be a whole number, is '2.5'"),
        ("[pyworkers]\nmax_retries = 3000000000", "max_retries must be at most 2147483648, is 3000000000"),
        (f"[pyworkers]\nmax_retries = 1{'0' * 400}", "max_retries must be at most 2147483648, is 1000"),
        ("[pyworkers]\ndead_max_jobs = 0", "[pyworkers] dead_max_jobs must be at least 1, is 0"),
        ("[pyworkers]\npoison_limit = -1", "[pyworkers] poison_limit must be at least 0, is -1"),
        ("[pyworkers]\npoison_window = 0", "[pyworkers] poison_window must be at least 1, is 0"),
        ("[pyworkers]\npoison_limits = 3", "poison_limits is not an option; did you mean 'poison_limit'?"),
        ("[pyworkers]\nstuck_grace = -1", "[pyworkers] stuck_grace must be at least 0, is -1"),
        ("[pyworkers]\nstuck_spares = many", "[pyworkers] stuck_spares must be a whole number, is 'many'"),
        ("[pyworkers]\nstuck_exit = -1", "[pyworkers] stuck_exit must be at least 0, is -1"),
        ("[pyworkers]\ntimestamps = millis", "[pyworkers] timestamps must be one of seconds, ms"),
        ("[pyworkers]\nlog_level = warn", "must be one of debug, info, warning, error; did you mean 'warning'?"),
        ("[queue:mail]\nconcurrency = 0", "[queue:mail] concurrency must be at least 1, is 0"),
        ("[queue:mail]\nconcurrency =", "[queue:mail] concurrency must be a whole number, is ''"),
        (
            "[queue:mail]\nprefetch = some",
            "[queue:mail] prefetch may be auto; otherwise it must be a whole number, is 'some'",
        ),
        (
            "[queue:mail]\npriorities = maybe",
            "[queue:mail] priorities may be auto; otherwise it must be one of yes, no",
        ),
        ("[queue:mail]\nprefetch = -1", "[queue:mail] prefetch may be auto; otherwise it must be at least 0, is -1"),
        ("redis = x", "line 1 is in no section; begin with [pyworkers]"),
        ("[pyworkers]\nredis", "contains parsing errors"),
        ("[queue:a]\n[queue:a]", "section 'queue:a' already exists"),
        ("[pyworkers]\nprocess = 1\nprocess = 2", "option 'process' in section 'pyworkers' already exists"),
        (b"[pyworkers]\nprocess = \xff", "can't decode byte 0xff"),
        (b"\xff\xfe[\x00", "can't decode byte 0xff"),
    ],
)
def test_an_error_in_a_file_is_one_line_with_its_place_and_reason(write: Any, text: str | bytes, told: str) -> None:
    path = write(text)
    said = refusal(path)
    assert said.startswith(f"{path}: ")
    assert told in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("log_level = verbose", "must be one of debug, info, warning, error"),
        # Not `dead_timeout`, which deletes dead jobs.
        ("drain_timeout = 5", "is not an option; did you mean 'timeout'?"),
        ("drane_grace = 5", "is not an option"),
    ],
)
def test_an_error_names_no_word_that_was_hardly_meant(write: Any, line: str, told: str) -> None:
    assert refusal(write(f"[pyworkers]\n{line}\n")).endswith(told)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            {"PYWORKERS_REDSI": "x"},
            "environment: PYWORKERS_REDSI is not an option; did you mean 'PYWORKERS_REDIS'?",
        ),
        (
            {"PYWORKERS_BROKR": "x"},
            "environment: PYWORKERS_BROKR is not an option; did you mean 'PYWORKERS_BROKER'?",
        ),
        ({"PYWORKERS_CONCURRENCY": "5"}, "environment: PYWORKERS_CONCURRENCY is not an option"),
        ({"PYWORKERS_TIMEOUT": "x"}, "environment: PYWORKERS_TIMEOUT must be a number of seconds, is 'x'"),
        ({"PYWORKERS_": "x"}, "environment: PYWORKERS_ is not an option"),
    ],
)
def test_an_error_in_the_environment_names_the_variable(environment: dict[str, str], told: str) -> None:
    assert refusal(environment=environment) == told


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"poll_interval": "x"}, "--poll-interval must be a number of seconds, is 'x'"),
        ({"pol_interval": "1"}, "--pol-interval is not an option; did you mean 'poll_interval'?"),
    ],
)
def test_an_error_in_a_flag_names_the_flag(flags: dict[str, str], told: str) -> None:
    assert refusal(flags=flags) == told


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("", "--queue '' must be NAME or NAME=CONCURRENCY"),
        ("=5", "--queue '=5' must be NAME or NAME=CONCURRENCY"),
        ("mail=x", "--queue mail=x must be a whole number, is 'x'"),
        ("mail=0", "--queue mail=0 must be at least 1, is 0"),
    ],
)
def test_an_error_in_a_queue_flag_names_the_flag(flag: str, told: str) -> None:
    assert refusal(queues=[flag]) == told


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.ini") == f"{tmp_path}/none.ini: cannot be read: No such file or directory"
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_value_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match="tag must be text in UTF-8"):
        load(None, flags={"tag": "caf\udce9"}, environment={})
