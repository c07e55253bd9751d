"""The page of locks, and the lock on the page of a job."""

from __future__ import annotations

from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App


def test_a_lock_is_freed_after_a_question(app: App, client: Client, scene: Scene) -> None:
    assert "another one beside it" in client.post("/lock/free", {"name": scene.lock}).text
    client.sure("/lock/free", {"name": scene.lock})
    assert app.inspector.lock(scene.lock) is None


def test_a_lock_that_was_freed_is_gone_from_the_next_page(client: Client, scene: Scene) -> None:
    lock = scene.lock
    held = [one["name"] for one in client.get("/api/locks").json["locks"]]
    assert held == [lock]
    client.sure("/lock/free", {"name": lock})
    assert client.get("/api/locks").json["locks"] == []
    assert "No unique job holds a lock" in client.get("/locks").text


def test_the_page_of_a_job_links_its_lock(app: App, client: Client, scene: Scene) -> None:
    lock = app.inspector.lock(scene.lock)
    assert lock is not None
    assert client.get(f"/api/job?jid={lock.holder.jid}").json["lock"] == {
        "name": scene.lock, "seconds": 600, "until": "success"
    }  # fmt: skip
    assert "/locks?prefix=SyncStockJob" in client.get(f"/job?jid={lock.holder.jid}").text
