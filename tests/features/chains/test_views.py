"""The pages of chains."""

from __future__ import annotations

from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App


def test_a_chain_is_cancelled(app: App, client: Client, scene: Scene) -> None:
    client.sure("/chain/cancel", {"cid": scene.cid})
    chain = app.inspector.chains.status(scene.cid)
    assert chain is not None
    assert chain.state == "cancelled"
