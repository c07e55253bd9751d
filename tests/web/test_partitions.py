"""The page of the partitions, of which some do not answer."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator

import pytest
from waiting import eventually
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.web import application


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
    client = Client(application(app, authorize=lambda environ, action: True))
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
