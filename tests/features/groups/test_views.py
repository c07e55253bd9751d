"""The pages of groups."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from web_hostile import NAME, assert_shown_as_text
from web_scene import GROUP
from wsgi_client import Client

import goworkers_py as workers
from goworkers_py import App
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings


@pytest.mark.usefixtures("scene")
def test_a_group_is_set_flushed_and_deleted(app: App, client: Client) -> None:
    of = {"queue": "billing", "class": "Invoice", "name": "user:7"}
    client.post("/group/set", {**of, "grace": "5m", "max_size": "9"})
    entry = app.inspector.group(GROUP)
    assert entry is not None
    assert (entry.own.grace_s, entry.own.max_size) == (300, 9)
    client.post("/group/reset", of)
    entry = app.inspector.group(GROUP)
    assert entry is not None
    assert entry.own.grace_s is None
    client.post("/group/flush", of)
    entry = app.inspector.group(GROUP)
    assert entry is not None
    assert entry.due is not None
    assert "Delete 4 jobs of group user:7" in client.post("/group/delete", of).text
    client.sure("/group/delete", of)
    assert app.inspector.members(GROUP) == []


@pytest.mark.usefixtures("scene")
def test_the_page_of_a_tracked_member_leads_to_its_group(app: App, client: Client) -> None:
    options = workers.EnqueueOptions(group="user:7", track=True)
    jid = app.enqueue_with_options("billing", "Invoice", [9], options)
    page = unescape(client.get(f"/job?jid={jid}").text)
    [link] = {*re.findall(r'href="[^"]*(/group\?[^"]+)"', page)}
    assert "user:7" in client.get(link).text


@pytest.mark.parametrize("track", [True, False])
@pytest.mark.usefixtures("scene")
def test_the_page_of_a_member_says_in_which_group_it_waits(app: App, client: Client, track: bool) -> None:
    options = workers.EnqueueOptions(group="user:7", track=True) if track else workers.EnqueueOptions(group="user:7")
    jid = app.enqueue_with_options("billing", "Invoice", [9], options)
    client.get(f"/api/job?jid={jid}")  # waits for the search
    page = unescape(client.get(f"/job?jid={jid}").text)
    assert "This job waits in" in page
    assert "No place holds" not in page


def test_hostile_names_are_shown_as_text_and_the_page_of_the_group_found(app: App, client: Client) -> None:
    joining = GroupMembership(Group("b", NAME, NAME), GroupSettings(grace_s=3_600))
    told = json.dumps({"class": NAME, "args": [NAME], "jid": NAME, "queue": "b"}).encode()
    app.broker.transport.publish([Push("b", told, ties=(joining,))])
    assert_shown_as_text(client, "/groups", "/group?")
