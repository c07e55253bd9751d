"""Each key of each step is of a wrong type, one after the other, and each command is denied: the step happens, or it
changes nothing. The keys are those that the calls of the step declare, and the commands those of our scripts, so a new
key or command is tested without a change here."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import redis as redis_py
from apps import job, own_broker
from denied import Walled
from scenes import FAR, Scene
from servers import RedisServer
from verbs import KEYS, batch_of

from goworkers_py.brokers.contracts.transport import Settled
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PostJobs, Push, PushJobs, StoreValue
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.outcome import DONE, Dead, Done, Outcome, Park, Reschedule, Retry
from goworkers_py.features.batches.batch import BatchTie
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.for_ruby.end import pushed as echo_pushed
from goworkers_py.features.groups.effects import EndSet
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.groups.redis_part import set_key
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import LimitSettings, Rate, Slot, SlotClaim
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Fired, Firing, Release, Rule
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.lock import LockClaim

ONE, TWO = Slot("one"), Slot("two")
GROUP = GroupMembership(Group("q", "Job", "g"), GroupSettings(100.0))
FULL_GROUP = GroupMembership(Group("q", "Job", "full"), GroupSettings(100.0, 0.0, 2))
RAW = job(jid="0", queue="q")


class Step(NamedTuple):
    act: Callable[[], object]  # False when the step was refused, and its neighbours were not
    neighbours: Callable[[], object] = lambda: None  # without the step


Scenario = Callable[[Scene], Step]
State = dict[str, object]


# --- the steps


def prepared(scene: Scene) -> None:
    scene.open()
    limits = LimitSettings("one", 1, holds=True), LimitSettings("two", 1)
    scene.broker.require_part(Limits).declare(limits)
    lock = LockClaim("held", "holder", 60, "replace", b"{}")
    scene.broker.transport.publish([Push("q", job(jid="holder"), ties=(lock,)), Push("q", job(), ties=(FULL_GROUP,))])


def pushes() -> list[Push]:
    def lock(name: str, **more: Any) -> LockClaim:
        return LockClaim(name, name, 60)._replace(**more)

    return [
        Push(
            "a",
            job(jid="1"),
            id="1",
            ties=(RecordTie(TrackedJob("1", "Job")), lock("1"), SlotClaim(ONE, "1"), BatchTie("b")),
        ),
        Push("b", job(jid="2"), ties=(SlotClaim(ONE, "2"), BatchTie("b"))),  # into the line
        Push("c", job(jid="3"), FAR, ties=(RecordTie(TrackedJob("3", "Job")), lock("3"), BatchTie("b"))),
        Push("d", job(jid="4"), ties=(RecordTie(TrackedJob("4", "Job")), lock("4"), GROUP)),
        Push("d", job(jid="5"), ties=(FULL_GROUP,)),
        Push("e", job(jid="6"), ties=(lock("held", jid="6", on_conflict="replace", fields=b'{"a":1}'),)),
        Push("e", job(jid="7"), ties=(lock("held", jid="7", on_conflict="reschedule"),)),
        Push("f", job(jid="8")),
    ]


def push_one(number: int) -> Scenario:
    def made(scene: Scene) -> Step:
        prepared(scene)
        return Step(lambda: scene.broker.transport.publish([pushes()[number]]))

    return made


def push_all(scene: Scene) -> Step:
    prepared(scene)
    return Step(lambda: scene.broker.transport.publish(pushes()))


def settled(outcome: Callable[[], Outcome]) -> Scenario:
    """Between two neighbours of its batch."""

    def made(scene: Scene) -> Step:
        prepared(scene)
        scene.broker.transport.publish([Push("q", job(jid="0"), ties=(LockClaim("0", "0", 60), SlotClaim(TWO, "0")))])
        scene.redis.delete("queue:q")
        first, second = (job(jid=f"neighbour {number}") for number in (1, 2))
        for raw in (first, RAW, second):
            scene.hold(raw)

        def settle(*finished: tuple[bytes, Outcome]) -> Sequence[Settled]:
            deliveries = [(Delivery(raw, "q", "me"), outcome) for raw, outcome in finished]
            return scene.broker.transport.settle(batch_of(*deliveries))

        def act() -> bool:
            told = settle((first, DONE), (RAW, outcome()), (second, DONE))
            if all(isinstance(one, str) for one in told):
                raise BrokerRefused(str(told[0]))  # their list, which they share, is damaged
            assert (told[0], told[2]) == (True, True)
            return told[1] is True

        return Step(act, lambda: settle((first, DONE), (second, DONE)))

    return made


def begins(scene: Scene) -> Step:
    return _begin(scene, [Slot("free"), Slot("rate")])


def waits(scene: Scene) -> Step:
    """The job has the place in the one slot, and the other one is full."""
    return _begin(scene, [ONE, TWO], "0", "other")


def gives_up(scene: Scene) -> Step:
    """The job has the place in a slot that is behind the full one."""
    return _begin(scene, [ONE, TWO], "other", "0")


def _begin(scene: Scene, slots: Sequence[Slot], *holders: str) -> Step:
    prepared(scene)
    more = LimitSettings("free", 2), LimitSettings("rate", rate=Rate(5, 60, 5))
    scene.broker.require_part(Limits).declare(more)
    for slot, holder in zip(slots, holders, strict=False):
        scene.broker.transport.publish([Push("x", job(jid=holder), ties=(SlotClaim(slot, holder),))])
    raw = scene.hold(RAW)
    effects = (NoteState(TrackedJob("0", "Job"), "waiting", "", 60), EndInBatch("0", scene.open(), "succeeded"))
    wish = SlotWish(slots, "0", Delivery(raw, "q", "me"), raw, ("q", "x"), effects)
    return Step(lambda: scene.broker.require_part(Limits).begin(wish))


def end_of_set(scene: Scene) -> Step:
    step = settled(
        lambda: Done(effects=(EndSet("0", Group("q", "Job", "s", "s"), (PushJobs("0", tuple(pushes())),)),))
    )(scene)
    scene.redis.rpush("pyworkers:group-set:s", job(), job())
    return step


def fires(push: Push | None) -> Scenario:
    def made(scene: Scene) -> Step:
        prepared(scene)
        release, periodic = Release("app"), scene.broker.require_part(Periodic)
        [state] = periodic.register(release, [schedule("nightly", Rule(every=3600), {"class": "Job"})]).states
        time.sleep(0.002)  # the slot is due
        firing = Firing("nightly", state.number, state.since + 0.001, "fired", "1", push)
        return Step(lambda: periodic.fire(release, firing).fired is Fired.DONE)

    return made


STEPS: dict[str, Scenario] = {
    **{f"push {number}": push_one(number - 1) for number in range(1, 8)},
    "push all": push_all,
    "an atomic job": settled(lambda: Done(effects=(PushJobs("0", tuple(pushes())),))),
    "an end with effects": settled(
        lambda: Done(
            effects=(
                echo_pushed("0", "ruby", job(jid="echo")),
                StoreValue("0", "result", b"1", 60),
                PostJobs("0", "elsewhere", (Push("r", job(jid="posted"), id="p"),)),
                PushJobs("0", (Push("g", job(jid="9")), Push("g", job(jid="10"), FAR))),
            )
        )
    ),
    "an end that may fail": settled(
        lambda: Done(
            effects=(
                NoteState(TrackedJob("0", "Job"), "completed", "", 60),
                FreeLock("0", "0"),
                LeaveSlot("0", TWO, ("q",)),
            )
        )
    ),
    "a retry": settled(lambda: Retry(FAR, RAW, effects=(PushJobs("0", tuple(pushes())),))),
    "a death": settled(lambda: Dead(RAW, effects=(PushJobs("0", tuple(pushes())),))),
    "a reschedule": settled(lambda: Reschedule(FAR, RAW, effects=(PushJobs("0", tuple(pushes())),))),
    "a park": settled(lambda: Park("somewhere", effects=(PushJobs("0", tuple(pushes())),))),
    "the end of a set": end_of_set,
    **{f"fire {number}": fires(pushes()[number - 1]) for number in (1, 4, 5)},
    "a job begins": begins,
    "a job waits": waits,
    "a job gives up its places": gives_up,
}


# --- what there is before and after


_TIME, _TOKEN, _RECEIPT = re.compile(r"\d{9,}(\.\d+)?"), re.compile(r"[0-9a-f]{12,}"), KEYS.receipt("")


def state_of(redis: redis_py.Redis, *without: str) -> State:
    """All keys but these, without times and tokens."""
    names = sorted(name.decode() for name in redis.scan_iter())
    names = [name for name in names if name not in without and not name.startswith(_RECEIPT)]
    with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name).pttl(name)
        told = pipe.execute()
        for name, kind in zip(names, told[::2], strict=True):
            _read(pipe, name, kind)
        values = pipe.execute()
    found = zip(names, told[1::2], values, strict=True)
    return {_named(name): (_plain(value), left >= 0) for name, left, value in found}


def _named(name: str) -> str:
    """A set that a step makes has a new name each time."""
    return _plain(name) if name.startswith(set_key(KEYS, "")) else name


def _read(pipe: Any, name: str, kind: bytes) -> None:
    match kind:
        case b"list":
            pipe.lrange(name, 0, -1)
        case b"zset":
            pipe.zrange(name, 0, -1, withscores=True)
        case b"set":
            pipe.smembers(name)
        case b"hash":
            pipe.hgetall(name)
        case _:
            pipe.get(name)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        value = sorted(value.items())
    elif isinstance(value, set):
        value = sorted(value)
    return _TIME.sub("TIME", _TOKEN.sub("TOKEN", str(value)))


class Run(NamedTuple):
    """How a step ended."""

    done: object  # None: the step and its neighbours were refused
    before: State
    after: State
    wrong: str


class Steps:
    """Runs a step on an empty server, again and again."""

    def __init__(self, walled: Walled, broker: RedisBroker, scenario: Scenario) -> None:
        self._walled = walled
        self._broker = broker
        self._scenario = scenario
        self.keys: list[str] = []  # those that the calls of the step declared
        self.strings: set[str] = set()  # those that are strings after the step

    def run(self, wrong: str = "", denied: str = "", alone: bool = False) -> Run:
        redis = self._walled.redis
        redis.flushdb()
        step = self._scenario(Scene(self._broker, redis))
        if wrong:
            redis.delete(wrong)
            if wrong in self.strings:
                redis.rpush(wrong, "somebody's list")
            else:
                redis.set(wrong, "somebody's string")
        if denied:
            self._walled.allow_all_but(denied)
        before, done = state_of(redis, wrong), None
        try:
            with self._noted():
                done = step.neighbours() if alone else step.act()
        except BrokerError:
            pass
        finally:
            if denied:
                self._walled.allow_all_but()
        assert not redis.exists(KEYS.nothing)
        return Run(done, before, state_of(redis, wrong), wrong)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        connections, keys = self._broker.connections, list[str]()
        script = connections.script

        def noted(called: Any, names: Sequence[str], arguments: Sequence[Any]) -> Any:
            keys.extend(names)
            return script(called, names, arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections, "script", noted)
            yield
        self.keys = [*dict.fromkeys(keys)]
        self.strings |= {key for key in keys if self._walled.redis.type(key) == b"string"}


@pytest.fixture
def walled(denied_server: RedisServer) -> Walled:
    walled = Walled(denied_server)
    walled.allow_all_but()
    return walled


# Where a command is denied, these may lack a write, and the step happens all the same: counters, records, histories,
# and a full group, which is due and is flushed then, if it could not become a set in the step of the push. No job is
# lost in it.
MAY_LACK = ("stat:", "pyworkers:job:", "pyworkers:ended:", "pyworkers:group", "pyworkers:periodic-history:")
_JID = re.compile(r'"jid": "(\w+)"')


def jobs_in(state: State) -> dict[str, int]:
    return Counter(jid for value in state.values() for jid in _JID.findall(str(value)))


def difference(run: Run, clean: Run, neighbours: Run, may_lack: tuple[str, ...] = ()) -> str:
    """How a step ended that neither happened nor changed nothing; empty when all is well."""
    changed = {name: value for name, value in neighbours.after.items() if neighbours.before.get(name) != value}
    alone = {
        name: value for name, value in run.before.items() if name in neighbours.after or name not in neighbours.before
    }
    wanted = clean.after if run.done else run.before if run.done is None else {**alone, **changed}
    told = [
        f"    {name}: {run.after.get(name)}, not {wanted.get(name)}"
        for name in sorted(run.after.keys() | wanted.keys())
        if run.after.get(name) != wanted.get(name) and name != run.wrong and not name.startswith(may_lack)
    ]
    if may_lack and jobs_in(run.after) != jobs_in(wanted):
        told.append(f"    jobs: {jobs_in(run.after)}, not {jobs_in(wanted)}")
    return f"  done: {run.done}\n" + "\n".join(told) if told else ""


@pytest.mark.parametrize("step", STEPS)
def test_a_step_with_a_key_of_a_wrong_type_happens_or_changes_nothing(walled: Walled, step: str) -> None:
    with own_broker(walled.url) as broker:
        steps = Steps(walled, broker, STEPS[step])
        neighbours, clean = steps.run(alone=True), steps.run()
        first = steps.keys
        assert clean.done
        assert steps.run().after == clean.after
        keys = [key for key in first if key in steps.keys and key != KEYS.nothing]  # without names made for one call
        assert len(keys) > 3
        found = {key: difference(steps.run(key), clean, neighbours) for key in keys}
    if told := "\n".join(f"{key}\n{told}" for key, told in found.items() if told):
        pytest.fail(told)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_with_a_denied_command_happens_or_changes_nothing(walled: Walled, step: str) -> None:
    with own_broker(walled.url) as broker:
        steps = Steps(walled, broker, STEPS[step])
        neighbours = steps.run(alone=True)
        with walled.noted_commands() as asked:
            clean = steps.run()
        assert len(asked) > 3
        may_lack = (*MAY_LACK, "pyworkers:slot:", "pyworkers:lock:") if step == "an end that may fail" else MAY_LACK
        runs = {command: steps.run(denied=command) for command in sorted(asked)}
        found = {command: difference(run, clean, neighbours, may_lack) for command, run in runs.items()}
    if told := "\n".join(f"{command}\n{told}" for command, told in found.items() if told):
        pytest.fail(told)
