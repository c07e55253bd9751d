"""Keyword arguments and converted ones, from the push to the job's code, on the memory broker and on Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, TypedDict

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py import App, ArgumentError, EnqueueOptions, Message
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.contracts.admin import Changed, Place
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import QueueConfig

DAY = date(2026, 1, 31)
MEMORY = "memory://arguments"


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


@dataclasses.dataclass
class Order:
    name: str
    lines: list[Line]
    day: date


# Scope `session`: the server starts before the fixtures that check what a test leaves behind.
class Options(TypedDict, total=False):
    day: date
    number: int


@pytest.fixture(scope="session", params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def broker(request: pytest.FixtureRequest) -> str:
    if request.param == "redis":
        request.getfixturevalue("redis_server")
    return str(request.param)


@pytest.fixture
def address(broker: str, request: pytest.FixtureRequest) -> Iterator[str]:
    yield MEMORY if broker == "memory" else request.getfixturevalue("redis_url")
    forget(MEMORY)


@pytest.fixture
def app(address: str) -> Iterator[App]:
    with own_app(address, QueueConfig("q", concurrency=1)) as app:
        yield app


def jobs(app: App, place: Place) -> list[dict[str, Any]]:
    """The payloads of a place, the one that runs or was buried first at the front."""
    return [json.loads(job.payload) for job in app.inspector.first(place, 100)]


def waiting(app: App) -> list[dict[str, Any]]:
    return jobs(app, waiting_in("q"))


def dead(app: App) -> list[dict[str, Any]]:
    return jobs(app, DEAD)


def publish(app: App, job_class: str = "J", **fields: Any) -> None:
    """As a stranger pushes, without any check."""
    payload = {"class": job_class, "args": [], "retry": True, "queue": "q", "jid": job_class + str(fields), **fields}
    app.broker.transport.publish([Push("q", json.dumps(payload).encode())])


# --- keyword arguments


def test_keyword_arguments_travel_in_a_field_of_their_own(app: App) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @app.job("J", queue="q")
    def run(number: int, *rest: int, pdf: bool = False, **others: Any) -> None:
        got.put((number, rest, pdf, others))

    run.enqueue(1, 2, pdf=True, self="me", delay=3)
    run.enqueue(number=4)
    run.enqueue(5)
    first, second, third = waiting(app)
    assert (first["args"], first["kwargs"]) == ([1, 2], {"pdf": True, "self": "me", "delay": 3})
    assert (second["args"], second["kwargs"]) == ([], {"number": 4})
    assert first["pyworkers"] == second["pyworkers"] == {"v": 1, "needs": ["kwargs"]}
    assert not {"kwargs", "pyworkers"} & third.keys()
    with working(app):
        assert {got.get(timeout=10)[0] for _ in range(3)} == {1, 4, 5}


def test_delayed_jobs_have_keyword_arguments_too(app: App) -> None:
    @app.job("J", queue="q")
    def run(at: int, delay: int) -> None: ...

    run.enqueue_in(60, 1, delay=2)
    run.enqueue_at(4102444800, at=1, delay=2)
    run.set(retry=3).enqueue_in(90, at=1, delay=2)
    assert [(job["args"], job["kwargs"]) for job in jobs(app, SCHEDULED)] == [
        ([1], {"delay": 2}), ([], {"at": 1, "delay": 2}), ([], {"at": 1, "delay": 2}),
    ]  # fmt: skip


def test_a_producer_without_the_jobs_code_gives_them_beside_the_options(app: App) -> None:
    app.enqueue_with_options("q", "J", [1], EnqueueOptions(retry=3), {"pdf": True})
    app.enqueue_with_options("q", "J", [1], EnqueueOptions(retry=3), {})
    first, second = waiting(app)
    assert first["kwargs"] == {"pdf": True}
    assert "kwargs" not in second
    with pytest.raises(ArgumentError, match=r"^kwargs\['day'\] is a date, not plain JSON"):
        app.enqueue_with_options("q", "J", [1], EnqueueOptions(), {"day": DAY})
    with pytest.raises(ArgumentError, match=r"^kwargs must be a dict of arguments by name, is list"):
        app.enqueue_with_options("q", "J", [1], EnqueueOptions(), [("pdf", True)])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^extra: kwargs is set by the push"):
        EnqueueOptions(extra={"kwargs": {}})


def test_a_client_link_sees_and_changes_keyword_arguments(app: App) -> None:
    @app.client_middleware
    def add_tenant(job: dict[str, Any]) -> dict[str, Any]:
        job.setdefault("kwargs", {})["tenant"] = "acme"
        return job

    app.enqueue("q", "J", [1])
    app.enqueue_with_options("q", "J", [1], EnqueueOptions(), {"pdf": True})
    first, second = waiting(app)
    assert first["kwargs"] == {"tenant": "acme"}
    assert second["kwargs"] == {"pdf": True, "tenant": "acme"}
    assert first["pyworkers"] == second["pyworkers"] == {"v": 1, "needs": ["kwargs"]}


def test_a_client_link_that_makes_them_something_else_is_refused(app: App) -> None:
    @app.client_middleware
    def spoil(job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "kwargs": [1]}

    with pytest.raises(ArgumentError, match="kwargs must be a dict of arguments by name, is list"):
        app.enqueue("q", "J", [1])


def test_a_middleware_changes_keyword_arguments_for_the_run(app: App) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    class Tenant:
        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            message.kwargs = {**message.kwargs, "tenant": "acme"}
            return call_next()

    app.middleware.append(Tenant())
    app.job("J", queue="q")(lambda **given: got.put(given))
    app.enqueue("q", "J", [])
    app.enqueue_with_options("q", "J", [], EnqueueOptions(), {"pdf": True})
    with working(app):
        assert [got.get(timeout=10) for _ in range(2)] == [{"tenant": "acme"}, {"pdf": True, "tenant": "acme"}]


@pytest.mark.parametrize(
    ("field", "outcome"),
    [
        (None, "ran"),
        ({}, "ran"),
        ([1], "kwargs must be an object, is list"),
        ("x", "kwargs must be an object, is str"),
        ({"more": 1}, "J cannot be called with these arguments: got an unexpected keyword argument 'more'"),
    ],
)
def test_a_stranger_may_write_anything_into_the_field(app: App, field: Any, outcome: str) -> None:
    ran = threading.Event()
    app.job("J", queue="q")(lambda: ran.set())
    publish(app, kwargs=field, retry=0)
    with working(app):
        assert eventually(lambda: ran.is_set() or dead(app))
    told = "ran" if ran.is_set() else dead(app)[0]["error_message"]
    assert told == outcome


def test_a_handler_of_a_queue_gets_the_message_as_ever(app: App) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    app.process("q", lambda message: got.put((message.args, message.kwargs)), 1)
    app.enqueue("q", "J", [1])
    app.enqueue_with_options("q", "J", [1], EnqueueOptions(), {"pdf": True})
    with working(app):
        assert [got.get(timeout=10) for _ in range(2)] == [([1], {}), ([1], {"pdf": True})]


# --- conversion

ORDER = Order("a-1", [Line("x", Decimal("9.90"))], DAY)
ORDER_JSON = {"name": "a-1", "lines": [{"sku": "x", "price": "9.90"}], "day": "2026-01-31"}


def test_the_jobs_code_gets_the_values_that_were_pushed(app: App) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @app.job("J", queue="q")
    def run(order: Order, *days: date, only: set[str], raw: Any = None) -> None:
        got.put((order, days, only, raw))

    run.enqueue(ORDER, DAY, only={"b", "a"})
    [job] = waiting(app)
    assert (job["args"], job["kwargs"]) == ([ORDER_JSON, "2026-01-31"], {"only": ["a", "b"]})
    assert job["pyworkers"] == {"v": 1, "needs": ["kwargs", "typed"]}
    with working(app):
        assert got.get(timeout=10) == (ORDER, (DAY,), {"a", "b"}, None)


@pytest.mark.parametrize("how", ["async", "atomic", "partial", "wrapped", "object"])
def test_every_kind_of_function_gets_them(app: App, how: str) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    app.job("J", queue="q", atomic=how == "atomic")(of_kind(how, got))
    publish(app, args=["2026-01-31"])
    publish(app, args=["31st of January"])
    with working(app):
        assert got.get(timeout=10) == DAY
        assert eventually(lambda: jobs(app, RETRIES))
    [job] = jobs(app, RETRIES)
    assert job["error_message"] == "J: day: is '31st of January', not a date, such as '2026-01-31'"
    assert job["error_class"] == "goworkers_py.ArgumentsDoNotFit"


def of_kind(how: str, got: queue.SimpleQueue[Any]) -> Callable[..., Any]:
    def run(day: date) -> None:
        got.put(day)

    async def later(day: date) -> None:
        await asyncio.sleep(0)
        got.put(day)

    def keyword(number: int, day: date) -> None:
        got.put(day)

    @functools.wraps(run)
    def wrapped(*args: Any) -> None:
        run(*args)

    class Runner:
        def __call__(self, day: date) -> None:
            got.put(day)

    # The hints are texts, and `date` is a name of the module.
    kinds: dict[str, Callable[..., Any]] = {
        "async": later, "atomic": run, "partial": functools.partial(keyword, 1), "wrapped": wrapped, "object": Runner(),
    }  # fmt: skip
    return kinds[how]


def test_a_push_that_an_older_release_understands_needs_nothing_of_the_worker(app: App) -> None:
    @app.job("J", queue="q")
    def run(day: date | None, order: Order | None = None) -> None: ...

    run.enqueue("2026-01-31")  # type: ignore[arg-type]
    run.enqueue_bulk([[None], ["2026-01-31", ORDER_JSON]])
    assert [job.get("pyworkers") for job in waiting(app)] == [None] * 3
    run.enqueue_bulk([[None], [DAY]])
    assert [job.get("pyworkers") for job in waiting(app)][3:] == [{"v": 1, "needs": ["typed"]}] * 2


def test_a_dict_of_another_type_is_pushed_as_a_dict(app: App) -> None:
    @app.job("J", queue="q")
    def run(options: Options) -> None: ...

    run.enqueue(OrderedDict(day=DAY))  # type: ignore[arg-type]
    run.enqueue(OrderedDict(number=1))  # type: ignore[arg-type]
    assert run.enqueue_bulk([]) == []
    assert [job["args"] for job in waiting(app)] == [[{"day": "2026-01-31"}], [{"number": 1}]]


def test_a_push_names_the_part_that_does_not_fit_its_hint(app: App) -> None:
    @app.job("J", queue="q")
    def run(order: Order, day: date = DAY) -> None: ...

    bad = Order("a-1", [Line("x", "much")], DAY)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^J: order\.lines\[0\]\.price: is 'much', not a decimal number"):
        run.enqueue(bad)
    with pytest.raises(ArgumentError, match=r"^J: day: is 5, not a date"):
        run.enqueue_bulk([[ORDER], [ORDER, 5]])
    with pytest.raises(ArgumentError, match=r"^rows\[1\] must be a list of arguments, is str"):
        run.enqueue_bulk([[ORDER], "x"])
    assert waiting(app) == []


def test_a_value_that_is_not_plain_json_says_that_a_hint_would_convert_it(app: App) -> None:
    @app.job("J", queue="q")
    def run(day, order=None) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ArgumentError, match=r"^args\[0\] is a date, not plain JSON: pass .isoformat\(\), or annotate"):
        run.enqueue(DAY)
    with pytest.raises(ArgumentError, match=r"^kwargs\['order'\] is a Order, not plain JSON: annotate the parameter"):
        run.enqueue("x", order=ORDER)


# --- arguments that do not fit


@pytest.mark.parametrize("how", ["async", "atomic", "partial", "wrapped", "object"])
@pytest.mark.parametrize("args", [[], ["2026-01-31", 2]])
def test_a_call_that_does_not_fit_the_signature_is_told_apart_from_an_error_of_the_job(
    app: App, how: str, args: list[Any]
) -> None:
    app.job("J", queue="q", atomic=how == "atomic")(of_kind(how, queue.SimpleQueue()))
    publish(app, args=args)
    with working(app):
        assert eventually(lambda: jobs(app, RETRIES))
    [job] = jobs(app, RETRIES)
    assert job["error_class"] == "goworkers_py.ArgumentsDoNotFit"
    assert job["error_message"].startswith("J cannot be called with these arguments: ")


def test_a_type_error_of_the_jobs_own_code_is_a_failure_as_ever(app: App) -> None:
    def outer(*args: Any) -> None:
        len(*args)

    @functools.wraps(outer)
    def with_session(*args: Any) -> None:
        takes_session("session", *args)

    def takes_session(session: str, number: int) -> None:
        len(5)  # type: ignore[arg-type]

    with_session.__wrapped__ = takes_session  # type: ignore[attr-defined]  # its signature is not that of the wrapper
    app.job("Session", queue="q")(with_session)
    app.job("Inner", queue="q")(outer)
    app.job("Builtin", queue="q")(len)
    app.job("Sum", queue="q")(sum)
    publish(app, "Session", args=[1], retry=0)
    publish(app, "Inner", args=[1, 2], retry=0)
    publish(app, "Builtin", args=[5], retry=0)
    publish(app, "Sum", args=[["x"]], retry=0)
    with working(app):
        assert eventually(lambda: len(dead(app)) == 4)
    assert {job["error_class"] for job in dead(app)} == {"TypeError"}


def test_a_job_that_pushes_another_one_with_wrong_arguments_has_failed_as_ever(app: App) -> None:
    other = app.job("Other", queue="q")(of_kind("object", queue.SimpleQueue()))
    app.job("J", queue="q")(lambda: other.enqueue())
    publish(app, retry=0)
    with working(app):
        assert eventually(lambda: dead(app))
    assert dead(app)[0]["error_class"] == "goworkers_py.ArgumentError"


def test_a_job_that_fits_an_earlier_or_later_release_waits_for_it(app: App, address: str) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    app.job("J", queue="q")(lambda day: got.put("old"))
    publish(app, args=["2026-01-31", "new"])
    with working(app):
        assert eventually(lambda: jobs(app, RETRIES))
    [job] = jobs(app, RETRIES)
    assert "retry_count" not in job, "no retry is spent"
    assert job["unfit_since"]
    with own_app(address, QueueConfig("q", concurrency=1)) as newer:
        newer.job("J", queue="q")(lambda day, more: got.put(more))
        assert list(newer.inspector.retry(RETRIES, Filter())) == [(1, Changed(done=1))]
        with working(newer):
            assert got.get(timeout=10) == "new"
