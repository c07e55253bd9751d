"""Pushes that are held back until their job has ended well."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis as redis_py
from apps import fields, own_app, queue, working
from waiting import eventually

from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import ConfigError, RetryJob, TooManyHeld
from goworkers_py.core.home import RunHome
from goworkers_py.core.push_blocks import put_block
from goworkers_py.features.atomic import held_pushes
from goworkers_py.features.atomic.api import NAME, AtomicBlock
from goworkers_py.features.atomic.held_pushes import HeldPushes
from goworkers_py.wire.message import Message, current_message

pytestmark = pytest.mark.server

QUEUE = QueueConfig("q", concurrency=2)


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QUEUE, poll_interval=3600) as app:
        yield app


def ran(app: App, redis: redis_py.Redis, code: Callable[[], Any], **options: Any) -> None:
    """Runs the code as a job, until it is no longer in progress."""
    job = app.job("Parent", queue="q", retry=0, dead=False, **options)(code)
    job.enqueue()
    before = int(redis.get("stat:processed") or 0)
    with working(app):
        assert eventually(lambda: int(redis.get("stat:processed") or 0) > before)


def relayed(app: App) -> bool:
    """Works until the outbox is empty."""
    with working(app):
        return eventually(lambda: app.inspector.stats().outbox == 0)


def args_of(payload: bytes) -> Any:
    return Message(payload, "").args


def test_pushes_happen_when_the_job_has_ended_well(app: App, redis: redis_py.Redis) -> None:
    inside: list[Any] = []

    def parent() -> None:
        app.enqueue("other", "Before", [])
        with app.atomic():
            inside.append(app.enqueue("child", "Child", [1]))
            inside.append(app.enqueue_bulk("child", "Child", [[2], [3]]))
            inside.append(redis.llen("queue:child"))
        app.enqueue("other", "After", [])
        inside.append((redis.llen("queue:child"), redis.llen("queue:other")))

    ran(app, redis, parent)
    first, others, during, after = inside
    assert (during, after) == (0, (0, 2))
    assert fields(queue(redis, "child"), "args") == [[1], [2], [3]]
    assert fields(queue(redis, "child"), "jid") == [first, *others]
    assert redis.sismember("queues", "child")


@pytest.mark.parametrize("is_async", [False, True])
def test_an_atomic_job_holds_back_all_its_pushes(app: App, redis: redis_py.Redis, is_async: bool) -> None:
    during: list[int] = []

    def push() -> None:
        app.enqueue("child", "Child", [1])
        during.append(redis.llen("queue:child"))

    async def push_async() -> None:
        await asyncio.sleep(0)
        push()

    ran(app, redis, push_async if is_async else push, atomic=True)
    assert during == [0]
    assert fields(queue(redis, "child"), "args") == [[1]]


def test_a_job_that_fails_pushes_nothing_and_its_retry_pushes_once(app: App, redis: redis_py.Redis) -> None:
    runs: list[int] = []

    @app.job("Parent", queue="q", retry=3, atomic=True)
    def parent() -> None:
        app.enqueue("child", "Child", [len(runs)])
        runs.append(redis.llen("queue:child"))
        if len(runs) < 3:
            raise RetryJob(delay=0.01)

    parent.enqueue()
    with working(app):
        assert eventually(lambda: redis.llen("queue:child") > 0)
    assert runs == [0, 0, 0]
    assert fields(queue(redis, "child"), "args") == [[2]]


def test_a_block_that_raises_drops_its_own_pushes_only(app: App, redis: redis_py.Redis) -> None:
    def parent() -> None:
        with app.atomic():
            app.enqueue("child", "Child", [1])
            try:
                with app.atomic():
                    app.enqueue("child", "Child", [2])
                    raise KeyError
            except KeyError:
                app.enqueue("child", "Child", [3])
        with app.atomic():
            app.enqueue("child", "Child", [4])

    ran(app, redis, parent)
    assert fields(queue(redis, "child"), "args") == [[1], [3], [4]]


def test_a_link_that_does_not_acknowledge_the_job_keeps_its_pushes_from_happening(
    app: App, redis: redis_py.Redis
) -> None:
    class Refusing:
        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            call_next()
            ended.set()
            return False

    ended = threading.Event()
    app.middleware.append(Refusing())

    @app.job("Parent", queue="q", atomic=True)
    def parent() -> None:
        app.enqueue("child", "Child", [])

    parent.enqueue()
    with working(app):
        assert ended.wait(10)
    assert redis.llen("queue:child") == 0
    assert redis.llen("queue:q") == 1


def test_a_block_of_a_link_is_not_around_the_blocks_of_the_job(app: App, redis: redis_py.Redis) -> None:
    during: list[int] = []

    class Around:
        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            with app.atomic():
                app.enqueue("of-link", "Child", [])
                acknowledged = call_next()
            during.append(redis.llen("queue:child"))
            return acknowledged

    def parent() -> None:
        with app.atomic():
            app.enqueue("child", "Child", [])

    app.middleware.append(Around())
    ran(app, redis, parent)
    assert during == [0], "published before the job was settled"
    assert (redis.llen("queue:child"), redis.llen("queue:of-link")) == (1, 1)


def test_a_link_pushes_at_the_end_of_its_own_block(app: App, redis: redis_py.Redis) -> None:
    """When the link goes on, the job's code has ended, and its pushes are in its outcome already."""

    class Pushing:
        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            acknowledged = call_next()
            with app.atomic():
                app.enqueue("child", "Child", ["of the link"])
            return acknowledged

    app.middleware.append(Pushing())
    ran(app, redis, lambda: None)
    assert fields(queue(redis, "child"), "args") == [["of the link"]]


