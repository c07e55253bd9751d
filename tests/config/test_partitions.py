from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goworkers_py.config.loader import load
from goworkers_py.config.options import QueueConfig
from goworkers_py.config.partitions import of_partition
from goworkers_py.core.errors import ConfigError


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str, **environment: str) -> Any:
        path = tmp_path / "conf.ini"
        path.write_text(text)
        return load(path, environment)

    return read


@pytest.fixture
def refusal(read: Any) -> Any:
    def refusal(text: str, **environment: str) -> str:
        with pytest.raises(ConfigError) as refused:
            read(text, **environment)
        return str(refused.value).rpartition("conf.ini: ")[2]

    return refusal


BILLING = """
[pyworkers]
redis = redis://main/0
namespace = shop
max_retries = 3
[queue:mail]
[partition:billing]
broker = redis://other/1
queues = invoices 7, reminders
handler = billing:run
"""


def test_a_partition_has_queues_and_a_broker_of_its_own(read: Any) -> None:
    config = read(BILLING)
    billing = of_partition(config, "billing")
    assert [queue.name for queue in config.queues] == ["mail"]
    assert billing.queues == (
        QueueConfig("invoices", 7, handler="billing:run", partition="billing"),
        QueueConfig("reminders", 10, handler="billing:run", partition="billing"),
    )
    assert (billing.partition, billing.broker, billing.tag) == ("billing", "redis://other/1", "billing")


def test_a_partition_must_not_be_called_as_flags_name_all_of_them_or_the_main_one(refusal: Any) -> None:
    told = "[partition:main]: --partition main means [pyworkers] itself; choose another name"
    assert refusal("[partition:main]\nqueues = invoices\n") == told
    assert "means all partitions" in refusal("[partition:all]\nqueues = invoices\n")


def test_a_partition_with_a_broker_of_its_own_takes_nothing_that_says_where_the_main_broker_is(read: Any) -> None:
    billing = of_partition(read(BILLING), "billing")
    assert (billing.namespace, billing.max_retries) == ("", 3)


def test_a_partition_without_a_broker_is_on_the_main_one(read: Any) -> None:
    config = read("[pyworkers]\nredis = redis://main/0\nnamespace = shop\nprocess = w1\n[partition:a]\nqueues = x\n")
    assert of_partition(config, "a").home == config.home
    assert of_partition(config, "a").process == ""  # two processes cannot have one name


def test_a_partition_overrides_options_of_pyworkers(read: Any) -> None:
    config = read("[partition:a]\nqueues = x\nredis = redis://a/\nmax_retries = 1\npoll_interval = 2\n")
    a = of_partition(config, "a")
    assert (a.broker, a.max_retries, a.poll_interval) == ("redis://a/", 1, 2.0)


def test_queues_and_pools_may_name_their_partition(read: Any) -> None:
    config = read(
        "[partition:a]\nhandler = m:f\n[queue:x]\npartition = a\nconcurrency = 3\n[pool:p]\npartition = a\n"
        "queues = y, z\n[queue:z]\nhandler = m:g\n[queue:main]\n"
    )
    a = of_partition(config, "a")
    assert {queue.name: (queue.concurrency, queue.handler) for queue in a.queues} == {
        "x": (3, "m:f"), "y": (10, "m:f"), "z": (10, "m:g"),
    }  # fmt: skip
    assert [pool.name for pool in a.pools] == ["p"]
    assert ([queue.name for queue in config.queues], config.pools) == (["main"], ())


def test_the_environment_overrides_the_file(read: Any) -> None:
    config = read(BILLING, PYWORKERS_PARTITION_BILLING_BROKER="redis://secret/2")
    assert of_partition(config, "billing").broker == "redis://secret/2"


def test_partitions_that_share_a_server_have_queues_of_the_same_name_only_in_other_databases(
    read: Any, refusal: Any
) -> None:
    read("[partition:a]\nbroker = redis://h/1\nqueues = x\n[partition:b]\nbroker = redis://h/2\nqueues = x\n")
    told = refusal(
        "[partition:a]\nbroker = redis://h/1\nqueues = x\n[partition:b]\nbroker = redis://h:6379/1\nqueues = x"
    )
    assert told == "[partition:b] queues: x of redis://h:6379/1 is in a too; name it in one of them"
    told = refusal("[queue:x]\n[partition:b]\nqueues = x")
    assert "is in main too" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[partition:a]\n", "[partition:a] has no queues: write queues = invoices 10, mail 5"),
        ("[partition:a]\nqueues = x 0\n", "queues with their worker threads, such as invoices 10, mail 5; is 'x 0'"),
        ("[partition:a]\nqueues = x y z\n", "such as invoices 10, mail 5; is 'x y z'"),
        ("[partition:]\n", "[partition:] needs the partition's name: [partition:billing]"),
        ("[partition:a]\nqueues = x\nbrokre = b\n", "brokre is not an option; did you mean 'broker'?"),
        ("[partition:a]\nqueues = x\nprocesses = 2\n", "it belongs in the section [pyworkers]"),
        ("[partition:a]\nqueues = x\n[queue:y]\npartition = b\n", "[queue:y] partition: there is no partition 'b'"),
        ("[partition:a]\nqueues = x\n[queue:x]\npartition = a\n", "x has a section [queue:x]; name it in one place"),
        (
            "[partition:a]\nqueues = x\n[pool:p]\nqueues = y\n[queue:y]\npartition = a\n",
            "the queue shares the threads of [pool:p]; set partition there",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(refusal: Any, text: str, told: str) -> None:
    assert told in refusal(text)


def test_a_variable_for_an_unknown_partition_is_refused(refusal: Any) -> None:
    told = refusal(BILLING, PYWORKERS_PARTITION_BILING_BROKER="redis://x")
    assert told == (
        "environment: PYWORKERS_PARTITION_BILING_BROKER is for no partition of the configuration; there are billing"
    )
    assert refusal(BILLING, PYWORKERS_PARTITION_BILLING_BROKRE="x") == (
        "environment: PYWORKERS_PARTITION_BILLING_BROKRE is not an option; did you mean 'broker'?"
    )


def test_an_unknown_partition_is_told_with_those_that_there_are(read: Any) -> None:
    with pytest.raises(ConfigError, match="there is no partition 'biling'; there are billing; did you mean 'billing'"):
        of_partition(read(BILLING), "biling")
    with pytest.raises(
        ConfigError, match=r"no section \[partition:x\] was read; write one, or name the file with -c, "
    ):
        of_partition(read(""), "x")
