"""Steps on a real Redis server that denies one command after the other: a step is done, or it is not done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import redis as redis_py
from apps import job, own_broker
from denied import Walled
from verbs import batch_of

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import Outcome
from goworkers_py.features.batches.batch import EVENTS, Callback, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.batches.payload import batch_field
from goworkers_py.features.chains.contract import Chains

FAR = 4e9  # epoch seconds
TO = ("cb",)
END = EndInBatch("1", Membership("b", TO), "succeeded")
# Where the batch of a scene has succeeded, has ended with a dead job, and has ended otherwise.
SUCCEEDED = {"success of b": 1, "complete of b": 1}
DIED = {"death of b": 1, "complete of b": 1}
ENDED = {"complete of b": 1}
_PLACES = ("queue:", "pyworkers:line:", "pyworkers:group", "dead", "retry", "schedule")


class Step(NamedTuple):
    act: Callable[[], object]  # its result is true when the step is done
    look: Callable[[], object]  # at what there is then
    expected: object


class Scene:
    def __init__(self, broker: RedisBroker, redis: redis_py.Redis) -> None:
        self.broker = broker
        self.redis = redis

    @property
    def batches(self) -> Batches:
        return self.broker.require_part(Batches)

    @property
    def chains(self) -> Chains:
        return self.broker.require_part(Chains)

    def open(self, bid: str = "b", jobs: int = 0) -> Membership:
        """A batch that the program keeps open. It has so many jobs."""
        member = Membership(bid, TO)
        callbacks = {event: Callback("cb", job(jid=f"{event} of {bid}")) for event in EVENTS}
        self.batches.open(NewBatch(member, "", "hold", callbacks))
        self.redis.hincrby(f"pyworkers:batch:{bid}", "total", jobs)
        return member

    def member(self, **ties: object) -> bytes:
        """The only job of a batch."""
        member = self.open(jobs=1)
        self.batches.let_go("b", "hold", TO)
        return job(jid="1", queue="q", pyworkers={"v": 1, "needs": [], **batch_field(member), **ties})

    def hold(self, payload: bytes) -> bytes:
        """The job is in progress."""
        self.redis.lpush("queue:q:me:inprogress", payload)
        return payload

    def settle(self, payload: bytes, outcome: Outcome) -> bool:
        return self.broker.transport.settle(batch_of((Delivery(payload, "q", "me"), outcome))) == [True]

    def jobs(self) -> dict[str, int]:
        """How often each job is in the places of jobs, by jid."""
        found = Counter[str]()
        for name in (key.decode() for key in self.redis.scan_iter()):
            if name.startswith(_PLACES):
                found.update(json.loads(raw.split(b"\n")[-1])["jid"] for raw in self._payloads(name))
        return dict(found)

    def _payloads(self, name: str) -> list[bytes]:
        if self.redis.type(name) == b"list":
            return self.redis.lrange(name, 0, -1)
        return self.redis.zrange(name, 0, -1) if name in _PLACES else []

    def batch(self, bid: str = "b") -> tuple[int, int, int, int, str]:
        told = self.batches.status(bid)
        assert told is not None
        return told.total, told.succeeded, told.failed, told.cancelled, told.state


Scenario = Callable[[Scene], Step]


def check_with_each_command_denied(walled: Walled, scenario: Scenario, sections: Sequence[object] = ()) -> None:
    """Also with all commands allowed, and on a server that is out of memory."""
    with walled.noted_commands() as asked:
        wrong = {"with all": _wrong_with(walled, scenario, sections)}
    assert len(asked) > 3
    wrong |= {f"without {command}": _wrong_with(walled, scenario, sections, command) for command in sorted(asked)}
    wrong["out of memory"] = _wrong_with(walled, scenario, sections, memory="1")
    assert not any(wrong.values()), "\n".join(f"{how}: {told}" for how, told in wrong.items() if told)


def _wrong_with(walled: Walled, scenario: Scenario, sections: Sequence[object], *denied: str, memory: str = "0") -> str:
    """Tries the step twice while the command is denied, then until it is done. Returns how it ended, if not well."""
    walled.redis.flushall()
    walled.allow_all_but()
    with own_broker(walled.url, sections=sections) as broker:
        step = scenario(Scene(broker, walled.redis))
        walled.allow_all_but(*denied)
        walled.redis.config_set("maxmemory", memory)
        done = _is_done(step) or _is_done(step)
        walled.redis.config_set("maxmemory", "0")
        walled.allow_all_but()
        done = done or any(_is_done(step) for _ in range(3))
        found = step.look()
    assert not walled.redis.keys("pyworkers:none*")
    return "" if done and found == step.expected else f"{done=}, {found=}, expected={step.expected}"


def _is_done(step: Step) -> bool:
    with suppress(BrokerError):
        return bool(step.act())
    return False
