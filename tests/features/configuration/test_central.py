"""Of a central configuration only central options are used: a stranger could have written it."""

from __future__ import annotations

import pytest

from goworkers_py.config.feature_options import feature_sections
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.config.options import (
    Config,
    MiddlewareConfig,
    PartitionConfig,
    PoolConfig,
    QueueConfig,
    WebConfig,
    options_of,
)
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.configuration.central import MOST_LINES, MOST_THREADS, ignored, refuse_local, written_over
from goworkers_py.features.configuration.stored_config import LONGEST
from goworkers_py.features.limits.options import LimitConfig

TABLES = {
    "pyworkers": Config, "queue": QueueConfig, "pool": PoolConfig, "partition": PartitionConfig,
    "middleware": MiddlewareConfig, "web": WebConfig,
    **feature_sections(),
}  # fmt: skip
LOCAL = """
[pyworkers]
require = myapp.jobs
log_level = error
poll_interval = 9
[queue:mail]
handler = myapp.handlers:mail
concurrency = 1
[queue: sms ]
mode = serial
[pool:web]
queues = a, b
order = strict
[limit:api]
rate = 1/second
"""


def loaded(central: str, local: str = LOCAL, **flags: str) -> Config:
    return load(ConfigText(local, "local.ini"), {}, flags, over=written_over(ConfigText(central, "billing version 2")))


def test_an_option_is_local_unless_its_row_says_otherwise() -> None:
    """A new option in this list must name no code, file, user, address or class, and a running process must take it."""
    central = {f"{kind} {name}" for kind, table in TABLES.items() for name, row in options_of(table).items()
               if row.metadata["central"]}  # fmt: skip
    assert central == {
        "pyworkers log_level", "pyworkers poll_interval", "queue concurrency", "pool queues", "pool order",
        "pool weights", "pool concurrency", "limit concurrent", "limit rate", "limit burst", "partition queues",
    }  # fmt: skip


# A value that is right for each option, so that nothing but being local refuses it.
VALUES = {
    "broker": "redis://evil:6379/0", "store": "redis://evil:6379/0", "umask": "077", "metrics": "off",
    "locks": "native", "timestamps": "ms", "log_format": "json", "args": "[1]", "catch_up": "all", "overlap": "skip",
    "mode": "threads", "format": "sidekiq", "max_memory": "1G",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, table in TABLES.items()
        for name, row in options_of(table).items()
        if not row.metadata["central"]
    ],
)
def test_a_local_option_is_refused_with_its_line_and_ignored_where_a_stranger_has_stored_it(
    kind: str, name: str
) -> None:
    section = kind if TABLES[kind] in (Config, MiddlewareConfig, WebConfig) or kind == "echo" else f"{kind}:evil"
    rule = "queues = c 1\n" if kind == "partition" else "queues = c\n" if kind == "pool" else ""
    default = options_of(TABLES[kind])[name].default
    value = VALUES.get(name) or ("yes" if default is False else "no" if default is True else "7")
    text = ConfigText(f"[queue:mail]\nconcurrency = 3\n[{section}]\n{rule}{name} = {value}\n", "conf.ini")
    line = 4 + bool(rule)
    with pytest.raises(ConfigError, match=rf"conf.ini: line {line} \[{section}\] {name}: local, .* -c local.ini"):
        refuse_local(text)
    assert f"[{section}] {name}" in ignored(text)
    without = loaded(text.text.replace(f"{name} = {value}\n", ""))
    assert loaded(text.text) == without
    assert without.queues[0].concurrency == 3


def test_the_central_options_go_between_the_file_and_the_flags() -> None:
    config = loaded(
        "[pyworkers]\nlog_level = debug\npoll_interval = 2\n[queue:mail]\nconcurrency = 7\n[queue:new]\n"
        "[pool:web]\nqueues = a, b\nweights = 3, 1\n[limit:api]\nconcurrent = 4\n",
        poll_interval="1",
    )
    assert (config.require, config.log_level, config.poll_interval) == (("myapp.jobs",), "debug", 1)
    queues = {queue.name: queue for queue in config.queues}
    assert (queues["mail"].concurrency, queues["mail"].handler) == (7, "myapp.handlers:mail")
    assert (queues["sms"].mode, queues["new"].concurrency) == ("serial", 10)
    assert config.pools[0].weights == (3, 1)
    [limit] = config.sections_of(LimitConfig)
    assert (limit.name, limit.concurrent, limit.rate is not None) == ("api", 4, True)


def test_a_section_is_the_same_whatever_blanks_its_title_has() -> None:
    with pytest.raises(ConfigError, match=r"local.ini with billing version 2: \[queue:sms\] concurrency is 5"):
        loaded("[queue:sms]\nconcurrency = 5\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"[queue:a]\nconcurrency = {MOST_THREADS + 1}\n", "1,001 threads and 1 queues in one process"),
        ("[queue:a]\nconcurrency = 100000\n", "concurrency must be "),
        ("".join(f"[queue:q{number}]\nconcurrency = 1\n" for number in range(1_001)), "1,001 queues"),
        (f"[pool:w]\nqueues = {' '.join(map(str, range(2_000)))}\n", "2,000 queues"),
        (f"[partition:w]\nqueues = {', '.join(f'q{one} 9' for one in range(200))}\n", "1,800 threads"),
        ("; " + "x" * LONGEST, "more than 256,000 characters"),
        ("\n" * (MOST_LINES + 1), "more than 5,000 lines"),
        (f"[pyworkers]\na{' ' * 101}b", "line 2 has 100 blanks in a row"),
        ("[pool:w]\nqueues = \ud800\n", "line 2 has half a character"),
        ("[queue:a\n", "billing version 2: "),
        ("[queue:]\n", "needs the queue's name"),
        ("[limit:a]\nrate = 1e400/second\n", "rate "),
    ],
    ids=[
        "threads",
        "bound",
        "queues",
        "pool",
        "partition",
        "long",
        "lines",
        "blanks",
        "half",
        "broken",
        "nameless",
        "rate",
    ],
)
def test_what_would_fill_a_machine_or_is_broken_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        loaded(text)


def test_a_local_file_may_have_more_threads_than_a_central_one_gives() -> None:
    config = loaded("[pyworkers]\nlog_level = debug\n", "[queue:a]\nconcurrency = 5000\n")
    assert (config.queues[0].concurrency, config.log_level) == (5_000, "debug")


def test_a_warning_names_twenty_options_and_no_control_characters() -> None:
    text = ConfigText("[web]\n" + "".join(f"\x1b[2Jo{one} = 1\n" for one in range(30)), "billing version 2")
    told = ignored(text)
    assert "\x1b" not in told
    assert "o19 and 10 more" in told
    assert "o20" not in told
    assert ignored(ConfigText("[queue:a]\n", "it")) == ""
