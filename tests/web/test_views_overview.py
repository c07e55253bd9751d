"""The overview shows version and memory of the servers of the broker, where they tell them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from apps import own_app
from denied import Walled
from servers import RedisServer
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views import overview


def pages(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


@pytest.fixture
def walled(own_redis: RedisServer) -> Walled:
    walled = Walled(own_redis)
    walled.allow_all_but()
    return walled


@pytest.fixture
def client(walled: Walled) -> Iterator[Client]:
    with own_app(walled.url) as app:
        yield pages(app)


def cells(page: str) -> dict[str, str]:
    (table,) = re.findall(r"<h2>Broker</h2>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    found = re.findall(r'data-label="(\w+)">(.*?)</td>', table, re.DOTALL)
    return {label: re.sub(r"<[^>]*>", "", cell) for label, cell in found}


def test_the_overview_tells_of_the_server(client: Client, own_redis: RedisServer, walled: Walled) -> None:
    walled.redis.config_set("maxmemory", 3 << 29)
    page, version = client.get("/").text, walled.redis.info("server")["redis_version"]
    shown = cells(page)
    assert (shown["Server"], shown["Role"], shown["Limit"]) == (f"127.0.0.1:{own_redis.port}", "master", "1.5 GB")
    assert re.fullmatch(rf"Redis {re.escape(version)}|Valkey [\d.]+", shown["Version"])
    assert 'title="1,610,612,736 bytes"' in page
    assert re.fullmatch(r"\d[\d.]* [KM]B", shown["Memory"])
    assert "word" not in page.partition("<h2>Broker</h2>")[2], "the password"
    told = client.get("/api/").json["servers"]
    assert told["age_s"] < 10
    (facts,) = told["value"]
    assert (facts["address"], facts["max_bytes"]) == (f"127.0.0.1:{own_redis.port}", 3 << 29)
    assert facts["memory_bytes"] <= facts["peak_bytes"]


def test_a_server_that_is_nearly_full_is_warned_of(client: Client, walled: Walled) -> None:
    full = '<td class="n warn" data-label="Memory">'
    walled.redis.config_set("maxmemory-policy", "allkeys-lru")
    walled.redis.config_set("maxmemory", walled.redis.info("memory")["used_memory"] + (64 << 10))
    assert full in client.get("/").text
    walled.redis.config_set("maxmemory", 1 << 40)
    with own_app(walled.url) as other:
        assert full not in pages(other).get("/").text


def test_many_open_pages_ask_the_server_once(client: Client, walled: Walled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "SERVERS_AGE_S", 60.0)  # a busy machine may take ten seconds for twenty pages

    def asked() -> int:
        return int(walled.redis.info("commandstats").get("cmdstat_info", {"calls": 0})["calls"])

    client.get("/")  # the doctor asks too
    before = asked()
    for _ in range(20):
        assert "<h2>Broker</h2>" in client.get("/").text
    assert asked() - before == 1, "that of this test"


def test_a_server_that_does_not_allow_it_is_not_shown_and_fails_nothing(client: Client, walled: Walled) -> None:
    walled.allow_all_but("INFO")
    answer = client.get("/")
    assert (answer.status, "<h2>Broker</h2>" in answer.text) == (200, False)
    assert client.get("/api/").json["servers"]["value"] == []


def test_a_broker_without_a_server_has_no_such_panel() -> None:
    with own_app("memory://overview") as app:
        answer = pages(app).get("/")
        assert (answer.status, "<h2>Broker</h2>" in answer.text) == (200, False)
