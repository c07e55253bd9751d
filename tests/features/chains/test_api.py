"""Chains: each link is pushed in the step in which the one before ends well, and gets its result."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD, waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import ArgumentError, BatchEnded, JobCancelled, KillJob
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.chains.chain import PREVIOUS, ChainStatus
from goworkers_py.features.chains.payload import MOST_AROUND, MOST_LEVELS
from goworkers_py.wire.message import current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    queues = [QueueConfig(name="q", concurrency=3), QueueConfig(name="r", concurrency=1)]
    with own_app(broker_address, *queues) as app:
        yield app


@dataclasses.dataclass
class Page:
    number: int


class Ran:
    """Jobs that note what they got."""

    def __init__(self, app: App) -> None:
        self.told: list[Any] = []
        self.add = app.job("Add", queue="q")(self._add)
        self.tell = app.job("Tell", queue="r")(self._tell)

    def _add(self, one: Any, other: Any = 0) -> Any:
        self.told.append((one, other))
        return one + other

    def _tell(self, *args: Any, **kwargs: Any) -> Any:
        self.told.append((*args, kwargs) if kwargs else args)
        return args[0] if args else None


@pytest.fixture
def ran(app: App) -> Ran:
    return Ran(app)


def status(app: App, cid: str) -> ChainStatus:
    found = app.chains.status(cid)
    assert found is not None
    return found


def is_at(app: App, cid: str, state: str) -> bool:
    return bool(eventually(lambda: status(app, cid).state == state))


def test_complaint_1080_each_link_gets_the_result_of_the_one_before(app: App, ran: Ran) -> None:
    chain = app.chain(ran.add.s(1, 2), ran.add.s(PREVIOUS, 10), ran.tell.s(PREVIOUS, [PREVIOUS, "x"], last=PREVIOUS))
    cid = chain.enqueue()
    told = status(app, cid)
    assert (told.links, told.link, told.state) == (3, 1, "running")
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told == [(1, 2), (3, 10), (13, [13, "x"], {"last": 13})]
    assert status(app, cid).link == 3


@pytest.mark.parametrize("result", [None, 'a " % \\ \n é', {"a": [1.5, True]}, [], (1, 2), 0])
def test_a_result_is_any_json(app: App, ran: Ran, result: Any) -> None:
    @app.job("Give", queue="q")
    def give() -> Any:
        return result

    cid = app.chain(give.s(), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told == [(list(result) if isinstance(result, tuple) else result,)]


@pytest.mark.parametrize(
    "options",
    [
        {"track": True},
        {"retain": 60},
        {"sidekiq_status": True},
        {"retain": 60, "sidekiq_status": True},
        {"atomic": True},
        {"atomic": True, "retain": 60},
        {"expires_in": 60},
        {"expires_in": 60, "track": True},
    ],
    ids=lambda options: "+".join(options),
)
@pytest.mark.parametrize("progress", [0, 1], ids=["silent", "tells its progress"])
def test_a_link_gives_its_result_whatever_else_it_does(
    app: App, ran: Ran, options: dict[str, Any], progress: int
) -> None:
    @app.job("Give", queue="q", **options)
    def give() -> str:
        message = current_message()
        assert message is not None
        if progress:
            message.progress(progress)
        return "this"

    cid = app.chain(give.s(), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told == [("this",)]


def test_a_limited_link_gives_its_result(app: App, ran: Ran) -> None:
    @app.job("Give", queue="q", track=True, limits=[app.limit("narrow", concurrent=1)])
    def give(number: int) -> int:
        return number

    cids = [app.chain(give.s(number), ran.tell.s(PREVIOUS)).enqueue() for number in range(3)]
    with working(app):
        assert all(is_at(app, cid, "ended") for cid in cids)
    assert sorted(ran.told) == [(0,), (1,), (2,)]


def test_a_link_without_previous_needs_no_result(app: App, ran: Ran) -> None:
    @app.job("Give", queue="q")
    def give() -> Any:
        return object()

    cid = app.chain(give.s(), ran.tell.s(1)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told == [(1,)]


def test_a_result_that_is_no_json_fails_the_job(app: App, ran: Ran) -> None:
    @app.job("Give", queue="q", retry=False)
    def give() -> Any:
        return object()

    cid = app.chain(give.s(), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "stopped")
    assert (status(app, cid).why, status(app, cid).job_class, ran.told) == ("discarded", "Give", [])


def test_a_result_that_is_nested_too_deep_for_the_next_link_fails_the_job(app: App, ran: Ran) -> None:
    deep: Any = []
    for _ in range(97):
        deep = [deep]
    nest = app.job("Nest", queue="q", retry=0)(lambda: deep)
    cid = app.chain(nest.s(), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "stopped")
    assert app.inspector.count(DEAD) == 1


def test_parallel_parts_run_side_by_side_and_the_next_link_gets_all_results(app: App, ran: Ran) -> None:
    parts = app.parallel(*(ran.add.s(number, PREVIOUS) for number in range(20)))
    cid = app.chain(ran.add.s(100), parts, ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told[-1] == ([*range(100, 120)],)


def test_a_chain_may_begin_and_end_with_parts(app: App, ran: Ran) -> None:
    cid = app.chain(app.parallel(ran.add.s(1), ran.add.s(2)), app.parallel(ran.tell.s(PREVIOUS), ran.tell.s(3)))
    with working(app):
        assert is_at(app, cid.enqueue(), "ended")
    assert sorted(map(str, ran.told)) == ["(1, 0)", "(2, 0)", "(3,)", "([1, 2],)"]


def test_death_stops_the_chain_and_says_where_and_a_retry_goes_on(app: App, ran: Ran) -> None:
    broken = [True]

    @app.job("Dies", queue="q")
    def dies(got: Any) -> Any:
        if broken:
            raise KillJob("no more")
        return got

    cid = app.chain(ran.add.s(1), dies.s(PREVIOUS), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "stopped")
        told = status(app, cid)
        assert (told.link, told.why, told.job_class) == (2, "dead", "Dies")
        assert app.inspector.first(DEAD, 1)[0].jid == told.jid
        broken.clear()
        list(app.inspector.retry(DEAD, Filter()))
        assert is_at(app, cid, "ended")
    assert ran.told == [(1, 0), (1,)]
    assert status(app, cid).why == ""


def test_a_retried_part_completes_its_link(app: App, ran: Ran) -> None:
    broken = [True]

    @app.job("Dies", queue="q")
    def dies() -> Any:
        if broken:
            raise KillJob("no more")
        return "mended"

    cid = app.chain(app.parallel(ran.add.s(1), dies.s()), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "stopped")
        broken.clear()
        list(app.inspector.retry(DEAD, Filter()))
        assert is_at(app, cid, "ended")
    assert ran.told[-1] == ([1, "mended"],)


def test_a_deleted_link_stops_the_chain(app: App, ran: Ran) -> None:
    cid = app.chain(ran.add.s(1), ran.tell.s(2)).enqueue()
    list(app.inspector.delete(waiting_in("q"), Filter()))
    assert (status(app, cid).state, status(app, cid).why) == ("stopped", "cancelled")


def test_cancel_ends_a_chain_that_waits(app: App, ran: Ran) -> None:
    cid = app.chain(ran.add.s(1), ran.tell.s(2)).enqueue()
    assert app.chains.cancel(cid)
    assert not app.chains.cancel(cid)
    assert not app.chains.cancel("none")
    assert status(app, cid).state == "cancelled"
    assert app.broker.require_part(Cancels).stands(cid)
    with working(app):
        assert eventually(lambda: not app.broker.require_part(Cancels).stands(cid))
    assert ran.told == []


def test_cancel_interrupts_the_link_that_runs(app: App, ran: Ran) -> None:
    begun, told = threading.Event(), []

    @app.job("Long", queue="q")
    def long() -> None:
        try:
            begun.set()  # the exception may strike from here on
            while True:  # an exception is thrown between two instructions
                time.sleep(0.01)
        except JobCancelled:
            told.append("interrupted")
            raise

    cid = app.chain(long.s(), ran.tell.s(2)).enqueue()
    with working(app):
        assert begun.wait(20)
        assert app.chains.cancel(cid)
        assert eventually(lambda: not app.broker.require_part(Cancels).stands(cid))
    assert (told, ran.told) == (["interrupted"], [])


def test_complaint_640_each_link_joins_the_batch_in_which_the_chain_was_pushed(app: App, ran: Ran) -> None:
    with app.batch(on_success=ran.tell.s("success")) as batch:
        cid = app.chain(ran.add.s(1), app.parallel(ran.add.s(2), ran.add.s(3)), ran.tell.s(PREVIOUS)).enqueue()
    assert batch.status().total == 1  # type: ignore[union-attr]
    with working(app):
        assert is_at(app, cid, "ended")
        assert eventually(lambda: ("success",) in ran.told)
    assert batch.status().succeeded == 4  # type: ignore[union-attr]
    assert ran.told[-1] == ("success",)


def test_a_dead_link_that_is_retried_after_the_end_of_its_batch_goes_on(app: App, ran: Ran) -> None:
    broken = [True]

    @app.job("Dies", queue="q")
    def dies() -> Any:
        if broken:
            raise KillJob("no more")
        return 7

    with app.batch(on_success=ran.tell.s("success")) as batch:
        cid = app.chain(dies.s(), ran.tell.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "stopped")
        assert batch.status().state == "ended"  # type: ignore[union-attr]
        broken.clear()
        list(app.inspector.retry(DEAD, Filter()))
        assert is_at(app, cid, "ended")
        assert eventually(lambda: len(ran.told) == 2)
    assert sorted(map(str, ran.told)) == ["('success',)", "(7,)"]
    assert (batch.status().total, batch.status().succeeded) == (1, 1)  # type: ignore[union-attr]


def test_a_cancelled_batch_takes_no_chain(app: App, ran: Ran) -> None:
    with app.batch() as batch:
        batch.cancel()
        with pytest.raises(BatchEnded):
            app.chain(ran.add.s(1)).enqueue()
    assert list(app.chains.all()) == []


def test_a_job_may_push_a_chain(app: App, ran: Ran) -> None:
    @app.job("Pushes", queue="q")
    def pushes() -> None:
        assert current_message() is not None
        app.chain(ran.add.s(1), ran.tell.s(PREVIOUS)).enqueue()

    pushes.enqueue()
    with working(app):
        assert eventually(lambda: (1,) in ran.told)


def test_typed_arguments_take_previous(app: App, ran: Ran) -> None:
    @app.job("Give", queue="q")
    def give() -> dict[str, int]:
        return {"number": 7}

    @app.job("Take", queue="q")
    def take(page: Page) -> None:
        ran.told.append(page.number)

    cid = app.chain(give.s(), take.s(PREVIOUS)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    assert ran.told == [7]


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def test_previous_and_the_result_may_be_nested_as_deep_as_is_said(app: App, ran: Ran) -> None:
    nest = app.job("Nest", queue="q")(lambda: nested([], MOST_LEVELS - 1))
    around = nested(PREVIOUS, MOST_AROUND)
    cid = app.chain(app.parallel(nest.s(), nest.s()), ran.tell.s(around, named=around)).enqueue()
    with working(app):
        assert is_at(app, cid, "ended")
    whole = nested([nested([], MOST_LEVELS - 1)] * 2, MOST_AROUND)
    assert ran.told == [(whole, {"named": whole})]


def test_previous_outside_of_a_chain_is_refused(app: App, ran: Ran) -> None:
    typed = app.job("Typed", queue="q")(_typed)
    for push in (
        lambda: ran.add.enqueue(PREVIOUS),
        lambda: ran.add.enqueue(1, other={"a": [PREVIOUS]}),
        lambda: ran.add.enqueue_bulk([[1], [[PREVIOUS]]]),
        lambda: typed.enqueue(PREVIOUS),
        lambda: app.enqueue("q", "Any", [PREVIOUS]),
        lambda: app.batch(on_success=ran.add.s(PREVIOUS)).__enter__(),
    ):
        with pytest.raises(ArgumentError, match=r"workers\.PREVIOUS stands in the arguments of a link"):
            push()


def _typed(page: Page) -> None: ...


def test_what_cannot_be_a_link_is_refused_at_the_call(app: App, ran: Ran) -> None:
    for links, told in [
        ((), "without links"),
        ((ran.add,), "write Add.s"),
        (("Add",), "a job with its arguments"),
    ]:
        with pytest.raises(ArgumentError, match=told):
            app.chain(*links)  # type: ignore[arg-type]
    for links, told in [
        ((ran.add.s(PREVIOUS),), "first link"),
        ((ran.add.s(1), ran.add.s(nested(PREVIOUS, MOST_AROUND + 1))), "PREVIOUS is nested deeper than 47 levels"),
        ((ran.add.s(1), ran.add.s({PREVIOUS: 1})), "is a key of type Previous"),
        ((ran.add.set(unique_for=60).s(1),), r"takes no lock: write \w+\.set\(unique_for=False\)\.s"),
        ((ran.add.s(1), ran.add.set(expires_in=60).s(1)), "expires_in would count from now"),
        ((ran.add.s(1, 2, 3),), "cannot be called"),
    ]:
        with pytest.raises(ArgumentError, match=told):
            app.chain(*links).enqueue()  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="outside"), app.atomic():
        app.chain(ran.add.s(1)).enqueue()
    with pytest.raises(ArgumentError, match="1 to 1,000"):
        app.parallel()
    assert list(app.chains.all()) == []


def test_a_link_that_is_enqueued_again_is_in_no_chain(app: App, ran: Ran) -> None:
    cid = app.chain(ran.add.s(1), ran.tell.s(2)).enqueue()
    app.inspector.enqueue_again(app.broker.admin.jobs_in(waiting_in("q")).first(1)[0])
    with working(app):
        assert is_at(app, cid, "ended")
        assert eventually(lambda: len(ran.told) == 3)
    assert sorted(map(str, ran.told)) == ["(1, 0)", "(1, 0)", "(2,)"]
