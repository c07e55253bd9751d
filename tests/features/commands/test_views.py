"""The page of reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apps import own_app
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.site.hiding import MASK


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as made:
        yield made


@pytest.fixture
def client(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


def test_reports_are_listed_newest_first_without_secrets_and_can_be_followed(app: App, client: Client) -> None:
    assert "No program has reported anything" in client.get("/reports").text
    app.report("import", {"rows": 1, "api_token": "s3cr3t"})
    app.report("<img src=x onerror=alert(1)>", {"rows": 2})
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
