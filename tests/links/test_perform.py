"""The link `perform`: it finds the code of a job and runs it."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from apps import job
from link_calls import message, registry

from goworkers_py.core.errors import (
    ArgumentError,
    UnknownJob,
)
from goworkers_py.core.outcome import DONE
from goworkers_py.links.perform import close_own_loop, perform
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message, current_message, reset_current, set_current

# --- perform: finding the code and running it


@pytest.fixture
def seen() -> list[Any]:
    return []


def test_a_job_is_run_by_the_function_registered_for_its_class(seen: list[Any]) -> None:
    assert perform(registry(lambda *args: seen.append(args)))(message(1, "b")) is DONE
    assert seen == [(1, "b")]


def test_an_activejob_is_run_by_its_wrapped_class(seen: list[Any]) -> None:
    wrapper = Message(job("Sidekiq::ActiveJob::Wrapper", 5, wrapped="J"), "q")
    perform(registry(seen.append))(wrapper)
    assert seen == [5]


def test_a_queues_handler_gets_the_message_whatever_its_class(seen: list[Any]) -> None:
    of = registry(lambda: pytest.fail("the class must not decide"))
    of.handle("q", seen.append)
    given = message({"not": "an array"}, args=7)
    perform(of)(given)
    assert seen == [given]


def test_a_job_without_args_is_called_without_any(seen: list[Any]) -> None:
    perform(registry(lambda: seen.append("called")))(Message(b'{"class":"J"}', "q"))
    assert seen == ["called"]


@pytest.mark.parametrize("args", [{"a": 1}, "ab", 7, True])
def test_args_that_are_no_array_fail_the_job(args: Any) -> None:
    with pytest.raises(ArgumentError, match="args must be an array"):
        perform(registry())(message(args=args))


def test_an_unknown_class_fails_each_time_and_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    run = perform(Registry())
    for name in ("A::B", "A::B", "C"):
        with pytest.raises(UnknownJob, match=name):
            run(Message(job(name), "q"))
    assert [record.getMessage()[:34] for record in caplog.records] == [
        "no job is registered as 'A::B': de",
        "no job is registered as 'C': decor",
    ]


def test_not_every_class_that_strangers_name_is_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.modules[perform.__module__], "MOST_WARNED_OF", 10)
    run = perform(Registry())
    for name in ("A", *map(str, range(10)), "A"):
        with pytest.raises(UnknownJob):
            run(Message(job(name), "q"))
    assert len(caplog.records) == 12, "the first one is remembered for ever"


# --- async jobs


@pytest.fixture
def loop() -> Iterator[None]:
    """This thread plays a worker's."""
    yield
    close_own_loop()


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("form", ["function", "partial", "method", "decorated", "handler"])
def test_an_async_function_is_awaited_in_whatever_form_it_comes(form: str, seen: list[Any]) -> None:
    class Sender:
        async def send(self, what: Any) -> None:
            await asyncio.sleep(0)
            seen.append(what)

    async def send(what: Any) -> None:
        await Sender().send(what)

    @functools.wraps(send)
    def decorated(what: Any) -> Any:
        return send(what)

    functions = {
        "function": send, "partial": functools.partial(send), "method": Sender().send, "decorated": decorated,
    }  # fmt: skip
    of = registry(functions.get(form, send))
    if form == "handler":
        of.handle("q", send)
    given = message("a")
    perform(of)(given)
    assert seen == [given if form == "handler" else "a"]


def test_each_thread_runs_its_async_jobs_in_one_loop_of_its_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    run = perform(registry(note))

    def worker() -> None:
        run(message())
        run(message())
        close_own_loop()

    for _ in range(2):
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    first, again, other, other_again = loops
    assert first is again
    assert other is other_again
    assert first is not other
    assert all(loop.is_closed() for loop in loops)


@pytest.mark.usefixtures("loop")
def test_tasks_that_an_async_job_leaves_behind_are_cancelled(seen: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    async def forgotten() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def leave(fail: bool) -> None:
        seen.append(asyncio.create_task(forgotten()))
        await asyncio.sleep(0)
        if fail:
            raise ValueError("failed too")

    run = perform(registry(leave))
    run(message(False))
    assert seen[1:] == ["cancelled"]
    with pytest.raises(ValueError, match="failed too"):
        run(message(True))
    assert seen[3:] == ["cancelled"]
    assert caplog.text.count("left 1 asyncio task") == 2


@pytest.mark.usefixtures("loop")
def test_the_current_message_is_known_inside_async_jobs_and_their_tasks(seen: list[Any]) -> None:
    async def look() -> None:
        seen.append(current_message())
        seen.append(await asyncio.create_task(look_deeper()))

    async def look_deeper() -> Message | None:
        return current_message()

    given = message()
    token = set_current(given)
    try:
        perform(registry(look))(given)
    finally:
        reset_current(token)
    assert seen == [given, given]
