"""The pages of chains."""

from __future__ import annotations

import pytest
import redis as redis_py
import web_scene
from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application


@pytest.fixture
def scene(app: App, redis: redis_py.Redis) -> Scene:
    return web_scene.restored(web_scene.fill, app, redis)


@pytest.fixture
def client(app: App, scene: Scene) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


def test_a_chain_is_cancelled(app: App, client: Client, scene: Scene) -> None:
    client.sure("/chain/cancel", {"cid": scene.cid})
    chain = app.inspector.chains.status(scene.cid)
    assert chain is not None
    assert chain.state == "cancelled"