def test_jobs_for_later_are_held_back_too_and_the_scheduler_knows_of_them(app: App, redis: redis_py.Redis) -> None:
    """It would look for due jobs of other programs an hour later."""

    def parent() -> None:
        with app.atomic():
            app.enqueue_in("child", "Child", 0.3, [1])
            app.enqueue_at("child", "Child", time.time() + 3600, [2])
            assert redis.zcard("schedule") == 0

    @app.job("Parent", queue="q", retry=0, dead=False)
    def job() -> None:
        parent()

    job.enqueue()
    with working(app):
        assert eventually(lambda: redis.llen("queue:child") == 1)
    assert redis.zcard("schedule") == 1


def test_a_held_job_is_enqueued_when_it_comes_into_its_queue(app: App, redis: redis_py.Redis) -> None:
    times: list[float] = []

    def parent() -> None:
        with app.atomic():
            app.enqueue("child", "Child", [])
            time.sleep(0.2)
            times.append(time.time())

    ran(app, redis, parent)
    [enqueued_at], [created_at] = (fields(queue(redis, "child"), name) for name in ("enqueued_at", "created_at"))
    assert created_at < times[0] <= enqueued_at + 0.1


def test_outside_of_a_job_the_pushes_of_a_block_are_published_together_at_its_end(
    app: App, redis: redis_py.Redis
) -> None:
    with app.atomic():
        app.enqueue("child", "Child", [1])
        with app.atomic():
            app.enqueue("child", "Child", [2])
        assert redis.llen("queue:child") == 0
    assert fields(queue(redis, "child"), "args") == [[1], [2]]

    def interrupted() -> None:
        with app.atomic():
            app.enqueue("child", "Child", [3])
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert redis.llen("queue:child") == 2


def test_pushes_to_another_broker_wait_in_the_outbox_and_are_relayed(
    app: App, redis: redis_py.Redis, redis_url: str
) -> None:
    with own_app(redis_url, namespace="other") as other:

        def parent() -> None:
            with app.atomic():
                app.enqueue("child", "Child", [0])
                other.enqueue("child", "Child", [1])
                with other.atomic():
                    other.enqueue("child", "Child", [2])
                    other.enqueue_in("child", "Child", 3_000, [3])
                assert redis.llen("other:queue:child") == redis.zcard("other:schedule") == 0

        ran(app, redis, parent)
        assert relayed(app)
        assert [args_of(one) for one in reversed(redis.lrange("other:queue:child", 0, -1))] == [[1], [2]]
        assert redis.zcard("other:schedule") == 1
        assert redis.smembers("other:queues") == {b"child"}
        assert redis.llen("queue:child") == 1


def test_of_a_block_that_raises_nothing_goes_to_the_outbox(app: App, redis: redis_py.Redis, redis_url: str) -> None:
    with own_app(redis_url, namespace="other") as other:

        def parent() -> None:
            with suppress(KeyError), app.atomic():
                other.enqueue("child", "Child", [1])
                raise KeyError
            with app.atomic():
                other.enqueue("child", "Child", [2])

        ran(app, redis, parent)
        assert relayed(app)
        assert [args_of(one) for one in redis.lrange("other:queue:child", 0, -1)] == [[2]]


def test_pushes_to_a_broker_that_only_this_process_reaches_happen_at_once(app: App, redis: redis_py.Redis) -> None:
    """Another process of the fleet would relay them into its own memory."""
    with own_app("memory://of-this-process") as other:
        inside: list[int] = []

        def parent() -> None:
            with app.atomic():
                other.enqueue("child", "Child", [1])
                inside.append(other.inspector.count(waiting_in("child")))

        ran(app, redis, parent)
        assert (inside, app.inspector.stats().outbox) == ([1], 0)


