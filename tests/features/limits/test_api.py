"""Limits: how many jobs run at once, and how many begin in a time."""

from __future__ import annotations

import atexit
import dataclasses
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apps import own_app, working
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.api import block_owner
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.memory.broker import state_at
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import ArgumentError, BrokerRefused, BrokerUnavailable, ConfigError, LimitTimeout
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.limit import Begins, LimitSettings, Slot
from goworkers_py.features.limits.limiting import Limiting
from goworkers_py.features.limits.options import LimitConfig
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.recovering.recoverer import judge_by
from goworkers_py.runtime.running import rungs
from goworkers_py.web.prometheus import exposition


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=5)) as app:
        yield app


class Busy:
    """How many run at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = defaultdict[object, int](int)
        self.most = defaultdict[object, int](int)
        self.ended: list[object] = []

    def run(self, key: object, value: object = None, seconds: float = 0.01) -> None:
        with self._lock:
            self.now[key] += 1
            self.most[key] = max(self.most[key], self.now[key])
        time.sleep(seconds)
        with self._lock:
            self.now[key] -= 1
            self.ended.append(value)


def test_complaint_542_as_many_jobs_of_a_class_run_at_once_as_its_limit_allows(app: App) -> None:
    busy = Busy()

    @app.job("Charge", queue="q", limits=[app.limit("stripe", concurrent=2)])
    def charge(number: int) -> None:
        busy.run("all", number)

    charge.enqueue_bulk([[number] for number in range(40)])
    with working(app):
        assert eventually(lambda: len(busy.ended) == 40)
    assert busy.most["all"] == 2
    assert app.inspector.count(PARKED) == 0
    assert app.inspector.count(RETRIES) == 0


def test_a_key_has_a_limit_of_its_own_and_starves_no_other(app: App) -> None:
    busy, others = Busy(), threading.Event()
    account = app.limit("account", concurrent=1, by=lambda account, *_: account)

    @app.job("Sync", queue="q", limits=[account])
    def sync(account: str, number: int) -> None:
        if account == "a":  # its first job, and with it all that wait for their turn, until the others have run
            others.wait(20)
        busy.run(account, (account, number), 0.02)
        if (account, number) == ("b", 2):
            others.set()

    for number in range(10):
        sync.enqueue("a", number)
    for number in range(3):
        sync.enqueue("b", number)
    with working(app):
        assert eventually(lambda: len(busy.ended) == 13)
    assert busy.most == {"a": 1, "b": 1}
    assert busy.ended.index(("b", 2)) < busy.ended.index(("a", 0))


def test_complaints_429_and_1090_the_jobs_of_a_key_run_in_the_order_of_their_pushes(app: App) -> None:
    busy = Busy()

    @app.job("Event", queue="q", limits=[app.limit("order", concurrent=1, by=lambda key, *_: key)])
    def event(key: int, number: int) -> None:
        busy.run(key, (key, number), 0.001)

    event.enqueue_bulk([[number % 3, number] for number in range(30)])
    assert app.inspector.count(waiting_in("q")) == 3
    assert app.inspector.count(PARKED) == 27
    with working(app):
        for number in range(30, 60):
            event.enqueue(number % 3, number)
        assert eventually(lambda: len(busy.ended) == 60)
    for key in range(3):
        assert [number for of, number in busy.ended if of == key] == [*range(key, 60, 3)]  # type: ignore[misc,has-type]
    assert not list(app.broker.require_part(Limits).slots("order"))


@pytest.mark.parametrize("passes", [False, True])
def test_a_job_that_is_retried_holds_the_line_or_lets_the_others_pass(app: App, passes: bool) -> None:
    ran: list[int] = []

    @app.job("Event", queue="q", retry_in=600, limits=[app.limit("order", concurrent=1, pass_retries=passes)])
    def event(number: int) -> None:
        ran.append(number)
        if ran == [1]:
            raise ValueError("once")

    event.enqueue(1)
    event.enqueue(2)
    with working(app):
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
        if passes:
            assert eventually(lambda: ran == [1, 2])
        else:
            assert app.inspector.count(PARKED) == 1
        for _ in app.inspector.retry(RETRIES, Filter()):
            pass
        assert eventually(lambda: len(ran) == 3)
    assert ran == ([1, 2, 1] if passes else [1, 1, 2])


def test_a_strict_job_that_people_delete_lets_the_next_one_go(app: App) -> None:
    ran: list[int] = []

    @app.job("Event", queue="q", limits=[app.limit("order", concurrent=1)])
    def event(number: int) -> None:
        ran.append(number)

    first, _, _ = event.enqueue_bulk([[1], [2], [3]])
    assert app.inspector.count(waiting_in("q")) == 1
    for _ in app.inspector.delete(waiting_in("q"), Filter(jids=[str(first)])):
        break
    assert app.inspector.count(waiting_in("q")) == 1
    with working(app):
        assert eventually(lambda: ran == [2, 3])


def test_complaints_328_and_797_jobs_begin_at_the_rate_of_their_limit(app: App) -> None:
    began: list[float] = []

    @app.job("Call", queue="q", limits=[app.limit("api", rate="50/second", burst=5)])
    def call(number: int) -> None:
        began.append(time.monotonic())

    with working(app):
        # The rate counts from the first begin, which a busy machine may let the job's code see late.
        before = time.monotonic()
        call.enqueue_bulk([[number] for number in range(55)])
        assert eventually(lambda: len(began) == 55)
    assert began[-1] - before > 0.9
    assert began[4] - before < 10
    assert app.inspector.count(RETRIES) == 0


def test_a_job_waits_for_the_first_full_limit_and_keeps_no_place_in_the_others(app: App) -> None:
    busy = Busy()
    a, b = app.limit("a", concurrent=2), app.limit("b", concurrent=1, by=lambda key, *_: key)

    @app.job("Both", queue="q", limits=[b, a])
    def both(key: int) -> None:
        busy.run("a")
        busy.run(key, key)

    both.enqueue_bulk([[number % 2] for number in range(20)])
    with working(app):
        assert eventually(lambda: len([one for one in busy.ended if one is not None]) == 20)
    assert busy.most["a"] <= 2
    assert busy.most[0] == busy.most[1] == 1
    assert not list(app.broker.require_part(Limits).slots("a"))
    assert not list(app.broker.require_part(Limits).slots("b"))


def test_a_block_waits_for_its_place_and_gives_up_in_time(app: App) -> None:
    stripe = app.limit("stripe", concurrent=1)
    with stripe.acquire(timeout=1):
        [slot] = app.broker.require_part(Limits).slots("stripe")
        assert slot.slot == Slot("stripe")
        with (
            pytest.raises(TimeoutError, match="limit stripe: no place was free within"),
            stripe.acquire(timeout=0.1),
        ):
            raise AssertionError
    with stripe.acquire(timeout=1):
        pass
    assert not list(app.broker.require_part(Limits).slots("stripe"))


def test_a_block_whose_place_could_not_be_freed_frees_it_later(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another block of the process keeps the lease of their owner."""
    monkeypatch.setattr(block_owner, "FREED_EVERY_S", 0.05)
    stripe = app.limit("stripe", concurrent=1, by=lambda key: key)
    with stripe.acquire("other", timeout=1):
        with pytest.raises(BrokerUnavailable), stripe.acquire("one", timeout=1):
            monkeypatch.setattr(
                type(app.broker.require_part(Limits)), "leave", fail_once(app.broker.require_part(Limits).leave)
            )
        assert eventually(lambda: len(list(app.broker.require_part(Limits).slots("stripe"))) == 1)


