"""The pages of limits, and the limits on the page of a job."""

from __future__ import annotations

import pytest
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.features.limits.limit import Slot, SlotTie
from goworkers_py.features.limits.payload import with_slots
from goworkers_py.features.limits.views import job_facts
from goworkers_py.wire.message import Message

pytestmark = pytest.mark.usefixtures("scene")


def test_a_limit_is_set_by_hand_and_back(app: App, client: Client) -> None:
    client.post("/limit/set", {"name": "stripe", "concurrent": "any", "rate": "100/minute", "burst": "3"})
    (entry,) = [one for one in app.inspector.limits() if one.name == "stripe"]
    assert (entry.concurrent, str(entry.rate), entry.rate and entry.rate.burst) == (None, "100/minute", 3)
    client.post("/limit/unset", {"name": "stripe"})
    (entry,) = [one for one in app.inspector.limits() if one.name == "stripe"]
    assert (entry.concurrent, entry.rate) == (2, None)
    for wrong in ({"concurrent": "many"}, {"rate": "fast"}, {"burst": "3"}, {}):
        assert client.post("/limit/set", {"name": "stripe", **wrong}).status == 400
    assert client.sure("/limit/forget", {"name": "stripe"}).location == "/limits"
    assert [one for one in app.inspector.limits() if one.name == "stripe"] == []


def test_the_page_of_a_job_links_its_limits_and_the_one_that_it_waits_for(client: Client) -> None:
    message = Message(with_slots(b'{"class": "J", "args": [], "jid": "1"}', {}, [SlotTie(Slot("stripe"), True)]), "q")
    assert job_facts(message, "limit:api:key") == {"limits": ["stripe"], "waits_for": "api"}
    assert job_facts(None, "line of people") == {"limits": [], "waits_for": None}
    assert client.get("/api/limit?name=stripe").json["limit"]["concurrent"] == 2
