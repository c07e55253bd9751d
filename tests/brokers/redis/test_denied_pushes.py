"""The server denies one command: a push with ties, the firing of a schedule or the begin of a locked job is done, or
nothing of it is."""

from __future__ import annotations

import time
from typing import Any

import pytest
from apps import job
from denied import Walled
from scenes import FAR, Scenario, Scene, Step, check_with_each_command_denied
from servers import RedisServer

from goworkers_py.core.effect import Push, PushJobs, Tie
from goworkers_py.core.outcome import Done
from goworkers_py.features.batches.batch import BatchTie
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import LimitSettings, Slot, SlotClaim
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Fired, Firing, Release, Rule
from goworkers_py.features.tracking.effects import TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import Begin, Begun, LockClaim, OnConflict

ONE = Slot("one")
LOCK = LockClaim("l", "1", 60)
REPLACE = LOCK._replace(on_conflict="replace", fields=b"{}")
GROUP = GroupMembership(Group("q", "Job", "g"), GroupSettings(100.0))
FULL_GROUP = GroupMembership(Group("q", "Job", "g"), GroupSettings(100.0, 0.0, 1))


def push(expected: tuple[object, ...], *ties: Tie, **more: Any) -> Scenario:
    """Of one job. Expected are the jobs in the batch and the locks."""

    def made(scene: Scene) -> Step:
        scene.open()
        scene.broker.require_part(Limits).declare([LimitSettings("one", 1, holds=True)])
        one = Push("q", job(jid="1"), ties=ties, **more)
        return Step(
            lambda: len([*scene.broker.transport.publish([one])]) == 1,
            lambda: (scene.jobs(), scene.batch()[0], scene.redis.exists("pyworkers:lock:l")),
            ({"1": 1}, *expected),
        )

    return made


def push_into_a_line(scene: Scene) -> Step:
    scene.broker.require_part(Limits).declare([LimitSettings("one", 1, holds=True)])
    first, one = (Push("q", job(jid=jid), ties=(SlotClaim(ONE, jid),)) for jid in "01")
    scene.broker.transport.publish([first])
    return Step(
        lambda: len([*scene.broker.transport.publish([one])]) == 1,
        lambda: (scene.jobs(), [place.jid for place in scene.broker.require_part(Limits).holders(ONE)], due(scene)),
        ({"0": 1, "1": 1}, ["0"], 1),
    )


def due(scene: Scene) -> int:
    return len(scene.broker.require_part(Limits).due(10, within_s=60.0).slots)


def pushes_of_many_kinds(scene: Scene) -> list[Push]:
    scene.open()
    return [
        Push("q", job(jid="1"), ties=(BatchTie("b"),)),
        Push("q", job(jid="2"), ties=(LOCK._replace(jid="2"),)),
        Push("q", job(jid="3"), FAR, id="3"),
        Push("q", job(jid="4"), ties=(GROUP,)),
        Push("r", job(jid="5")),
    ]


