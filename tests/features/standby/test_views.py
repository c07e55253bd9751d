"""The leaders, in the table of partitions."""

from __future__ import annotations

import dataclasses

import pytest
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid
from goworkers_py.web import application
from goworkers_py.web.views import partitions


def test_the_leader_of_each_partition_is_shown(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "WAIT_S", 20.0)  # both answer, on a busy machine later than a page waits for them
    sections = f"[pyworkers]\nredis = {redis_url}\n[partition:p0]\nredis = {redis_url}\nqueues = q0 1\n"
    app = App()
    app.use(dataclasses.replace(load(ConfigText(sections, "test"), environment={}), timeout=1))
    client = Client(application(app, authorize=lambda environ, action: True))
    try:
        leadership = app.partition("p0").broker.require_part(Leadership)
        bid = Bid("vm:7:ab", "token", False, leadership.look("p0"))
        assert leadership.win("p0", bid, 60.0)
        main, other = client.get("/api/partitions").json["rows"]
        assert (main["leader"], other["leader"]) == (None, "vm:7:ab")
        page = client.get("/partitions").text
        assert "vm:7:ab" in page
        assert "partition=p0" in page
    finally:
        app.quit()
        app.use(app.config)
