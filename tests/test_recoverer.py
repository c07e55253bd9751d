from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import fields, job, own_broker, queue

from goworkers_py.brokers.contracts import Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.leases import LEASE_S
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import BrokerUnavailable, PoisonPill
from goworkers_py.links.retry import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy, name_of
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.recoverer import LOOK_EVERY_S, STEADY_FOR_S, Recoverer
from goworkers_py.wire.message import Message

GONE = "host:1:abcdef"


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


@pytest.fixture
def left(broker: RedisBroker, redis: redis_py.Redis) -> list[bytes]:
    """What a process left whose lease has run out, oldest first."""
    raws = [job("J", jid=str(number)) for number in range(3)]
    broker.beat(Presence(GONE, {"q": 0}))
    redis.delete(Keys().lease(GONE))
    redis.lpush(f"queue:q:{GONE}:inprogress", *raws)
    redis.lpush("queue:q", job("J", jid="waiting"))
    return raws


def recoverer(
    broker: RedisBroker, steady_s: float, counters: Counters | None = None, handlers: Handlers | None = None
) -> Recoverer:
    policy = PoisonPolicy(limit=3)

    def proof(wanted_s: float) -> str | None:
        return "" if steady_s >= wanted_s else None

    return Recoverer(
        broker, Lease(50), proof, policy, handlers or Handlers(), counters or Counters(), Clock(), Outage()
    )


def test_jobs_of_a_dead_process_go_to_the_back_of_their_queue_and_are_logged_by_jid(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    pause_s = recoverer(broker, STEADY_FOR_S, counters).run_once()
    assert 0.8 * LOOK_EVERY_S <= pause_s <= 1.2 * LOOK_EVERY_S
    assert fields(queue(redis), "jid") == ["waiting", "0", "1", "2"]
    assert not redis.exists(f"queue:q:{GONE}:inprogress")
    assert counters.snapshot() == {"recovered": 3}
    assert caplog.messages == [
        f"recovered from dead process {GONE}: class=J jid={number} queue=q" for number in range(3)
    ]


def test_no_lease_is_called_run_out_until_the_others_have_had_time_to_renew_theirs(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis
) -> None:
    recoverer(broker, STEADY_FOR_S - 1).run_once()
    assert redis.llen(f"queue:q:{GONE}:inprogress") == 3


def test_the_proof_is_handed_on_as_it_is(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str | None] = []
    monkeypatch.setattr(broker, "recover", lambda owner, judge, proof: iter(told.append(proof) or ()))
    policy = PoisonPolicy(limit=3)
    Recoverer(broker, Lease(50), lambda steady_s: "17", policy, Handlers(), Counters(), Clock(), Outage()).recover()
    assert told == ["17"]


def test_the_time_to_renew_a_lease_is_no_shorter_than_its_life() -> None:
    assert STEADY_FOR_S >= LEASE_S


def test_what_a_live_process_has_is_left_alone(left: list[bytes], broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.beat(Presence(GONE, {"q": 0}))
    recoverer(broker, STEADY_FOR_S).run_once()
    assert redis.llen(f"queue:q:{GONE}:inprogress") == 3


def test_a_dead_processs_unreadable_payload_is_recovered_too(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.lpush(f"queue:q:{GONE}:inprogress", b"\xff{")
    recoverer(broker, STEADY_FOR_S).run_once()
    assert queue(redis)[-1] == b"\xff{"
    assert f"recovered from dead process {GONE}: an unreadable payload queue=q" in caplog.text


def test_only_those_that_can_have_been_begun_are_suspects(
    left: list[bytes], broker: RedisBroker, redis: redis_py.Redis
) -> None:
    """The oldest of its list: as many as there were workers."""
    broker.beat(Presence(GONE, {"q": 2}))
    redis.delete(Keys().lease(GONE))
    recoverer(broker, STEADY_FOR_S).run_once()
    assert fields(queue(redis), "jid") == ["waiting", "0", "1", "2"]
    counts = [told and told["count"] for told in fields(queue(redis), "recovered")]
    assert counts == [None, 1, 1, None]


def test_a_job_that_killed_its_process_once_too_often_is_buried_and_its_death_is_told(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str]] = []
    counters = Counters()
    handlers = Handlers(death=[lambda message, error: told.append((message.jid, type(error).__name__))])
    struck = {"count": 2, "since": time.time()}
    raws = [job(jid="poison", recovered=struck), job(jid="beside", recovered=struck)]
    broker.beat(Presence(GONE, {"q": 2}, alone=name_of(Message(raws[0], "q"))))
    redis.delete(Keys().lease(GONE))
    redis.lpush(f"queue:q:{GONE}:inprogress", *raws)
    recoverer(broker, STEADY_FOR_S, counters, handlers).run_once()
    (buried,) = redis.zrange("dead", 0, -1)
    assert Message(buried, "q").jid == "poison"
    assert fields(queue(redis), "jid") == ["beside"]
    assert fields(queue(redis), "recovered")[0]["count"] == 2
    assert told == [("poison", "PoisonPill")]
    assert counters.snapshot() == {"poison": 1, "recovered": 1}
    assert "poison: class=J jid=poison queue=q: 3 processes died while they ran this job" in caplog.text


def test_deaths_found_at_the_start_are_told_also_when_the_next_look_fails(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    it = recoverer(broker, STEADY_FOR_S, Counters(), Handlers(death=[lambda message, _: told.append(message.jid)]))
    it._deaths.append((Message(job(jid="j"), "q"), PoisonPill("dead")))

    def fail(*_: object) -> None:
        raise BrokerUnavailable("timed out")

    monkeypatch.setattr(broker, "recover", fail)
    with pytest.raises(BrokerUnavailable):
        it.run_once()
    assert told == ["j"]
