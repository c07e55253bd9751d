from __future__ import annotations

import time

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_broker, queue, shared
from hostile_payloads import cases

from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.timing import TIMING
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.links.handlers import Handlers
from goworkers_py.policy.poison import PoisonPolicy, name_of
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.runtime.recovering import recoverer
from goworkers_py.runtime.recovering.recoverer import Recoverer, judge_by, recovering
from goworkers_py.wire.message import Message

GONE = "host:1:abcdef"


@pytest.fixture
def left(broker: RedisBroker, redis: redis_py.Redis) -> list[bytes]:
    """Puts jobs in progress under a process whose lease has expired, oldest first."""
    raws = [job("J", jid=str(number)) for number in range(3)]
    broker.recoverable.beat(Presence(GONE, {"q": 0}))
    redis.delete(Keys().lease(GONE))
    redis.lpush(f"queue:q:{GONE}:inprogress", *raws)
    redis.lpush("queue:q", job("J", jid="waiting"))
    return raws


class Steady:
    """A heartbeat whose beats have got through for so long."""

    def __init__(self, steady_s: float, proof: str = "") -> None:
        self._steady_s, self._proof = steady_s, proof

    def proof(self, wanted_s: float) -> str | None:
        return self._proof if self._steady_s >= wanted_s else None


class Recovering:
    def __init__(
        self,
        broker: RedisBroker,
        heartbeat: Steady | None = None,
        handlers: Handlers | None = None,
        registry: Registry | None = None,
    ) -> None:
        parts = recovering(registry or Registry(), Config(), time.time)
        heartbeat, self._common = heartbeat or Steady(TIMING.steady_for_s), shared()
        self.recoverer = Recoverer(
            broker.recoverable,
            heartbeat,
            judge_by(PoisonPolicy(limit=3), parts, self._common.clock.wall),
            handlers or Handlers(),
            self._common,
        )

    @property
    def counts(self) -> dict[str, int]:
        return self._common.counters.snapshot()