def test_the_last_block_frees_its_place_later_too(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner lives until then: nobody else frees the place."""
    monkeypatch.setattr(block_owner, "FREED_EVERY_S", 0.05)
    stripe = app.limit("stripe", concurrent=1)
    with pytest.raises(BrokerUnavailable), stripe.acquire(timeout=1):
        monkeypatch.setattr(
            type(app.broker.require_part(Limits)), "leave", fail_once(app.broker.require_part(Limits).leave, times=3)
        )
    with stripe.acquire(timeout=20):
        pass
    assert eventually(lambda: not list(app.broker.require_part(Limits).slots("stripe")))


def test_a_place_that_the_broker_refuses_to_free_holds_up_no_other(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_owner, "FREED_EVERY_S", 0.05)
    stripe = app.limit("stripe", concurrent=1, by=lambda key: key)
    kind = type(app.broker.require_part(Limits))
    leave, asked, mended = kind.leave, list[str](), list[int]()

    def left(limits: Any, slot: Slot, *args: Any) -> None:
        asked.append(slot.key)
        if slot.key == asked[0] and not mended:
            raise BrokerRefused("a key of a wrong type")
        if slot.key != asked[0] and len(asked) - asked.count(asked[0]) == 1:
            raise BrokerUnavailable("down")
        leave(limits, slot, *args)

    with stripe.acquire("open", timeout=1):
        monkeypatch.setattr(kind, "leave", left)
        with pytest.raises(BrokerRefused), stripe.acquire("damaged", timeout=1):
            pass
        with pytest.raises(BrokerUnavailable), stripe.acquire("sound", timeout=1):
            pass
        assert eventually(lambda: len(list(app.broker.require_part(Limits).slots("stripe"))) == 2)
        mended.append(1)
        assert eventually(lambda: len(list(app.broker.require_part(Limits).slots("stripe"))) == 1)


def test_a_block_waits_for_no_other_whose_first_beat_has_no_answer_yet(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock is held meanwhile: a child that is forked then would wait for it for ever."""
    stripe, kind = app.limit("stripe", concurrent=2), type(app.broker.recoverable)
    beat, asked, answered, owners = kind.beat, threading.Event(), threading.Event(), list[str]()

    def slow(recoverable: Any, presence: Presence) -> Any:
        owners.append(presence.identity)
        if len(owners) == 1:
            asked.set()
            answered.wait(20)
        return beat(recoverable, presence)

    def block() -> None:
        with stripe.acquire(timeout=20):
            entered.append(len(owners))

    monkeypatch.setattr(kind, "beat", slow)
    entered: list[int] = []
    threads = [threading.Thread(target=block) for _ in range(2)]
    threads[0].start()
    assert asked.wait(20)
    threads[1].start()
    try:
        assert eventually(lambda: entered)
    finally:
        answered.set()
        for thread in threads:
            thread.join()
    assert len(entered) == 2
    assert app.broker.require_part(Limits).holders(Slot("stripe")) == []


def test_the_end_of_the_process_frees_a_place_that_was_left(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_owner, "FREED_EVERY_S", 60.0)
    monkeypatch.setattr(block_owner, "AT_EXIT_S", 20.0)  # its thread may stand still
    stripe, at_exit = app.limit("stripe", concurrent=1), list[Callable[[], None]]()
    monkeypatch.setattr(atexit, "register", at_exit.append)
    with pytest.raises(BrokerUnavailable), stripe.acquire(timeout=1):
        monkeypatch.setattr(
            type(app.broker.require_part(Limits)), "leave", fail_once(app.broker.require_part(Limits).leave)
        )
    [end] = at_exit
    end()
    assert not list(app.broker.require_part(Limits).slots("stripe"))


def declare_dead(app: App, owner: str) -> None:
    if app.config.broker.startswith("memory"):
        state = state_at(app.config.broker)
        {**state.block_owners, **state.leases}[owner].died_at = 1.0
    else:
        app.broker.recoverable._declare_dead("", owner, "certain", "")  # type: ignore[attr-defined]


def test_a_block_whose_owner_was_declared_dead_goes_on_under_another_identity(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    stripe, slot = app.limit("stripe", concurrent=1), Slot("stripe")
    with stripe._limited.owner.present() as keeper:
        with stripe.acquire(timeout=1):
            [holder] = app.broker.require_part(Limits).holders(slot)
            declare_dead(app, holder.owner)
            app.broker.require_part(Limits).look(slot)
            assert app.broker.require_part(Limits).holders(slot) == []
            keeper.beat()
            assert f"lease of {holder.owner} expired and the places of its blocks were freed" in caplog.text
            with stripe.acquire(timeout=1):
                assert [one.owner for one in app.broker.require_part(Limits).holders(slot)] == [keeper.lease.identity]
        assert keeper.lease.identity != holder.owner


def test_a_recovery_frees_the_place_that_only_the_code_of_the_class_names(app: App) -> None:
    """Nobody may ever look at the limit: no job waits for it, and the job may be deleted before it runs again."""

    @app.job("Charge", queue="q", limits=[app.limit("two", concurrent=2)])
    def charge() -> None: ...

    owner, slot, limits = "host:1:00000000000a", Slot("two"), app.broker.require_part(Limits)
    limits.declare([LimitSettings("two", 2)])
    jid = str(charge.enqueue())
    app.broker.recoverable.beat(Presence(owner, {"q": 1}))
    [one] = app.broker.transport.consume(owner, [("q", 1)], 1)
    assert limits.begin(SlotWish([slot], jid, one, one.payload, ["q"])) == Begins()
    declare_dead(app, owner)
    tracking, limiting = Tracking(app.registry, app.config, time.time), Limiting(app.registry, app.config)
    judge = judge_by(PoisonPolicy.of(app.config), [tracking, limiting], time.time)
    assert len(list(app.broker.recoverable.recover("", judge, None))) == 1
    assert limits.holders(slot) == []


def test_no_block_takes_a_place_while_its_owner_may_be_dead(app: App) -> None:
    """As a process that has just woken up, whose next beat tells it."""
    stripe = app.limit("stripe", concurrent=1)
    with stripe._limited.owner.present() as keeper:
        keeper.lease.lapse()
        with pytest.raises(LimitTimeout), stripe.acquire(timeout=0.1):
            raise AssertionError
        keeper.beat()
        with stripe.acquire(timeout=1):
            pass


def test_a_forked_child_frees_no_place_of_its_parent(app: App) -> None:
    stripe = app.limit("stripe", concurrent=1)
    with stripe._limited.owner.present() as keeper:
        keeper.pid = -1  # as in the child
        with stripe.acquire(timeout=1):
            [holder] = app.broker.require_part(Limits).holders(Slot("stripe"))
            assert holder.owner != keeper.lease.identity
            keeper.leave(lambda: app.broker.require_part(Limits).leave(Slot("stripe"), holder.jid))
            assert len(app.broker.require_part(Limits).holders(Slot("stripe"))) == 1


def test_a_block_whose_reply_is_lost_has_no_place(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    stripe, other = app.limit("stripe", concurrent=1), app.limit("other", concurrent=1)
    with stripe.acquire(timeout=1), other.acquire(timeout=1):
        pass
    kind = type(app.broker.require_part(Limits))
    with other.acquire(timeout=1):
        monkeypatch.setattr(kind, "take", lose_reply(kind.take))
        with pytest.raises(BrokerUnavailable), stripe.acquire(timeout=1):
            raise AssertionError
        assert not list(app.broker.require_part(Limits).slots("stripe"))


def test_a_block_of_a_rate_leaves_the_place_that_it_got_from_people(app: App) -> None:
    api = app.limit("api", rate="1000/second", burst=1000)
    with api.acquire(timeout=1):
        pass
    app.broker.require_part(Limits).set("api", concurrent=1)
    with api.acquire(timeout=1):
        pass
    assert not [one for one in app.broker.require_part(Limits).slots("api") if one.holders]
    app.broker.require_part(Limits).unset("api")


def fail_once(leave: Callable[..., None], times: int = 1) -> Callable[..., None]:
    failed: list[int] = []

    def left(_: object, *args: Any) -> None:
        if len(failed) < times:
            failed.append(1)
            raise BrokerUnavailable("down")
        leave(*args)

    return left


def lose_reply(verb: Callable[..., Any]) -> Callable[..., Any]:
    def lost(*args: Any) -> None:
        verb(*args)
        raise BrokerUnavailable("the reply is lost")

    return lost


def test_a_job_whose_reply_was_lost_keeps_no_place(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may never begin again: it may expire, or be deleted."""
    ran: list[int] = []

    @app.job("Charge", queue="q", limits=[app.limit("two", concurrent=2)])
    def charge(number: int) -> None:
        ran.append(number)

    kind, real = type(app.broker.require_part(Limits)), type(app.broker.require_part(Limits)).begin
    lost: list[int] = []
    seen: list[object] = []  # the places before it begins again

    def begin(*args: Any) -> Any:
        if lost:
            seen.append(app.broker.require_part(Limits).holders(Slot("two")))
        answer = real(*args)
        if isinstance(answer, Begins) and not lost:
            lost.append(1)
            raise BrokerUnavailable("the reply is lost")
        return answer

    monkeypatch.setattr(kind, "begin", begin)
    with working(app):
        charge.enqueue(1)
        assert eventually(lambda: ran == [1])
    assert seen == [[]]


def test_a_job_waits_for_a_block(app: App) -> None:
    ran: list[int] = []
    stripe = app.limit("stripe", concurrent=1)

    @app.job("Charge", queue="q", limits=[stripe])
    def charge(number: int) -> None:
        ran.append(number)

    with working(app):
        with stripe.acquire(timeout=1):
            charge.enqueue(1)
            assert eventually(lambda: app.inspector.count(PARKED) == 1)
            assert ran == []
        assert eventually(lambda: ran == [1])


def test_a_job_that_waits_in_a_line_is_cancelled_at_once(app: App) -> None:
    @app.job("Event", queue="q", track=True, limits=[app.limit("order", concurrent=1)])
    def event(number: int) -> None: ...

    event.enqueue(1)
    second = event.enqueue(2)
    assert second is not None
    assert app.status(second).state == "waiting"
    assert app.cancel(second) == "cancelled"
    assert app.inspector.count(PARKED) == 0
    assert app.status(second).state == "cancelled"


def test_a_block_gets_a_place_while_jobs_wait(app: App) -> None:
    busy = Busy()
    stripe = app.limit("stripe", concurrent=1)

    @app.job("Charge", queue="q", limits=[app.limit("stripe", concurrent=1)])
    def charge(number: int) -> None:
        busy.run("all", number, 0.02)
        charge.enqueue(number + 1)  # there is always a job that waits

    with working(app):
        for number in (0, 1_000, 2_000):
            charge.enqueue(number)
        assert eventually(lambda: len(busy.ended) > 3)
        with stripe.acquire(timeout=20):
            busy.run("all")
        assert eventually(lambda: busy.ended[-1] is not None)
    assert busy.most["all"] == 1


def test_the_limits_of_a_class_are_checked_where_they_are_declared(app: App) -> None:
    one = app.limit("one", concurrent=1)
    with pytest.raises(ConfigError, match="limits must be a list of limits"):
        app.job("Event", limits=["one"])(print)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="limits must be a list of limits"):
        app.job("Event", limits=[one, app.limit("one", concurrent=1)])(print)
    with pytest.raises(ConfigError, match="limit one is declared twice, with other values"):
        app.limit("one", concurrent=2)
    with pytest.raises(ConfigError, match="limit one is declared twice, with other values"):
        app.limit("one", concurrent=1, by=lambda key: key)
    with pytest.raises(ConfigError, match="limit two: pass_retries needs concurrent=1"):
        app.limit("two", concurrent=2, pass_retries=True)
    with pytest.raises(ConfigError, match="limit two: give concurrent, rate or both"):
        app.limit("two")
    with pytest.raises(ConfigError, match="limit two: burst needs a rate"):
        app.limit("two", concurrent=2, burst=3)
    with pytest.raises(ConfigError, match="limit two: rate must be a number of jobs per time"):
        app.limit("two", rate="often")
    with pytest.raises(ConfigError, match="a name has up to 100 characters, and no space and no colon"):
        app.limit("one:two", concurrent=1)


def test_sections_of_limits_are_checked_against_the_code(app: App) -> None:
    app.limit("stripe", concurrent=2)
    app.use(dataclasses.replace(app.config, sections=(LimitConfig("stripe", burst=3),)))
    with pytest.raises(ConfigError, match=re.escape("[limit:stripe]: burst needs a rate")):
        app.runner.plan()


@pytest.mark.parametrize(("name", "hint"), [("mail", "."), ("api-b", "; did you mean 'api-a'?")])
def test_a_section_may_be_for_the_code_of_another_program(
    app: App, caplog: pytest.LogCaptureFixture, name: str, hint: str
) -> None:
    app.limit("api-a", concurrent=2)
    app.use(dataclasses.replace(app.config, sections=(LimitConfig(name, concurrent=1),)))
    app.runner.plan()
    [told] = caplog.messages
    assert told.startswith(f"[limit:{name}] does nothing here: no code of this program declares this limit{hint} ")


def test_an_error_of_by_names_the_limit_and_the_job(app: App) -> None:
    order = app.limit("order", concurrent=1, by=lambda key: key)
    job = app.job("Event", queue="q", limits=[order])(print)
    with pytest.raises(ArgumentError, match=r"limit order, by: fails for Event\(7, 'paid'\): TypeError\("):
        job.enqueue(7, "paid")
    with (
        pytest.raises(ArgumentError, match=r"limit order, by: fails for \(key=7, other=8\)"),
        order.acquire(key=7, other=8),
    ):
        pass


@pytest.mark.parametrize("concurrent", [1, 2])
def test_a_job_whose_limit_is_refused_is_tried_later(
    app: App, monkeypatch: pytest.MonkeyPatch, concurrent: int
) -> None:
    """It keeps its place in the order where the limit is strict. Any other place is free."""

    def refuse(*_: object) -> None:
        raise BrokerRefused("WRONGTYPE")

    monkeypatch.setattr(rungs, "REFUSED_S", 0.2)
    limits, ran = app.broker.require_part(Limits), list[int]()

    @app.job("Event", queue="q", limits=[app.limit("one", concurrent=concurrent)])
    def event(number: int) -> None:
        ran.append(number)

    with monkeypatch.context() as patched, working(app):
        patched.setattr(type(limits), "begin", refuse)
        event.enqueue(1)
        assert eventually(lambda: app.broker.admin.jobs_in(SCHEDULED).count() == 1)
        event.enqueue(2)
        assert [one.owner for one in limits.holders(Slot("one"))] == [""] * (concurrent == 1)
        patched.undo()
    with working(app):
        assert eventually(lambda: len(ran) == 2 and limits.holders(Slot("one")) == [])
    assert ran == [1, 2] or concurrent == 2


def test_running_jobs_are_counted_by_limit(app: App) -> None:
    go_on = threading.Event()
    limits = [app.limit("one", concurrent=2), app.limit("key", concurrent=2, by=lambda key: key)]
    app.job("Event", queue="q", limits=limits)(lambda key: go_on.wait(30)).enqueue_bulk([[1], [2]])
    with working(app):
        assert app.runner.in_background is not None
        try:
            assert eventually(
                lambda: app.runner.in_background.report()["of_features"].get("limits") == {"one": 2, "key": 2}
            )
            assert 'pyworkers_limit_running_jobs{limit="key"} 2' in exposition(app.runner.in_background.report(), None)
        finally:
            go_on.set()
        assert eventually(
            lambda: app.runner.in_background.report()["of_features"].get("limits") == {"one": 0, "key": 0}
        )


def test_a_worker_must_know_the_limits_of_a_job_that_is_pushed_by_its_function(app: App) -> None:
    @app.periodic(every=3_600)
    @app.job("Limited", queue="q", limits=[app.limit("two", concurrent=2)])
    def limited(*numbers: int) -> None: ...

    limited.enqueue(1)
    app.chain(limited.s(2)).enqueue()
    [periodic] = app.runner.plan().of_features["periodic"].jobs
    _, push = periodic.draft(0.0, [3]) or (None, None)
    assert push is not None
    payloads = [job.payload for job in app.broker.admin.jobs_in(waiting_in("q")).first(9)] + [push.payload]
    jobs = map(json.loads, payloads)
    assert {str(job["args"]): job["pyworkers"]["needs"] for job in jobs} == {
        "[1]": ["limits"], "[2]": ["chain", "limits"], "[3]": ["limits"],
    }  # fmt: skip
