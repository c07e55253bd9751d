"""The server denies one command: the end of a job counts in its batch and begins the next link of its chain, or the job
stays where it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from apps import job
from denied import Walled
from scenes import DIED, END, ENDED, FAR, SUCCEEDED, TO, Scenario, Scene, Step, check_with_each_command_denied
from servers import RedisServer

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.core.effect import Push
from goworkers_py.core.outcome import Dead, Done
from goworkers_py.features.batches.batch import Callback, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.chains.chain import ChainLink, LinkJob, NewChain
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.tracking.effects import NoteState, TrackedJob

GROUP = Group("q", "Job", "g")


def member_ends(scene: Scene) -> Step:
    raw = scene.hold(scene.member())
    return Step(
        lambda: scene.settle(raw, Done(effects=(END,))),
        lambda: (scene.jobs(), scene.batch()),
        (SUCCEEDED, (1, 1, 0, 0, "ended")),
    )


def tracked_member_ends(scene: Scene) -> Step:
    raw = scene.hold(scene.member())
    note = NoteState(TrackedJob("1", "Job"), "completed", "", 60)
    return Step(
        lambda: scene.settle(raw, Done(effects=(note, END))),
        lambda: (scene.jobs(), scene.batch()),
        (SUCCEEDED, (1, 1, 0, 0, "ended")),
    )


def member_dies(scene: Scene) -> Step:
    raw = scene.hold(scene.member())
    end = END._replace(way="failed", death=b"{}")
    return Step(
        lambda: scene.settle(raw, Dead(raw, effects=(end,))),
        lambda: (scene.jobs(), scene.batch()),
        ({"1": 1, **DIED}, (1, 0, 1, 0, "ended")),
    )


def member_of_an_inner_batch_ends(scene: Scene) -> Step:
    scene.open()
    inner, raw = scene.open("b.c", jobs=1), scene.hold(job(jid="1"))
    for bid in ("b", "b.c"):
        scene.batches.let_go(bid, "hold", TO)
    return Step(
        lambda: scene.settle(raw, Done(effects=(END._replace(member=inner),))),
        lambda: (scene.jobs(), scene.batch(), scene.batch("b.c")),
        ({**SUCCEEDED, "success of b.c": 1, "complete of b.c": 1}, (1, 1, 0, 0, "ended"), (1, 1, 0, 0, "ended")),
    )


def put(scene: Scene, where: str, raw: bytes) -> object:
    """Another program puts the job there. Returns the place."""
    if where == "parked":
        scene.redis.sadd("pyworkers:lines", "line")
        scene.redis.lpush("pyworkers:line:line", line_entry.written(raw, "q", 1.0))
        return PARKED
    if where == "queue":
        scene.redis.sadd("queues", "q")
        scene.redis.lpush("queue:q", raw)
        return waiting_in("q")
    scene.redis.zadd(where, {raw: FAR})
    return {"schedule": SCHEDULED, "retry": RETRIES}[where]


def changed(where: str, how: str) -> Scenario:
    """People delete or kill a member of a batch."""

    def made(scene: Scene) -> Step:
        inspector, place = Inspector(lambda: scene.broker), put(scene, where, scene.member())

        def act() -> bool:
            return all(step.done == 1 for _, step in getattr(inspector, how)(place, Filter()))

        killed, deleted = ({"1": 1, **DIED}, (1, 0, 1, 0, "ended")), (ENDED, (1, 0, 0, 1, "ended"))
        return Step(act, lambda: (scene.jobs(), scene.batch()), killed if how == "kill" else deleted)

    return made


def group_member_is_deleted(scene: Scene) -> Step:
    raw = scene.member(group={"name": "g", "grace": 100.0, "delay": 0.0, "size": 0})
    scene.broker.transport.publish([Push("q", raw, ties=(GroupMembership(GROUP, GroupSettings(100.0)),))])
    return Step(
        lambda: scene.broker.require_part(Groups).take_out(GROUP, raw, "deleted"),
        lambda: (scene.jobs(), scene.batch()),
        (ENDED, (1, 0, 0, 1, "ended")),
    )


def batch_is_opened(scene: Scene) -> Step:
    new = NewBatch(Membership("b", TO), "", "hold", {"complete": Callback("cb", job())})
    return Step(
        lambda: scene.batches.open(new),
        lambda: (
            scene.batch(),
            scene.redis.hget("pyworkers:batch:b", "holds"),
            len([*scene.batches.entries()]),
        ),
        ((0, 0, 0, 0, "open"), b"1", 1),
    )


def inner_batch_is_opened(scene: Scene) -> Step:
    scene.open()
    new = NewBatch(Membership("b.c", TO), "", "hold", {})
    return Step(
        lambda: scene.batches.open(new),
        lambda: (scene.batch(), scene.batch("b.c")),
        ((1, 0, 0, 0, "open"), (0, 0, 0, 0, "open")),
    )


def batch_is_held(scene: Scene) -> Step:
    scene.open()
    return Step(
        lambda: scene.batches.hold("b", "other"),
        lambda: scene.redis.hget("pyworkers:batch:b", "holds"),
        b"2",
    )


def batch_step(step: Callable[[Batches], object], *expected: object) -> Scenario:
    def made(scene: Scene) -> Step:
        scene.open()
        return Step(
            lambda: step(scene.batches) is not False,
            lambda: (scene.jobs(), scene.batch()[4], scene.redis.hlen("pyworkers:tombstones")),
            expected,
        )

    return made


def batch_with_a_job_is_cancelled(scene: Scene) -> Step:
    scene.open(jobs=1)
    return Step(
        lambda: scene.batches.cancel("b", TO),
        lambda: (scene.batch()[4], *tombstone(scene)),
        ("cancelling", 1, 1),
    )


def tombstone(scene: Scene) -> tuple[int, int]:
    return scene.redis.hlen("pyworkers:tombstones"), scene.redis.exists("pyworkers:tombstones:version")


def end_part(scene: Scene, raw: bytes, link: int, part: int, why: str = "") -> bool:
    end = END._replace(way="failed" if why else "succeeded")
    effects = EndLink("x", ChainLink("c", link, part, ("q",)), b"1", why=why, bid="b"), end
    return scene.settle(raw, Dead(raw, effects=effects) if why else Done(effects=effects))


def chain_of(scene: Scene) -> tuple[object, ...]:
    state, link, still_open = scene.redis.hmget("pyworkers:chain:c", "state", "link", "open")
    return scene.jobs(), state, int(link), int(still_open)


def link_ends(parts: list[int], number: int, *expected: object, why: str = "") -> Scenario:
    """The last part of a link ends, of a chain in a batch. `parts`: how many each link has."""

    def made(scene: Scene) -> Step:
        links = [
            [LinkJob("q", job(jid=f"{link}.{part}")) for part in range(1, count + 1)]
            for link, count in enumerate(parts, 1)
        ]
        scene.open()
        scene.chains.push(NewChain("c", links, "b"))
        scene.batches.let_go("b", "hold", TO)
        for link, count in enumerate(parts[:number], 1):
            for part in range(1, count + (link < number)):
                assert end_part(scene, scene.hold(job(jid="before")), link, part)
        scene.redis.delete("queue:q")
        raw = scene.hold(job(jid="at"))
        return Step(
            lambda: end_part(scene, raw, number, parts[number - 1], why),
            lambda: (*chain_of(scene), scene.batch()),
            expected,
        )

    return made


def chain_is_pushed(scene: Scene) -> Step:
    new = NewChain("c", [[LinkJob("q", job(jid="1"))], [LinkJob("q", job(jid="2"))]])
    return Step(lambda: scene.chains.push(new), lambda: chain_of(scene), ({"1": 1}, b"running", 1, 1))


def chain_in_a_batch_is_pushed(scene: Scene) -> Step:
    scene.open()
    new = NewChain("c", [[LinkJob("q", job(jid=jid)) for jid in "12"], [LinkJob("q", job(jid="3"))]], "b")
    return Step(
        lambda: scene.chains.push(new),
        lambda: (*chain_of(scene), scene.batch()[0]),
        ({"1": 1, "2": 1}, b"running", 1, 2, 2),
    )


def chain_is_cancelled(scene: Scene) -> Step:
    scene.chains.push(NewChain("c", [[LinkJob("q", job(jid="1"))]]))
    return Step(
        lambda: scene.chains.cancel("c"),
        lambda: (scene.redis.hget("pyworkers:chain:c", "state"), *tombstone(scene)),
        (b"cancelled", 1, 1),
    )


SCENARIOS: dict[str, Scenario] = {
    "a member ends": member_ends,
    "a tracked member ends": tracked_member_ends,
    "a member dies": member_dies,
    "a member of an inner batch ends": member_of_an_inner_batch_ends,
    "a member of a group is deleted": group_member_is_deleted,
    **{f"a member is deleted: {where}": changed(where, "delete") for where in ("schedule", "retry", "parked", "queue")},
    **{f"a member is killed: {where}": changed(where, "kill") for where in ("schedule", "retry", "parked")},
    "a batch is opened": batch_is_opened,
    "an inner batch is opened": inner_batch_is_opened,
    "a batch is held": batch_is_held,
    "a batch is let go": batch_step(lambda batches: batches.let_go("b", "hold", TO), SUCCEEDED, "ended", 0),
    "a batch is closed": batch_step(lambda batches: batches.close("b", TO), SUCCEEDED, "ended", 0),
    "a batch is cancelled": batch_step(lambda batches: batches.cancel("b", TO), {}, "cancelled", 0),
    "a batch with a job is cancelled": batch_with_a_job_is_cancelled,
    "a link ends": link_ends([1, 1], 1, {"2.1": 1}, b"running", 2, 1, (2, 1, 0, 0, "open")),
    "a link of two parts begins": link_ends([1, 2], 1, {"2.1": 1, "2.2": 1}, b"running", 2, 2, (3, 1, 0, 0, "open")),
    "a link of two parts ends": link_ends([2, 1], 1, {"2.1": 1}, b"running", 2, 1, (3, 2, 0, 0, "open")),
    "the last link ends": link_ends([1, 1], 2, SUCCEEDED, b"ended", 2, 0, (2, 2, 0, 0, "ended")),
    "a link dies": link_ends([1, 1], 1, {"at": 1, **DIED}, b"stopped", 1, 1, (1, 0, 1, 0, "ended"), why="dead"),
    "a chain is pushed": chain_is_pushed,
    "a chain in a batch is pushed": chain_in_a_batch_is_pushed,
    "a chain is cancelled": chain_is_cancelled,
}


@pytest.mark.parametrize("step", SCENARIOS)
def test_a_step_of_a_batch_or_a_chain_is_done_or_not(denied_server: RedisServer, step: str) -> None:
    check_with_each_command_denied(Walled(denied_server), SCENARIOS[step])
