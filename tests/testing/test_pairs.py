"""In a test block, a job with two features does what it does in production, see tests/api/test_pairs.py."""

from __future__ import annotations

import pytest
from pairs import World, pairs

from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.config.options import Config, QueueConfig

# Measured, they would take three times as long.
pytestmark = pytest.mark.usefixtures("untraced")

ROUNDS = 20


@pytest.fixture
def app() -> App:
    app = App()
    app.use(Config(broker="memory://pairs", queues=(QueueConfig(name="q", priorities=True), QueueConfig(name="r"))))
    return app


def world_of(app: App, ending: str) -> World:
    world = World(app, ending)
    world.declare(*(names for names in pairs() if "periodic" not in names))
    return world


def judge(world: World) -> None:
    assert len(world.cases) > 300
    complaints = world.complaints()
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("ending", ["success", "retry", "no_failure", "death", "discard"])
def test_each_feature_keeps_its_promise_beside_each_other_one(app: App, ending: str) -> None:
    world = world_of(app, ending)
    with testing.fake(app) as sandbox:
        world.push()
        for _ in range(ROUNDS):  # limits of a rate, groups and retries need time
            sandbox.run_all(raise_errors=False)
            sandbox.travel(1)
        assert world.idle, {*world.waiting()}
        judge(world)


def test_jobs_that_run_at_their_push_keep_each_promise(app: App) -> None:
    world = world_of(app, "success")
    world.at_once = True
    with testing.inline(app) as sandbox:
        world.push()
        for _ in range(ROUNDS):
            sandbox.travel(1)
            sandbox.run_all()
        assert world.idle, {*world.waiting()}
        judge(world)
