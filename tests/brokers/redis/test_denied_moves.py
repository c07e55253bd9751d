"""The server refuses an effect of a move by people: the job stays where it was, and they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from apps import job, own_broker
from denied import Walled
from scenes import FAR, Scenario, Scene, Step, check_with_each_command_denied
from servers import RedisServer
from verbs import KEYS

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.contracts.admin import Change, Place
from goworkers_py.brokers.redis.admin.queue_jobs import QueueJobs
from goworkers_py.brokers.redis.admin.set_jobs import SetJobs
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.brokers.redis.queues.lines import LineMove, Lines
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect, Push, StoreValue
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndSet
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.groups.redis_part import members_key
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.limit import LimitSettings, Slot, Waits

LINE = "pyworkers:line:line"
KEY_OF = {"schedule": "schedule", "retry": "retry", "parked": LINE, "queue": "queue:q"}
PLACES = {"schedule": SCHEDULED, "retry": RETRIES, "parked": PARKED, "queue": waiting_in("q")}
GROUP = Group("q", "Job", "g")
SET = GROUP._replace(set="s")
OURS = job(jid="1", queue="q", bid="ruby")
AGGREGATES = job(
    "Job",
    jid="aggregates",
    queue="q",
    pyworkers={"v": 1, "needs": [], "group": {"name": "g", "set": "s", "queue": "q"}},
)


def put(scene: Scene, where: str, raw: bytes) -> Place:
    """Another program puts the job there."""
    if where == "parked":
        scene.redis.sadd("pyworkers:lines", "line")
        scene.redis.lpush(LINE, line_entry.written(raw, "q", 1.0))
    elif where == "queue":
        scene.redis.sadd("queues", "q")
        scene.redis.lpush("queue:q", raw)
    else:
        scene.redis.zadd(where, {raw: FAR})
    return PLACES[where]


def left_in(scene: Scene, where: str) -> int:
    key = KEY_OF[where]
    return scene.redis.zcard(key) if where in ("schedule", "retry") else scene.redis.llen(key)


def echoes(scene: Scene) -> list[str]:
    return [json.loads(raw)["pyworkers_echo"]["end"] for raw in scene.redis.lrange("queue:echoes", 0, -1)]


def with_echo(where: str, how: str) -> Scenario:
    """People delete or kill a job of a batch of Ruby."""

    def made(scene: Scene) -> Step:
        inspector, place = Inspector(lambda: scene.broker), put(scene, where, OURS)

        def act() -> bool:
            return all(step.done == 1 for _, step in getattr(inspector, how)(place, Filter()))

        dead, end = (1, "dead") if how == "kill" else (0, "cancelled")
        return Step(act, lambda: (echoes(scene), left_in(scene, where), scene.redis.zcard("dead")), ([end], 0, dead))

    return made


def set_is_dropped(where: str) -> Scenario:
    """People delete the job that would aggregate a set: its members end with it."""

    def made(scene: Scene) -> Step:
        scene.broker.transport.publish([Push("q", job(jid="1"), ties=(GroupMembership(GROUP, GroupSettings(100.0)),))])
        scene.broker.require_part(Groups).make_due(GROUP)
        scene.broker.require_part(Groups).flush(GROUP, SET, AGGREGATES)
        scene.redis.delete("queue:q")
        inspector, place = Inspector(lambda: scene.broker), put(scene, where, AGGREGATES)
        return Step(
            lambda: all(step.done == 1 for _, step in inspector.delete(place, Filter())),
            lambda: (scene.jobs(), scene.redis.zcard("pyworkers:groups:Job")),
            ({}, 0),
        )

    return made


def job_waits(scene: Scene) -> Step:
    """A job that waits in the line of a limit has an effect that must not be left out."""
    limits, one = scene.broker.require_part(Limits), Slot("one")
    limits.declare([LimitSettings("one", 1)])
    raws = [scene.hold(job(jid=jid, queue="q")) for jid in "01"]

    def begin(raw: bytes, effects: Sequence[Effect] = ()) -> object:
        jid = json.loads(raw)["jid"]
        return limits.begin(SlotWish((one,), jid, Delivery(raw, "q", "me"), raw, ("q",), tuple(effects)))

    begin(raws[0])
    value = StoreValue("1", "result", b"value", 60)
    return Step(
        lambda: begin(raws[1], [value, *ends_a_set(b"", "waiting")]) == Waits("limit:one"),
        lambda: (scene.jobs(), scene.redis.llen("pyworkers:line:limit:one"), scene.broker.store.value("result", "1")),
        ({"0": 1, "1": 1}, 1, b"value"),
    )


SCENARIOS: dict[str, Scenario] = {
    **{f"with an echo, deleted: {where}": with_echo(where, "delete") for where in PLACES},
    **{f"with an echo, killed: {where}": with_echo(where, "kill") for where in ("schedule", "retry", "parked")},
    **{f"a set is dropped: {where}": set_is_dropped(where) for where in PLACES},
    "a job waits": job_waits,
}


@pytest.mark.parametrize("step", SCENARIOS)
def test_a_move_happens_with_its_effects_or_not_at_all(denied_server: RedisServer, step: str) -> None:
    check_with_each_command_denied(Walled(denied_server), SCENARIOS[step], sections=(EchoConfig("echoes"),))


@pytest.mark.parametrize("where", PLACES)
def test_people_are_told_which_command_the_server_refuses(denied_server: RedisServer, where: str) -> None:
    walled = Walled(denied_server)
    walled.redis.flushall()
    walled.allow_all_but("LPUSH")
    with own_broker(walled.url, sections=(EchoConfig("echoes"),)) as broker:
        scene = Scene(broker, walled.redis)
        place, told = put(scene, where, OURS), list[str]()
        try:
            told += [
                problem for _, step in Inspector(lambda: broker).delete(place, Filter()) for problem in step.problems
            ]
        except BrokerRefused as error:
            told.append(str(error))
        assert len(told) == 1
        assert "LPUSH" in told[0].upper()
        assert (left_in(scene, where), echoes(scene)) == (1, [])


# --- an effect that is refused only when it is done: nothing before it has asked for the command


def ends_a_set(raw: bytes, state: StateWord) -> tuple[Effect, ...]:
    return (EndSet("1", SET),)


def set_jobs(broker: RedisBroker, to: Place | None, at: float | None = None) -> str:
    jobs = SetJobs(broker.connections, KEYS, JobState.RETRY, (10, 60), [ends_a_set])
    [(_, changed)] = jobs.change(lambda page: [Change(job, to, job.payload, at=at) for job in page])
    assert changed.done == 0
    return changed.problems[0]


def queue_jobs(broker: RedisBroker) -> str:
    jobs = QueueJobs(broker.connections, KEYS, "q", [ends_a_set])
    with pytest.raises(BrokerRefused) as told:
        list(jobs.change(lambda page: [Change(job) for job in page]))
    return str(told.value)


def line(broker: RedisBroker, step: str, near: bool) -> str:
    lines = Lines(broker.connections, KEYS, (10, 60), KEYS.lines, KEYS.line, [ends_a_set])
    [entry] = lines.oldest("line", 1) if near else lines.from_newest("line", 0, 1)
    queue = "q" if step in ("front", "back") else ""
    [result] = lines.move("line", [LineMove(entry, step, queue, OURS if step != "delete" else b"deleted")])
    return str(result)


MOVES: dict[str, tuple[str, Callable[[RedisBroker], str]]] = {
    "deleted": ("retry", lambda broker: set_jobs(broker, None)),
    "killed": ("retry", lambda broker: set_jobs(broker, Place(JobState.DEAD))),
    "retried": ("retry", lambda broker: set_jobs(broker, waiting_in("p"))),
    "rescheduled": ("retry", lambda broker: set_jobs(broker, RETRIES, at=FAR + 1)),
    "deleted from a queue": ("queue", queue_jobs),
    **{
        f"parked, {step}, {near=}": ("parked", lambda broker, step=step, near=near: line(broker, step, near))
        for step in ("front", "back", "dead", "delete")
        for near in (True, False)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_a_job_goes_back_when_its_effect_is_refused_after_all(denied_server: RedisServer, name: str) -> None:
    walled = Walled(denied_server)
    where, move = MOVES[name]
    walled.redis.flushall()
    with own_broker(walled.url) as broker:
        scene = Scene(broker, walled.redis)
        put(scene, where, OURS)
        before = everything(scene)
        walled.allow_all_but("EXISTS")
        assert "EXISTS" in move(broker).upper()
        assert everything(scene) == before


def test_a_member_of_a_group_goes_back_when_its_effect_is_refused_after_all(denied_server: RedisServer) -> None:
    walled = Walled(denied_server)
    walled.redis.flushall()
    walled.allow_all_but("EXISTS")
    with own_broker(walled.url) as broker:
        members = members_key(KEYS, GROUP)
        walled.redis.rpush(members, AGGREGATES)  # its end is that of a set
        with pytest.raises(BrokerRefused, match=r"(?i)exists"):
            broker.require_part(Groups).take_out(GROUP, AGGREGATES, "deleted")
        assert walled.redis.lrange(members, 0, -1) == [AGGREGATES]


def everything(scene: Scene) -> dict[str, object]:
    redis, names = scene.redis, ("queue:q", "queue:p", LINE)
    sets = {name: redis.zrange(name, 0, -1, withscores=True) for name in ("retry", "dead")}
    return {**sets, **{name: redis.lrange(name, 0, -1) for name in names}, "lines": redis.smembers("pyworkers:lines")}
