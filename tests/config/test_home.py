"""The names by which held pushes find their way to a broker."""

from __future__ import annotations

import socket

import pytest

from goworkers_py.config.options import Config

HERE = f" on {socket.gethostname()}"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("redis://h", "redis://h:6379/0"),
        ("redis://H:6379/0", "redis://h:6379/0"),
        ("redis://ada:secret@h:7000/3", "redis://h:7000/3"),
        ("redis://h?db=3&password=secret", "redis://h:6379/3"),
        ("rediss://h/2?ssl_cert_reqs=none", "rediss://h:6379/2"),
        ("redis://localhost", f"redis://localhost:6379/0{HERE}"),
        ("redis://127.0.0.1:1/0", f"redis://127.0.0.1:1/0{HERE}"),
        ("redis://[::1]:1/0", f"redis://[::1]:1/0{HERE}"),
        ("unix:///run/redis.sock?db=1", f"unix:///run/redis.sock database 1{HERE}"),
        ("unix://ada:secret@/run/redis.sock", f"unix:///run/redis.sock database 0{HERE}"),
        ("sentinel://u:secret@a:1,b:2/mymaster?sentinel_password=secret", "sentinel://a:1,b:2/mymaster"),
        ("memory://jobs", "memory://jobs"),
    ],
)
def test_a_name_is_the_same_for_all_spellings_and_tells_no_password(address: str, name: str) -> None:
    home = Config(broker=address).home
    assert home.name == name
    assert home.shared == (not address.startswith("memory"))
    assert Config(broker=address, namespace="ns").home.name == f"{name} namespace ns"


def test_embedded_servers_of_two_directories_have_two_names() -> None:
    names = {Config(broker="embedded", data_dir=directory).home.name for directory in ("/a", "/b", "/a/../b")}
    assert names == {f"embedded /a{HERE}", f"embedded /b{HERE}"}


def test_a_cluster_has_one_name_whatever_the_order_of_its_nodes_and_the_spelling_of_its_namespace() -> None:
    names = {
        Config(broker=f"redis+cluster://u:secret@{hosts}/jobs", namespace=namespace).home.name
        for hosts in ("a:1,b:2", "b:2,A:1")
        for namespace in ("", "jobs", "{jobs}")
    }
    assert names == {"redis+cluster://a:1,b:2/jobs"}