ALL = {"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}


def push_together(scene: Scene) -> Step:
    pushes = pushes_of_many_kinds(scene)
    return Step(
        lambda: len([*scene.broker.transport.publish(pushes)]) == 5, lambda: (scene.jobs(), scene.batch()[0]), (ALL, 1)
    )


def push_at_the_end_of_a_job(scene: Scene) -> Step:
    pushes, raw = PushJobs("0", tuple(pushes_of_many_kinds(scene))), scene.hold(job(jid="0"))
    return Step(lambda: scene.settle(raw, Done(effects=(pushes,))), lambda: (scene.jobs(), scene.batch()[0]), (ALL, 1))


def push_unique_together(scene: Scene) -> Step:
    pushes = [Push("q", job(jid=jid), ties=(LockClaim(f"l{jid}", jid, 60),)) for jid in "123"]
    return Step(
        lambda: len([*scene.broker.transport.publish(pushes)]) == 3,
        lambda: (scene.jobs(), len(scene.redis.keys("pyworkers:lock:*"))),
        ({"1": 1, "2": 1, "3": 1}, 3),
    )


def conflict(how: OnConflict, *expected: object, ties: tuple[Tie, ...] = ()) -> Scenario:
    """The job `0` has the lock. Expected are the jobs, the newest fields for `0`, and the jobs in the batch."""

    def made(scene: Scene) -> Step:
        scene.open()
        scene.broker.transport.publish([Push("q", job(jid="0"), ties=(REPLACE._replace(jid="0"),))])
        claim = LOCK._replace(on_conflict=how, fields=b'{"a": 1}')
        one = Push("q", job(jid="1"), ties=(claim, *ties))
        return Step(
            lambda: len([*scene.broker.transport.publish([one])]) == 1,
            lambda: (scene.jobs(), *scene.redis.hmget("pyworkers:lock:l", "fields", "jid"), scene.batch()[0]),
            expected,
        )

    return made


def fire(*ties: Tie, first: bool = True, asked: bool = False) -> Scenario:
    """Like the firer, it registers before each try. `first`: the schedule has not fired yet."""

    def made(scene: Scene) -> Step:
        app, nightly = Release("app"), schedule("nightly", Rule(every=3600), {"class": "Job"})
        periodic, one = scene.broker.require_part(Periodic), Push("q", job(jid="1"), ties=ties)

        def at(slot: float, push: Push | None = one) -> Fired:
            time.sleep(0.002)  # the slot is due
            [state] = periodic.register(app, [nightly]).states
            told = Firing("nightly", state.number, slot, "asked" if asked else "fired", "1", push, asked=asked)
            return periodic.fire(app, told).fired

        slot = periodic.register(app, [nightly]).states[0].since + 0.001
        if not first:
            at(slot, None)
            slot += 0.001
        if asked:
            periodic.ask("app", "nightly")

        def look() -> tuple[object, ...]:
            told = periodic.records()[0]
            return scene.jobs(), told.since >= slot - 1e-4, told.asked

        return Step(lambda: at(slot) is Fired.DONE, look, ({"1": 1}, not asked, 0))

    return made


def begin(*expected: object, jid: str = "0", **how: bool) -> Scenario:
    """The job begins that has the lock, or another one. Newer fields are there for it."""

    def made(scene: Scene) -> Step:
        begun = list[object]()
        for number, fields in ("0", b"{}"), ("1", b'{"a": 1}'):
            scene.broker.transport.publish([Push("q", job(), ties=(REPLACE._replace(jid=number, fields=fields),))])

        def act() -> bool:
            told = scene.broker.require_part(Locks).begin(Begin("l", jid, "q", 60, **how))
            begun.append(told if isinstance(told, Begun) else type(told).__name__)
            return True

        return Step(act, lambda: (*begun, scene.redis.hget("pyworkers:lock:l", "jid")), expected)

    return made


SCENARIOS: dict[str, Scenario] = {
    "push into a batch": push((1, 0), BatchTie("b")),
    "push for later into a batch": push((1, 0), BatchTie("b"), at=FAR),
    "push with a lock": push((0, 1), LOCK),
    "push with a lock into a batch": push((1, 1), LOCK, BatchTie("b")),
    "push that replaces": push((0, 1), REPLACE),
    "push with an id and a record": push((1, 0), RecordTie(TrackedJob("1", "Job")), BatchTie("b"), id="i"),
    "push with a place": push((1, 0), SlotClaim(ONE, "1"), BatchTie("b")),
    "push into a group": push((1, 0), BatchTie("b"), GROUP),
    "push that fills a group": push((1, 0), BatchTie("b"), FULL_GROUP),
    "push into a line": push_into_a_line,
    "push together": push_together,
    "push at the end of a job": push_at_the_end_of_a_job,
    "push unique jobs together": push_unique_together,
    "meet a lock": conflict("skip", {"0": 1}, None, b"0", 0),
    "meet a lock with a batch": conflict("skip", {"0": 1}, None, b"0", 0, ties=(BatchTie("b"),)),
    "replace": conflict("replace", {"0": 1}, b'{"a": 1}', b"0", 0),
    "reschedule": conflict("reschedule", {"0": 1, "1": 1}, None, b"0", 1, ties=(BatchTie("b"),)),
    "fire": fire(),
    "fire once more": fire(first=False),
    "fire because people asked": fire(asked=True),
    "fire a tracked job": fire(RecordTie(TrackedJob("1", "Job"))),
    "fire with a lock": fire(LOCK),
    "fire with a place": fire(SlotClaim(ONE, "1")),
    "fire into a group": fire(GROUP),
    "begin": begin(Begun(b'{"a": 1}'), b"0", read=True),
    "begin and free the lock": begin(Begun(), None, free=True),
    "begin without the lock": begin("Holder", b"0", jid="2", take=True),
}


@pytest.mark.parametrize("step", SCENARIOS)
def test_a_push_is_done_or_not(denied_server: RedisServer, step: str) -> None:
    check_with_each_command_denied(Walled(denied_server), SCENARIOS[step])
