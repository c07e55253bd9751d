"""Jobs with two features: what each of them promises holds for such a job, too, however it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from apps import own_app, working
from pairs import KIND, World, pairs
from waiting import eventually

from goworkers_py.admin.places import waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.timing import Timing
from goworkers_py.features.periodic import service as firer
from goworkers_py.runtime.settling.unsettled import Unsettled

FETCHED: list[Delivery] = []  # by the daemon of a test

# What is refused, by the kinds or names of the two features: what the error says to do.
REFUSED = {
    ("unique", "first|middle|last|part|callback"): r"write \S+\.set\(unique_for=False\)\.s\(",
    ("replace|reschedule|until_start", "group"): "leave them out, or set unique_for=False",
    ("group", "batch"): "push it outside of the batch",
    ("group", "kwargs"): "give them by position",
    ("first|middle|last|part", "held"): "push it outside",
    ("first|middle|last|part|callback", "scheduled"): "no `at`",
    ("middle|last|part|callback", "expires"): "take it out of the job",
    ("atomic", "iterable|sliced|async_iterable"): "leave it out, and push inside of",
}


# Measured, they would take a tenth of the time of all tests. On a busy machine one takes a minute.
pytestmark = [pytest.mark.usefixtures("untraced"), pytest.mark.timeout(240)]

ALL = slice(None)
# Each cancel looks at all jobs that wait, so that a quarter of the jobs takes less than a quarter of the time.
IN_PARTS = pytest.mark.parametrize("part", [slice(first, None, 4) for first in range(4)], ids=["1", "2", "3", "4"])


@pytest.fixture
def app(broker_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    def add(unsettled: Unsettled, deliveries: Sequence[Delivery]) -> None:
        FETCHED.extend(deliveries)
        really_add(unsettled, deliveries)

    really_add = Unsettled.add
    FETCHED.clear()
    monkeypatch.setattr(Unsettled, "add", add)
    monkeypatch.setattr(firer, "LOOK_EVERY_S", 0.3)
    queues = [QueueConfig(name="q", concurrency=6, priorities=True), QueueConfig(name="r", concurrency=2)]
    with own_app(broker_address, *queues, timeout=2, poll_interval=1) as app:
        yield app


def await_ends(world: World) -> None:
    def are_over() -> bool:
        world.cancel_begun()
        before = len(FETCHED)
        # Twice: a job may have moved from a place that was not looked at yet to one that was. One that goes back and
        # forth between its queue and a worker could hide from both looks, but not from the count of fetched jobs.
        return all(world.idle for _ in range(2)) and len(FETCHED) == before

    assert eventually(are_over, within_s=150), {*world.waiting()}


def await_pushes(world: World) -> None:
    """Until each job of each case waits in its place, and nothing else is under way."""

    def missing() -> dict[str, int]:
        found = world.waiting()
        wanted = {name: case.pushed - len(found[name]) for name, case in world.cases.items()}
        return {name: count for name, count in wanted.items() if count} or (
            {"support": 1} if world.app.inspector.count(waiting_in("r")) else {}
        )

    assert eventually(lambda: not missing(), within_s=100), missing()


def judge(world: World) -> None:
    assert len(world.cases) > 50 or world.ending == "kill"
    complaints = world.complaints()
    assert not complaints, "\n".join(complaints)


@contextmanager
def ended_pairs(
    app: App, world: World, before: Callable[[World], None] = lambda world: None, part: slice = ALL
) -> Iterator[None]:
    """The block runs when the jobs of the pairs have ended. `before` happens when all are pushed and none has begun."""
    world.declare(*pairs()[part])
    app.inspector.pause("q")
    with working(app):
        world.push()
        before(world)
        app.inspector.resume("q")
        await_ends(world)
        yield
    judge(world)


@pytest.mark.parametrize("ending", ["success", "retry", "no_failure", "death", "discard"])
def test_each_feature_keeps_its_promise_beside_each_other_one(app: App, ending: str) -> None:
    with ended_pairs(app, World(app, ending, each=3 if ending == "success" else 1)):
        pass


@IN_PARTS
def test_each_feature_keeps_its_promise_when_the_job_is_cancelled_while_it_runs(app: App, part: slice) -> None:
    with ended_pairs(app, World(app, "cancel_running"), part=part):
        pass


@IN_PARTS
def test_a_job_that_is_cancelled_before_it_runs_gives_up_what_it_holds(app: App, part: slice) -> None:
    check_that_what_is_held_is_given_up(app, "cancel", pairs()[part])


@pytest.mark.parametrize("ending", ["delete", "kill", "expiry"])
def test_a_job_that_never_runs_gives_up_what_it_holds(app: App, ending: str) -> None:
    without, only = {"expiry": ("expires", ""), "kill": ("", "scheduled")}.get(ending, ("", ""))
    chosen = [names for names in pairs() if without not in names and (not only or only in names)]
    check_that_what_is_held_is_given_up(app, ending, chosen)


def check_that_what_is_held_is_given_up(app: App, ending: str, chosen: Sequence[tuple[str, ...]]) -> None:
    world = World(app, ending)
    world.declare(*chosen)
    app.inspector.pause("q")
    with working(app):
        world.push()
        await_pushes(world)
        for name, jobs in world.waiting().items():
            world.cases[name].jids = [job.jid for job in jobs]
        world.end_waiting()
        app.inspector.resume("q")
        await_ends(world)
    judge(world)


def test_a_dead_job_goes_on_when_it_is_retried_by_hand(app: App) -> None:
    world = World(app, "death")
    with ended_pairs(app, world):
        world.retry_dead()
        await_ends(world)


def test_a_job_goes_on_after_its_process_was_killed(app: App) -> None:
    app.timing = Timing(lease_s=1, lease_fresh_s=0.8, beat_every_s=0.1, recover_every_s=0.1, steady_for_s=0.2)
    with ended_pairs(app, World(app, "recovery"), before=World.strand):
        pass


def test_a_pair_that_is_refused_is_refused_with_what_to_do(app: App) -> None:
    world = World(app, "success")
    world.declare(*pairs())
    app.inspector.pause("q")
    with working(app):
        world.push()
    wanted = {names: words for names in pairs() if (words := _refusal(names))}
    assert world.refused.keys() == wanted.keys()
    assert [told for names, told in world.refused.items() if not re.search(wanted[names], told)] == []


def _refusal(names: tuple[str, ...]) -> str:
    """What the error is to say where this pair is refused."""
    for (one, other), words in REFUSED.items():
        fits = [{name for name in names if re.fullmatch(side, name) or side == KIND[name]} for side in (one, other)]
        if len(names) == 2 and all(fits):
            return words
    return ""
