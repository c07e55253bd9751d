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
from goworkers_py.features.configuration.views import masked
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Release, Rule
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid
from goworkers_py.web import application
from goworkers_py.web.site.hiding import MASK, Hiding
from goworkers_py.web.views import partitions
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


def test_the_leader_of_each_partition_is_shown(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "WAIT_S", 20.0)  # both answer, on a busy machine later than a page waits for them
    app = partitioned(redis_url, redis_url)
    try:
        leadership = app.partition("p0").broker.require_part(Leadership)
        bid = Bid("vm:7:ab", "token", False, leadership.look("p0"))
        assert leadership.win("p0", bid, 60.0)
        main, other = client_of(app).get("/api/partitions").json["rows"]
        assert (main["leader"], other["leader"]) == (None, "vm:7:ab")
        page = client_of(app).get("/partitions").text
        assert "vm:7:ab" in page
        assert "partition=p0" in page
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


# --- central configurations


TEXT = """[queue:billing]
concurrency = 5

[web]
# access_token = s3cr3t-old
title = Billing
broker_password_file = /run/s3cr3t
    and s3cr3t

    more s3cr3t
port = 8080
"""


def test_a_configuration_is_shown_with_what_changed_and_without_secrets() -> None:
    hiding = Hiding()
    assert masked(TEXT, hiding).splitlines() == [
        "[queue:billing]", "concurrency = 5", "", "[web]", f"# access_token = {MASK}", "title = Billing",
        f"broker_password_file = {MASK}", "port = 8080",
    ]  # fmt: skip
    assert masked("token: s3cr3t\n[a:token]\nx = 1", hiding) == f"token: {MASK}\n[a:token]\nx = 1"


def test_a_configuration_of_blanks_is_masked_at_once() -> None:
    text = "a" + 300_000 * " " + "b"
    assert masked(text, Hiding()) == text


def test_versions_of_a_configuration_are_listed_and_one_of_them_is_shown(app: App) -> None:
    for concurrency in (5, 8, 9):
        app.inspector.configurations.push("billing", f"[queue:billing]\nconcurrency = {concurrency}\n")
    client = client_of(app)
    assert [(one["name"], one["version"]) for one in client.get("/api/configurations").json["configurations"]] == [
        ("billing", 3)
    ]
    shown = client.get("/api/configuration?name=billing&version=2").json
    assert [one["version"] for one in shown["versions"]] == [3, 2, 1]
    assert shown["diff"][-2:] == ["-concurrency = 5", "+concurrency = 8"]
    assert "Go back to this version" in client.get("/configuration?name=billing&version=2").text
    assert "Go back to this version" not in client.get("/configuration?name=billing").text
    for wrong in ("name=other", "name=billing&version=7"):
        assert client.get(f"/configuration?{wrong}").status == 404
    assert client.sure("/configuration/rollback", {"name": "billing", "version": "9"}).status == 400


def test_texts_of_a_stranger_are_shown_without_a_long_comparison_and_not_rolled_back_to(app: App) -> None:
    stored = app.inspector.configurations._stored  # as everybody may who may write to Redis
    stored.push("billing", "\n".join(str(number % 150) for number in range(70_000)), "me")
    stored.push("billing", "\n".join(str(number % 151) for number in range(70_000)), "me")
    stored.push("billing", "[pyworkers]\nrequire = evil\n", "me")
    stored.push("billing", "[queue:a]\n", "me")
    client = client_of(app)
    shown = client.get("/api/configuration?name=billing&version=2").json
    assert shown["diff"] == ["not compared, because a text has more than 5,000 lines"]
    refused = client.sure("/configuration/rollback", {"name": "billing", "version": "3"})
    assert refused.status == 400
    assert "line 2 [pyworkers] require: local" in refused.text
    assert app.inspector.configurations.current("billing").version == 4


# --- reports


def test_reports_are_listed_newest_first_without_secrets_and_can_be_followed(app: App) -> None:
    client = client_of(app)
    assert "No program has reported anything" in client.get("/reports").text
    app.report("import", {"rows": 1, "api_token": "s3cr3t"})
    app.report(EVIL, {"rows": 2})
    app.report("import", {"rows": 3})
    found = client.get("/api/reports").json
    assert [one["body"]["rows"] for one in found["reports"]] == [3, 2, 1]
    assert found["reports"][-1]["body"]["api_token"] == MASK
    assert [one["body"]["rows"] for one in client.get("/api/reports?name=import&limit=1").json["reports"]] == [3]
    app.report("import", {"rows": 4})
    followed = client.get(f"/api/reports?after={found['position']}").json
    assert [one["body"]["rows"] for one in followed["reports"]] == [4]
    assert client.get(f"/api/reports?after={followed['position']}").json["position"] == followed["position"]
    page = client.get("/reports").text
    assert "s3cr3t" not in page
    assert "<img src=x" not in page


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
