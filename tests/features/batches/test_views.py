"""The pages of batches."""

from __future__ import annotations

from web_hostile import NAME, assert_shown_as_text
from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App


def test_a_batch_is_cancelled_after_a_question(app: App, client: Client, scene: Scene) -> None:
    assert "Cancel batch" in client.post("/batch/cancel", {"bid": scene.bid}).text
    client.sure("/batch/cancel", {"bid": scene.bid})
    batch = app.inspector.batches.status(scene.bid)
    assert batch is not None
    assert batch.stopped
    assert client.get("/batch?bid=nosuch").status == 404


def test_a_batch_is_ended_by_force_only_after_a_question(app: App, client: Client, scene: Scene) -> None:
    assert "End batch" in client.post("/batch/close", {"bid": scene.bid, "force": "yes"}).text
    client.sure("/batch/close", {"bid": scene.bid, "force": "yes"})
    batch = app.inspector.batches.status(scene.bid)
    assert batch is not None
    assert batch.ended_at is not None


def test_a_hostile_name_is_shown_as_text_and_its_page_found(app: App, client: Client) -> None:
    with app.batch(NAME):
        app.enqueue("q", "Job", [])
    assert_shown_as_text(client, "/batches", "/batch?")
