"""Contexts that are entered around each run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

import pytest
import redis as redis_py
from apps import in_progress, job, own_app, working
from waiting import eventually

from goworkers_py import ConfigError, Message, TimeLimitExceeded, current_message
from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.links.around import Arounds
from goworkers_py.links.chain import wrap_all
from goworkers_py.links.perform import close_own_loop, perform
from goworkers_py.policy.registry import JobSpec, Registry

tenant: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.fixture
def trace() -> list[str]:
    return []


@pytest.fixture
def arounds() -> Iterator[Arounds]:
    yield Arounds()
    close_own_loop()


@pytest.fixture
def run(arounds: Arounds) -> Callable[..., Outcome]:
    """Runs a function as a job, inside of the contexts."""

    def run(function: Callable[..., Any], *args: Any) -> Outcome:
        registry = Registry()
        registry.add(JobSpec("J", function))
        chain = wrap_all(perform(registry, arounds=arounds), arounds.links())
        return chain(Message(job("J", *args, jid="abc"), "q"))

    return run


def traced(name: str, trace: list[str]) -> Callable[[Message], Iterator[None]]:
    def factory(message: Message) -> Iterator[None]:
        trace.append(f"{name} in {message.jid}")
        try:
            yield
        except BaseException as error:
            trace.append(f"{name} sees {type(error).__name__}")
            raise
        finally:
            trace.append(f"{name} out")

    return factory


def traced_in_loop(name: str, trace: list[str]) -> Callable[[Message], AsyncIterator[None]]:
    async def factory(message: Message) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        trace.append(f"{name} in {message.jid}")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            trace.append(f"{name} out")

    return factory


# --- entering and leaving


def test_contexts_are_entered_in_the_order_in_which_they_were_declared(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    arounds.add(traced("a", trace))
    arounds.add(traced("b", trace))
    assert run(trace.append, "job") is DONE
    assert trace == ["a in abc", "b in abc", "job", "b out", "a out"]


def test_contexts_are_left_when_the_job_raises_and_see_its_error(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    arounds.add(traced("a", trace))
    with pytest.raises(KeyError, match="no such order"):
        run({}.__getitem__, "no such order")
    assert trace == ["a in abc", "a sees KeyError", "a out"]


def test_every_kind_of_context_factory_is_entered(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    class Session:
        def __init__(self, message: Message) -> None:
            self.jid = message.jid

        def __enter__(self) -> None:
            trace.append(f"class {self.jid}")

        def __exit__(self, *_: object) -> None:
            trace.append("class out")

    class AsyncSession(AbstractAsyncContextManager[None]):
        def __init__(self, message: Message) -> None: ...

        async def __aexit__(self, *_: object) -> None:
            trace.append("async class out")

    arounds.add(Session)
    arounds.add(contextmanager(traced("decorated", trace)))
    arounds.add(lambda message: nullcontext())
    arounds.add(AsyncSession)
    arounds.add(asynccontextmanager(traced_in_loop("async decorated", trace)))

    async def work() -> None:
        trace.append("job")

    run(work)
    assert trace == [
        "class abc", "decorated in abc", "async decorated in abc", "job", "async decorated out", "async class out",
        "decorated out", "class out",
    ]  # fmt: skip


def test_a_context_that_cannot_be_entered_makes_a_failed_run_and_leaves_the_outer_ones(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    def broken(message: Message) -> Iterator[None]:
        raise ConnectionError("no database")
        yield

    arounds.add(traced("a", trace))
    arounds.add(broken)
    with pytest.raises(ConnectionError, match="no database"):
        run(pytest.fail)
    assert trace == ["a in abc", "a sees ConnectionError", "a out"]


def test_a_context_that_raises_when_it_is_left_makes_a_failed_run(
    arounds: Arounds, run: Callable[..., Outcome]
) -> None:
    def broken(message: Message) -> Iterator[None]:
        yield
        raise ConnectionError("cannot commit")

    arounds.add(broken)
    with pytest.raises(ConnectionError, match="cannot commit"):
        run(lambda: None)


def test_a_context_cannot_make_a_failed_run_a_good_one(arounds: Arounds, run: Callable[..., Outcome]) -> None:
    arounds.add(lambda message: suppress(KeyError))
    with pytest.raises(KeyError):
        run({}.__getitem__, "x")


# --- coroutines


def test_an_async_context_is_entered_in_the_task_of_the_coroutine(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    tasks: list[Any] = []

    async def within(message: Message) -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        tenant.set(message.jid)
        yield
        tasks.append(asyncio.current_task())

    async def work() -> None:
        tasks.append(asyncio.current_task())
        trace.append(tenant.get())

    arounds.add(within)
    assert run(work) is DONE
    assert trace == ["abc"]
    assert tasks[0] is tasks[1] is tasks[2]
    assert tenant.get() == "none", "the task has a context of its own"


def test_an_async_context_is_not_entered_around_a_function_and_a_sync_one_is_entered_around_a_coroutine(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    async def work() -> None:
        trace.append("coroutine")

    arounds.add(traced_in_loop("async", trace))
    arounds.add(traced("sync", trace))
    run(trace.append, "function")
    run(work)
    assert trace == [
        "sync in abc", "function", "sync out",
        "sync in abc", "async in abc", "coroutine", "async out", "sync out",
    ]  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_a_coroutine_whose_context_cannot_be_entered_is_closed(
    arounds: Arounds, run: Callable[..., Outcome], trace: list[str]
) -> None:
    async def broken(message: Message) -> AsyncIterator[None]:
        raise ConnectionError
        yield

    async def work() -> None:
        trace.append("begun")

    arounds.add(broken)
    with pytest.raises(ConnectionError):
        run(work)
    assert trace == []


def test_an_async_context_cannot_make_a_failed_run_a_good_one(arounds: Arounds, run: Callable[..., Outcome]) -> None:
    async def catches(message: Message) -> AsyncIterator[None]:
        with suppress(KeyError):
            yield

    async def work() -> None:
        raise KeyError

    arounds.add(catches)
    with pytest.raises(KeyError):
        run(work)


# --- what is refused, and what it costs


def test_what_is_no_context_factory_is_refused_with_what_to_write(arounds: Arounds) -> None:
    async def forgotten(message: Message) -> None: ...

    with pytest.raises(ConfigError, match="forgotten is an async function without a yield; write an async generator"):
        arounds.add(forgotten)
    with pytest.raises(ConfigError, match="is no function; write `def f"):
        arounds.add(7)  # type: ignore[arg-type]


def test_without_contexts_there_is_no_link(arounds: Arounds) -> None:
    assert arounds.links() == []
    arounds.add(traced_in_loop("a", []))
    assert arounds.links() == [], "async ones are entered by `perform`"


# --- a daemon


def test_contexts_share_the_time_limit_of_the_job_and_are_left_at_it(redis_url: str, redis: redis_py.Redis) -> None:
    errors: list[BaseException] = []
    ended = threading.Event()
    with own_app(redis_url, max_retries=0) as app:

        @app.around
        def session(message: Message) -> Iterator[None]:
            assert current_message() is message
            try:
                yield
            finally:
                ended.set()

        @app.job("Slow", queue="q", timeout=0.5)  # the context must be entered by then
        def slow() -> None:
            while not ended.wait(0.01):
                pass

        app.on_error(lambda message, error: errors.append(error))
        slow.enqueue()
        with working(app):
            assert eventually(lambda: redis.zcard("dead") == 1 and not in_progress(redis))
    assert ended.is_set()
    assert [type(error) for error in errors] == [TimeLimitExceeded]
