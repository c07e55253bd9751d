"""Pages of the features under hostile names, secrets, silent brokers and brokers without the feature."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
import redis as redis_py
from apps import own_app
from waiting import eventually
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Release, Rule
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE

EVIL = "<img src=x onerror=alert(1)>\"'&{{7*7}}\u202e\x07"
OFFERED_BY_SOME = ("partitions", "reports", "configuration", "configurations")
FEATURES = ("periodic", "batch", "batches", "chain", "chains", "group", "groups", "limit", "limits", "lock", "locks")


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as made:
        yield made


@pytest.fixture
def client(app: App) -> Client:
    return client_of(app)


def client_of(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


def register(app: App, name: str, args: list[object]) -> None:
    told = {"class": EVIL, "queue": "q", "args": args, "catch_up": "latest", "overlap": "allow"}
    app.broker.require_part(Periodic).register(Release("shop", "1"), [schedule(name, Rule("", 60, ""), told)])


def test_hostile_names_are_shown_as_text_and_their_pages_found(app: App, client: Client) -> None:
    register(app, EVIL, [EVIL])
    with app.batch(EVIL):
        app.enqueue("q", "Job", [])
    joining = GroupMembership(Group("b", EVIL, EVIL), GroupSettings(grace_s=3_600))
    told = json.dumps({"class": EVIL, "args": [EVIL], "jid": EVIL, "queue": "b"}).encode()
    app.broker.transport.publish([Push("b", told, ties=(joining,))])
    for path, own in (("/periodic", "/periodic/one?"), ("/batches", "/batch?"), ("/groups", "/group?")):
        page = client.get(path).text
        assert "<img" not in page
        assert "{{7*7}}" in page
        [link] = {unescape(link) for link in re.findall(r'href="(/[^"]*)"', page) if unescape(link).startswith(own)}
        shown = client.get(link)
        assert (shown.status, "<img" in shown.text, "alert(1)" in shown.text) == (200, False, True)


@pytest.mark.parametrize("path", [path for path in (*TABLE.views, *TABLE.actions) if path.split("/")[1] in FEATURES])
def test_a_name_that_is_no_text_is_refused_and_no_fault_of_the_page(client: Client, path: str) -> None:
    if (view := TABLE.views.get(path)) is not None:
        answer = client.get(f"{path}?" + "&".join(f"{one.name}=%ff" for one in view.query))
    else:
        names = [one.name for one in TABLE.actions[path].fields if one.needed]
        answer = client.sure(
            path, {**dict.fromkeys(names, "\udcff"), "grace": "5m", "cron": "* * * * *", "rate": "any"}
        )
    assert answer.status in (200, 303, 400, 404), answer.text


# --- partitions


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield f"redis://:s3cr3t@127.0.0.1:{server.getsockname()[1]}"


def partitioned(redis_url: str, *addresses: str) -> App:
    sections = [f"[partition:p{n}]\nredis = {one}\nqueues = q{n} 1\n" for n, one in enumerate(addresses)]
    app = App()
    config = load(ConfigText(f"[pyworkers]\nredis = {redis_url}\n" + "".join(sections), "test"), environment={})
    app.use(dataclasses.replace(config, timeout=1))
    return app


def test_silent_partitions_are_asked_at_the_same_time(
    redis_url: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    ended = threading.Event.wait

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and timeout <= 0.3:
            waits.append(timeout)
        return ended(event, timeout)

    app = partitioned(redis_url, *(f"{silent}/{n}" for n in range(6)))
    client = client_of(app)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("threading.Event.wait", wait)
            answer = client.get("/api/partitions")
        assert "s3cr3t" not in answer.text
        assert waits.count(0.0) >= 7  # each was asked before the page waited for any

        def who_answers() -> list[bool]:
            return [row["answers"] for row in client.get("/api/partitions").json["rows"]]

        # On a busy machine the answer of the first one is there when the page is opened again.
        assert eventually(lambda: who_answers() == [True] + 6 * [False])
    finally:
        app.quit()
        app.use(app.config)


# --- a broker without the features


@pytest.mark.parametrize("path", [path for path in TABLE.views if path.split("/")[1] in (*FEATURES, *OFFERED_BY_SOME)])
def test_a_broker_without_the_feature_says_so(tmp_path: Path, path: str) -> None:
    app = App()
    app.configure(broker=f"dir://{quote(str(tmp_path))}")
    needed = "&".join(f"{one.name}=x" for one in TABLE.views[path].query if one.needed)
    answer = client_of(app).get(f"{path}?{needed}")
    told = re.search(r"This broker (has|stores) no|the directory (has|stores) no", unescape(answer.text))
    assert (answer.status in ((400, 404) if needed else (200,)), told is not None) == (True, True)
    assert "state problem" not in answer.text


# --- the outbox


def test_pushes_in_the_outbox_are_listed_where_there_are_any(app: App, redis: redis_py.Redis) -> None:
    client = client_of(app)
    assert "state=outbox" not in client.get("/jobs").text
    redis.sadd("pyworkers:outboxes", "other")
    entry = line_entry.written(b'{"class":"Mail","args":[1],"jid":"j1","queue":"mail"}', "mail", 1.0, id="p1")
    redis.lpush("pyworkers:outbox:other", entry)
    client = client_of(app)
    assert "state=outbox" in client.get("/jobs").text
    found = client.get("/api/jobs?state=outbox").json
    assert [row["jid"] for row in found["jobs"]] == ["j1"]
    client.sure("/jobs/delete", {"state": "outbox", "all": "yes"})
    assert redis.llen("pyworkers:outbox:other") == 0
