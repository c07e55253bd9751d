"""The server denies one command: no job is lost on its way through the line of a limit or through a group."""

from __future__ import annotations

import json
import time

import pytest
from apps import job, own_broker
from denied import Walled
from scenes import END, SUCCEEDED, Scenario, Scene, Step, check_with_each_command_denied
from servers import RedisServer

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.outcome import Done
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndSet
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import LimitSettings, Slot, Waits
from goworkers_py.features.unique.effects import FreeLock

ONE = Slot("one")
LINE = "pyworkers:line:limit:one"
GROUP = Group("q", "Job", "g")
SET = GROUP._replace(set="s")


def begin(scene: Scene, raw: bytes) -> object:
    wish = SlotWish((ONE,), json.loads(raw)["jid"], Delivery(raw, "q", "me"), raw, ("q",))
    return scene.broker.require_part(Limits).begin(wish)


def places(scene: Scene) -> tuple[object, ...]:
    """The jobs, those that have a place, and how many wait, after a look at places whose jobs are nowhere."""
    there = scene.jobs()
    scene.broker.require_part(Limits).look(
        ONE, ["q"], [one for one in scene.broker.require_part(Limits).holders(ONE) if one.jid not in there]
    )
    return scene.jobs(), [one.jid for one in scene.broker.require_part(Limits).holders(ONE)], scene.redis.llen(LINE)


def limited(scene: Scene) -> list[bytes]:
    """Three jobs in progress, of which the first one has the only place."""
    scene.broker.require_part(Limits).declare([LimitSettings("one", 1)])
    scene.redis.set("pyworkers:lease:me", 1)
    raws = [scene.hold(job(jid=jid, queue="q")) for jid in "012"]
    begin(scene, raws[0])
    return raws


def job_begins(scene: Scene) -> Step:
    _, second, _ = limited(scene)
    return Step(
        lambda: begin(scene, second) == Waits("limit:one"),
        lambda: (*places(scene), len(scene.broker.require_part(Limits).due(10, within_s=60.0).slots)),
        ({"0": 1, "1": 1, "2": 1}, ["0"], 1, 1),
    )


def job_ends(scene: Scene) -> Step:
    first, *others = limited(scene)
    for one in others:
        begin(scene, one)
    end = LeaveSlot("0", ONE, ("q",))
    return Step(lambda: scene.settle(first, Done(effects=(end,))), lambda: places(scene), ({"1": 1, "2": 1}, ["1"], 1))


def look(scene: Scene) -> Step:
    first, *others = limited(scene)
    for one in others:
        begin(scene, one)
    scene.redis.lrem("queue:q:me:inprogress", 1, first)
    scene.redis.hdel("pyworkers:slot:one", "s:0")
    return Step(
        lambda: scene.broker.require_part(Limits).look(ONE, ["q"]).waiting == 1,
        lambda: places(scene),
        ({"1": 1, "2": 1}, ["1"], 1),
    )


def block_gives_up(scene: Scene) -> Step:
    first, second, _ = limited(scene)
    scene.broker.require_part(Limits).take(ONE, "block", "me")
    time.sleep(0.002)  # the job comes into the line after the block
    begin(scene, second)
    scene.settle(first, Done(effects=(LeaveSlot("0", ONE, ("q",)),)))
    return Step(
        lambda: scene.broker.require_part(Limits).leave(ONE, "block", ["q"]) is None,
        lambda: places(scene),
        ({"1": 1, "2": 1}, ["1"], 0),
    )


def gather(scene: Scene) -> None:
    """Two jobs join a group that is due then."""
    settings = GroupSettings(100.0)
    scene.broker.transport.publish([Push("q", job(jid=jid), ties=(GroupMembership(GROUP, settings),)) for jid in "12"])
    scene.broker.require_part(Groups).make_due(GROUP)


def group_is_flushed(scene: Scene) -> Step:
    gather(scene)

    def act() -> bool:
        """As the flusher does."""
        due = scene.broker.require_part(Groups).due("Job", 10).groups
        for one in due:
            scene.broker.require_part(Groups).flush(one, one if one.set else SET, job(jid="aggregates"))
        return not due

    return Step(
        act,
        lambda: (scene.jobs(), len(scene.broker.require_part(Groups).members(SET, 0, 10))),
        ({"1": 1, "2": 1, "aggregates": 1}, 2),
    )


def set_ends(scene: Scene) -> Step:
    gather(scene)
    scene.broker.require_part(Groups).flush(GROUP, SET, job(jid="aggregates"))
    scene.redis.delete("queue:q")
    raw = scene.hold(job(jid="aggregates"))
    scene.member()
    end = EndSet("aggregates", SET, (END, FreeLock("2", "l")))
    return Step(
        lambda: scene.settle(raw, Done(effects=(end,))),
        lambda: (scene.jobs(), scene.batch()[4], scene.redis.zcard("pyworkers:groups:Job")),
        (SUCCEEDED, "ended", 0),
    )


SCENARIOS: dict[str, Scenario] = {
    "a job begins": job_begins,
    "a job ends": job_ends,
    "a look": look,
    "a block gives up": block_gives_up,
    "a group is flushed": group_is_flushed,
    "a set ends": set_ends,
}


@pytest.mark.parametrize("step", SCENARIOS)
def test_a_step_of_a_line_or_a_group_is_done_or_not(denied_server: RedisServer, step: str) -> None:
    check_with_each_command_denied(Walled(denied_server), SCENARIOS[step])


@pytest.mark.parametrize("name", SCENARIOS)
def test_lines_and_groups_go_on_when_the_server_is_out_of_memory(denied_server: RedisServer, name: str) -> None:
    redis = denied_server.client()
    redis.flushall()
    with own_broker(denied_server.url) as broker:
        step = SCENARIOS[name](Scene(broker, redis))
        redis.config_set("maxmemory", "1")
        try:
            step.act()
        finally:
            redis.config_set("maxmemory", "0")
        assert step.look() == step.expected
