from __future__ import annotations

from pathlib import Path

import pytest

from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.brokers.shards.addresses import named_addresses
from goworkers_py.brokers.shards.broker import ShardsBroker, configs_of_shards
from goworkers_py.config.home import home_of
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import broker_address, has_password, without_password
from goworkers_py.core.errors import ConfigError

TWO = "shards:redis://:secret@a:6379/0,redis://b:6379/1?password=other"


def test_a_shard_is_named_by_its_server_and_database_or_as_the_address_says() -> None:
    address = (
        "shards:redis://user:pw@A/2,rediss://b:6380?db=3,new=redis://c:1,unix:///run/d.sock,"
        "sentinel://s:26379,t:26379/main/0"
    )
    assert dict(named_addresses(address)) == {
        "a:6379/2": "redis://user:pw@A/2",
        "b:6380/3": "rediss://b:6380?db=3",
        "new": "redis://c:1",
        "/run/d.sock": "unix:///run/d.sock",
        "main/0": "sentinel://s:26379,t:26379/main/0",
    }


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("shards:redis://a", "must name at least two shards"),
        ("shards:", "must name at least two shards|must be redis://"),
        ("shards:redis://a,memory://b", "has a shard that is no server"),
        ("shards:redis://a,redis://b:99999", "port number"),
        ("shards:redis://a,rediz://b", "did you mean 'redis'"),
    ],
)
def test_a_wrong_address_is_refused(address: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        broker_address(address)


def test_two_shards_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"two shards have the name a:6379/0: name each server and database once"):
        ShardsBroker.check(Config(broker="shards:redis://a,rediss://A:6379/0"))


def test_no_password_of_any_shard_is_shown() -> None:
    assert broker_address(TWO) == TWO
    assert has_password(TWO)
    assert without_password(TWO) == "shards:redis://:***@a:6379/0,redis://b:6379/1"
    with pytest.raises(ValueError, match="port number") as refused:
        broker_address("shards:redis://:secret@a,redis://:secret@b:port")
    assert "secret" not in str(refused.value)


def test_the_password_file_is_for_the_shards_without_a_password(tmp_path: Path) -> None:
    config = Config(broker="shards:redis://a,redis://:own@b", broker_password_file=str(tmp_path / "password"))
    files = [one.broker_password_file for one in configs_of_shards(config).values()]
    assert files == [str(tmp_path / "password"), ""]


def test_the_scheme_opens_the_broker_and_pushes_that_are_held_find_it_whatever_the_order() -> None:
    assert kind_of_broker(Config(broker=TWO)) is ShardsBroker
    one, other = home_of("shards:redis://a,redis://:x@b", "", ""), home_of("shards:redis://b:6379/0,redis://a", "", "")
    assert one == other
    assert one.shared
    assert "secret" not in home_of(TWO, "", "").name