def test_jobs_of_a_dead_process_go_to_the_back_of_their_queue_and_are_logged_by_jid(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    at = Recovering(broker)
    pause_s = at.recoverer.run_once()
    assert 0.8 * TIMING.recover_every_s <= pause_s <= 1.2 * TIMING.recover_every_s
    assert fields(queue(redis), "jid") == ["waiting", "0", "1", "2"]
    assert not redis.exists(f"queue:q:{GONE}:inprogress")
    assert at.counts == {"recovered": 3}
    assert caplog.messages == [
        f"recovered from dead process {GONE}: class=J jid={number} queue=q" for number in range(3)
    ]


def test_no_lease_is_called_run_out_until_the_others_have_had_time_to_renew_theirs(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis
) -> None:
    Recovering(broker, Steady(TIMING.steady_for_s - 1)).recoverer.run_once()
    assert redis.llen(f"queue:q:{GONE}:inprogress") == 3


def test_the_proof_is_handed_on_as_it_is(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | None] = []
    monkeypatch.setattr(broker.recoverable, "recover", lambda identity, judge, proof: iter(told.append(proof) or ()))
    Recovering(broker, Steady(TIMING.steady_for_s, proof="17")).recoverer.recover()
    assert told == ["17"]


def test_the_time_to_renew_a_lease_is_no_shorter_than_its_life() -> None:
    assert TIMING.steady_for_s >= TIMING.lease_s


def test_what_a_live_process_has_is_left_alone(left: list[bytes], broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.recoverable.beat(Presence(GONE, {"q": 0}))
    Recovering(broker).recoverer.run_once()
    assert redis.llen(f"queue:q:{GONE}:inprogress") == 3


def test_a_dead_processs_unreadable_payload_is_recovered_too(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.lpush(f"queue:q:{GONE}:inprogress", b"\xff{")
    Recovering(broker).recoverer.run_once()
    assert queue(redis)[-1] == b"\xff{"
    assert f"recovered from dead process {GONE}: an unreadable payload queue=q" in caplog.text


def test_only_those_that_can_have_been_begun_are_suspects(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis
) -> None:
    """The oldest of its list: as many as there were workers."""
    broker.recoverable.beat(Presence(GONE, {"q": 2}))
    redis.delete(Keys().lease(GONE))
    Recovering(broker).recoverer.run_once()
    assert fields(queue(redis), "jid") == ["waiting", "0", "1", "2"]
    counts = [told and told["count"] for told in fields(queue(redis), "recovered")]
    assert counts == [None, 1, 1, None]


def left_by_poison(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """A process died for the third time while it ran a suspect alone, and another suspect lay beside that one."""
    struck = {"count": 2, "since": time.time()}
    raws = [job(jid="poison", recovered=struck), job(jid="beside", recovered=struck)]
    broker.recoverable.beat(Presence(GONE, {"q": 2}, alone=name_of(Message(raws[0], "q"))))
    redis.delete(Keys().lease(GONE))
    redis.lpush(f"queue:q:{GONE}:inprogress", *raws)


def test_a_job_that_killed_its_process_once_too_often_is_buried_and_its_death_is_told(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str]] = []
    handlers = Handlers(death=[lambda message, error: told.append((message.jid, type(error).__name__))])
    left_by_poison(broker, redis)
    at = Recovering(broker, handlers=handlers)
    at.recoverer.run_once()
    (buried,) = redis.zrange("dead", 0, -1)
    assert Message(buried, "q").jid == "poison"
    assert fields(queue(redis), "jid") == ["beside"]
    assert fields(queue(redis), "recovered")[0]["count"] == 2
    assert told == [("poison", "PoisonPill")]
    assert at.counts == {"poison": 1, "recovered": 1}
    assert "poison: class=J jid=poison queue=q: 3 processes died while they ran this job" in caplog.text


def test_the_gem_sidekiq_status_shows_a_buried_job_as_failed(broker: RedisBroker, redis: redis_py.Redis) -> None:
    registry = Registry()
    registry.add(JobSpec("J", lambda: None, "q", {"sidekiq_status": True}))
    left_by_poison(broker, redis)
    redis.hset("sidekiq:status:poison", "status", "working")
    Recovering(broker, registry=registry).recoverer.run_once()
    assert redis.hget("sidekiq:status:poison", "status") == b"failed"
    assert not redis.exists("sidekiq:status:beside")


def test_deaths_found_at_the_start_are_told_also_when_the_next_look_fails(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    handlers = Handlers(death=[lambda message, _: told.append(message.jid)])
    it = Recovering(broker, handlers=handlers).recoverer
    left_by_poison(broker, redis)
    it.recover()
    assert told == []

    def fail(*_: object) -> None:
        raise BrokerUnavailable("timed out")

    monkeypatch.setattr(broker.recoverable, "recover", fail)
    with pytest.raises(BrokerUnavailable):
        it.run_once()
    assert told == ["poison"]


def test_the_death_of_poison_tells_its_error_to_the_batch() -> None:
    tracking = Tracking(Registry(), Config(), time.time)
    ties = b'{"v":1,"needs":["batch"],"batch":{"id":"b","to":[]}}'
    raw = b'{"class":"A","args":[],"jid":"1","queue":"q","pyworkers":' + ties + b"}"
    judge, name = judge_by(PoisonPolicy(limit=1), [tracking], time.time), name_of(Message(raw, "q"))
    [death] = [one.death for one in judge(FoundJob("q", GONE, raw, True, name)).effects if isinstance(one, EndInBatch)]
    assert b"PoisonPill" in death


def test_a_hostile_payload_of_a_dead_process_keeps_no_other_job_from_being_recovered(
    redis_url: str, redis: redis_py.Redis
) -> None:
    hostile = [case.raw for case in cases()][::7]
    with own_broker(redis_url) as broker:
        broker.recoverable.beat(Presence(GONE, {"q": len(hostile)}))
        redis.delete(Keys().lease(GONE))
        redis.lpush(f"queue:q:{GONE}:inprogress", *hostile, job(jid="last"))
        config = Config(sections=(EchoConfig("echoes", locks="native"),))
        judge = judge_by(PoisonPolicy(), recovering(Registry(), config, time.time), time.time)
        beat = broker.recoverable.beat(Presence("here:1:fedcba", {"q": 0}))
        recovered = [*broker.recoverable.recover("here:1:fedcba", judge, beat.proof)]
    assert len(recovered) == len(hostile) + 1
    assert not in_progress(redis)
    assert redis.llen("queue:q") + redis.zcard("dead") == len(hostile) + 1


def test_a_fault_in_the_ties_of_one_job_does_not_stop_a_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise ValueError("ours")

    monkeypatch.setattr(recoverer, "moved", fail)
    judge = judge_by(PoisonPolicy(), [Tracking(Registry(), Config(), time.time)], time.time)
    assert judge(FoundJob("q", GONE, job(), False, "")).payload == job()
