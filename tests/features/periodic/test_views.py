"""The pages of periodic jobs."""

from __future__ import annotations

import json

import pytest
from web_hostile import NAME, assert_shown_as_text
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Release, Rule


@pytest.mark.usefixtures("scene")
def test_periodic_jobs_are_paused_set_run_and_resumed(app: App, client: Client) -> None:
    def status() -> tuple[bool, str, bool, int]:
        one = app.inspector.periodic_job("nightly")
        return one.paused, one.rule, one.overridden, one.asked

    name = {"name": "shop:nightly"}
    client.post("/periodic/pause", name)
    client.post("/periodic/run", name)
    client.post("/periodic/set", {**name, "cron": "5 4 * * *", "args": '["us"]'})
    assert status() == (True, "5 4 * * * Europe/Berlin", True, 1)
    assert app.inspector.periodic_job("nightly").args == ["us"]
    client.post("/periodic/resume", name)
    client.post("/periodic/unset", name)
    assert status() == (False, "0 3 * * * Europe/Berlin", False, 1)
    refused = client.sure("/periodic/forget", name)
    assert (refused.status, "is in the code of a process" in refused.text) == (400, True)
    assert client.post("/periodic/set", {**name, "cron": "no cron"}).status == 400
    assert client.post("/periodic/pause", {"name": "nosuch"}).status == 400


@pytest.mark.usefixtures("scene")
def test_a_mask_is_not_stored_in_place_of_a_secret(app: App, client: Client) -> None:
    fields = {"class": "Sync", "queue": "q", "args": [{"token": "s3cr3t"}], "catch_up": "latest", "overlap": "allow"}
    app.broker.require_part(Periodic).register(Release("crm"), [schedule("sync", Rule("", 60, ""), fields)])
    shown = client.get("/api/periodic/one?name=sync").json["job"]["args"]
    assert shown == [{"token": "(hidden)"}]
    assert client.post("/periodic/set", {"name": "sync", "args": json.dumps(shown)}).status == 400
    assert app.inspector.periodic_job("sync").args == [{"token": "s3cr3t"}]
    assert client.post("/periodic/set", {"name": "sync", "args": '[{"token": "new"}]'}).status == 303
    assert app.inspector.periodic_job("sync").args == [{"token": "new"}]


@pytest.mark.usefixtures("scene")
def test_the_search_finds_periodic_jobs_by_a_part_of_their_name(client: Client) -> None:
    found = client.get("/api/find?q=NIGHT").json["found"]
    assert [(hit["name"], hit["kind"], hit["to"]) for hit in found if hit["kind"] == "periodic job"] == [
        ("shop:nightly", "periodic job", "/periodic/one?name=shop%3Anightly"),
    ]


def test_a_hostile_name_is_shown_as_text_and_its_page_found(app: App, client: Client) -> None:
    fields = {"class": NAME, "queue": "q", "args": [NAME], "catch_up": "latest", "overlap": "allow"}
    app.broker.require_part(Periodic).register(Release("shop", "1"), [schedule(NAME, Rule("", 60, ""), fields)])
    assert_shown_as_text(client, "/periodic", "/periodic/one?")