def test_outside_of_a_job_each_broker_gets_its_pushes_at_the_end_of_the_block(
    app: App, redis: redis_py.Redis, redis_url: str
) -> None:
    with own_app(redis_url, namespace="other") as other:
        with app.atomic():
            app.enqueue("child", "Child", [1])
            other.enqueue("child", "Child", [2])
            assert redis.llen("queue:child") == redis.llen("other:queue:child") == 0
        assert redis.llen("queue:child") == redis.llen("other:queue:child") == 1


@pytest.mark.parametrize(("limit", "most"), [("MOST_HELD", 3), ("MOST_HELD_BYTES", 700)])
def test_a_job_can_hold_back_so_much_and_no_more(
    app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(held_pushes, limit, most)
    errors: list[str] = []

    def parent() -> None:
        with app.atomic():
            for number in range(3):
                app.enqueue("child", "Child", [number])
            try:
                app.enqueue_bulk("child", "Child", [["x" * 200], ["y" * 200]])
            except TooManyHeld as error:
                errors.append(str(error))

    ran(app, redis, parent)
    assert errors
    assert "at most" in errors[0]
    assert fields(queue(redis, "child"), "args") == [[0], [1], [2]]


def test_ten_thousand_jobs_are_held_back_and_pushed(app: App, redis: redis_py.Redis) -> None:
    def parent() -> None:
        with app.atomic():
            for number in range(0, 10_000, 100):
                app.enqueue_bulk("child", "Child", [[number + one] for one in range(100)])

    ran(app, redis, parent)
    assert fields(queue(redis, "child"), "args") == [[number] for number in range(10_000)]


def test_a_thread_with_a_copy_of_the_context_pushes_at_once(app: App, redis: redis_py.Redis) -> None:
    async def parent() -> None:
        def push_twice() -> None:
            app.enqueue("child", "Child", [1])
            with app.atomic():
                app.enqueue("child", "Child", [2])

        await asyncio.to_thread(push_twice)
        assert redis.llen("queue:child") == 2

    ran(app, redis, parent, atomic=True)
    assert int(redis.get("stat:failed") or 0) == 0


def test_a_block_that_raises_drops_no_pushes_of_another_task(app: App, redis: redis_py.Redis) -> None:
    async def parent() -> None:
        inside = asyncio.Event()

        async def bad() -> None:
            with app.atomic():
                app.enqueue("child", "Child", ["bad"])
                inside.set()
                await asyncio.sleep(0.05)
                raise KeyError

        async def good() -> None:
            await inside.wait()
            with app.atomic():
                app.enqueue("child", "Child", ["good"])

        await asyncio.gather(bad(), good(), return_exceptions=True)

    ran(app, redis, parent)
    assert fields(queue(redis, "child"), "args") == [["good"]]


def test_a_child_that_an_atomic_job_forks_pushes_at_once(app: App, redis: redis_py.Redis) -> None:
    def parent() -> None:
        app.enqueue("child", "Child", ["parent"])
        if (pid := os.fork()) == 0:
            app.enqueue("child", "Child", ["forked"])
            with app.atomic():
                app.enqueue("child", "Child", ["forked too"])
            os._exit(0)
        os.waitpid(pid, 0)

    ran(app, redis, parent, atomic=True)
    assert fields(queue(redis, "child"), "args") == [["forked"], ["forked too"], ["parent"]]


def test_a_block_that_never_ended_holds_back_no_pushes_of_later_jobs(redis_url: str, redis: redis_py.Redis) -> None:
    """A time limit may strike in the last lines of the block, and then the thread runs other jobs."""
    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:
        left: list[HeldPushes] = []

        @app.job("Struck", queue="q")
        def struck() -> None:
            left.append(HeldPushes(current_message(), RunHome(app.config.home, time.time)))
            put_block(NAME, AtomicBlock(left[0]))

        @app.job("Later", queue="q")
        def later() -> None:
            app.enqueue("child", "Child", ["of a later job"])
            seen.append(fields(queue(redis, "child"), "args"))

        seen: list[object] = []
        struck.enqueue()
        later.enqueue()
        with working(app):
            assert eventually(lambda: len(seen) == 1)
    assert seen == [[["of a later job"]]]


def test_two_atomic_jobs_of_one_name_are_an_error(app: App) -> None:
    app.job("Twice", atomic=True)(lambda: None)
    with pytest.raises(ConfigError, match="two jobs are called"):

        @app.job("Twice", atomic=True)
        def twice() -> None: ...
