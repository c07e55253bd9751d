"""Jobs that kill their process are found and buried; the jobs that ran beside them are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, job
from fleet import Fleet
from hostile_payloads import VALUES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import eventually

from goworkers_py.core.errors import PoisonPill
from goworkers_py.policy.poison import ALONE_S, PATIENCE_S, PoisonPolicy, RecoveryDecision, name_of
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps

NOW = 1_700_000_000.0
EARLIER = NOW - 3_600


def judge(raw: bytes, begun: bool = True, alone: str = "", now: float = NOW, **policy: Any) -> RecoveryDecision:
    """`alone`: "j1" means this very job."""
    name = name_of(Message(raw, "q")) if alone == "j1" and raw != b"no job" else alone
    return PoisonPolicy(**policy).judge(raw, "q", "host:1:abc", begun, name, now)


def struck(count: Any, since: Any = EARLIER, **more: Any) -> bytes:
    return job(**{"jid": "j1", "recovered": {"v": 1, "count": count, "since": since}, **more})


# --- jobs that were in progress in a dead process


def test_the_first_death_is_counted_in_the_payload_with_its_time() -> None:
    raw = b'{"class":"J","args":[1.10,1E3,"\\u00e9"],"jid":"j1","x":{}'
    assert judge(raw + b"}") == RecoveryDecision(raw + b',"recovered":{"v":1,"count":1,"since":1700000000.0}}')


def test_fields_that_a_later_release_wrote_into_the_record_are_kept() -> None:
    raw = b'{"class":"J","jid":"j1","recovered":{"v":1,"count":1,"since":1699996400.0,"rounds":2,"more":[1.10]}}'
    told = b'{"v":1,"count":2,"since":1699996400.0,"more":[1.10]}'
    assert judge(raw).payload == b'{"class":"J","jid":"j1","recovered":' + told + b"}"


def test_a_later_death_raises_the_count_and_keeps_the_time_of_the_first() -> None:
    assert json.loads(judge(struck(1)).payload) == json.loads(struck(2))


@pytest.mark.parametrize("raw", [struck(2), b"no job", b""])
def test_a_job_that_had_not_begun_and_a_payload_that_is_no_job_are_not_changed(raw: bytes) -> None:
    assert judge(raw, begun=False) == RecoveryDecision(raw)
    assert judge(b"no job", alone="j1") == RecoveryDecision(b"no job")


def test_a_job_that_ran_alone_is_buried_at_the_limit_and_says_why() -> None:
    decision = judge(struck(2, at=1, other=[1]), alone="j1")
    assert decision.error
    assert json.loads(decision.payload) == {
        **json.loads(job(jid="j1", other=[1])),
        "error_class": "goworkers_py.PoisonPill",
        "error_message": "3 processes died while they ran this job, the last one (host:1:abc) while it ran nothing "
        "else; it is not retried",
        "failed_at": NOW,
        "retry_count": 0,
    }
    assert isinstance(decision.error, PoisonPill)


def test_a_job_that_had_failed_before_keeps_the_record_of_it() -> None:
    decision = judge(struck(2, failed_at=EARLIER, retry_count=4), alone="j1", timestamps=Timestamps("ms"))
    buried = json.loads(decision.payload)
    assert (buried["failed_at"], buried["retried_at"], buried["retry_count"]) == (EARLIER, NOW * 1000, 4)


def test_poison_is_buried_even_with_dead_false() -> None:
    assert judge(struck(2, dead=False), alone="j1").error


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_a_job_that_ran_beside_others_is_never_buried(limit: int) -> None:
    """However many deaths its count has."""
    raw = job(jid="j1")
    for deaths in range(1, limit + 5):
        decision = judge(raw, limit=limit)
        assert not decision.error
        raw = decision.payload
        assert json.loads(raw)["recovered"] == {"v": 1, "count": deaths, "since": NOW}
        assert PoisonPolicy(limit).is_suspect(Message(raw, "q")) is (deaths >= limit - 1)
    assert judge(raw, alone="j1", limit=limit).error


def test_other_jobs_of_a_process_with_a_suspect_in_quarantine_are_not_changed() -> None:
    for raw in (struck(1), struck(2, jid="j2"), job(jid="j3")):
        assert judge(raw, alone="another") == RecoveryDecision(raw)


def test_a_job_without_a_jid_is_buried_only_if_its_bytes_were_the_suspects() -> None:
    raw = job(recovered={"count": 2, "since": EARLIER})
    assert not judge(raw).error
    decision = judge(raw, alone=name_of(Message(raw, "q")), begun=False)
    assert decision.error
    assert (
        len(json.loads(decision.payload)["jid"]) == 24
    )  # without a jid, equal bytes would be one entry of the dead set


def test_deaths_that_are_long_past_do_not_count() -> None:
    assert judge(struck(2), alone="j1", now=EARLIER + 72 * 3_600).error
    decision = judge(struck(2), alone="j1", now=EARLIER + 72 * 3_600 + 1)
    assert json.loads(decision.payload)["recovered"] == {"v": 1, "count": 1, "since": EARLIER + 72 * 3_600 + 1}
    assert not judge(struck(2), alone="j1", window_s=3_599).error


@pytest.mark.parametrize("since", [None, "yesterday", [], True, float("inf"), -(10**400), 10**400, 1e300])
def test_a_record_without_a_valid_time_starts_the_count_anew(since: Any) -> None:
    raw = struck(2, since=since).replace(b"Infinity", b"1e999")
    assert json.loads(judge(raw, alone="j1").payload)["recovered"] == {"v": 1, "count": 1, "since": NOW}


@pytest.mark.parametrize(
    "told", [None, "2", [2], True, {"count": "2"}, {"count": -7, "since": EARLIER}, {"count": 10**400}, {}]
)
def test_a_record_without_a_valid_count_starts_the_count_anew(told: Any) -> None:
    assert json.loads(judge(job(jid="j1", recovered=told), alone="j1").payload)["recovered"]["count"] == 1


def test_the_record_of_a_later_release_is_not_changed() -> None:
    raw = job(jid="j1", recovered={"v": 2, "count": [7]})
    assert judge(raw) == judge(raw, alone="j1") == RecoveryDecision(raw)
    assert not PoisonPolicy().is_suspect(Message(raw, "q"))


def test_without_a_limit_nothing_is_counted() -> None:
    assert judge(struck(50), alone="j1", limit=0) == RecoveryDecision(struck(50))
    assert not PoisonPolicy(0).is_suspect(Message(struck(50), "q"))


@pytest.mark.parametrize(("count", "suspect"), [(0, False), (1, False), (2, True), (3, True), ("2", False)])
def test_a_suspect_is_one_death_from_the_limit(count: Any, suspect: bool) -> None:
    assert PoisonPolicy().is_suspect(Message(struck(count), "q")) is suspect
    assert not PoisonPolicy().is_suspect(Message(job(), "q"))


# --- how long a suspect waits and runs alone


def test_a_suspect_waits_longer_in_each_round_until_it_has_had_all() -> None:
    policy, raw, waited = PoisonPolicy(), struck(2), []
    while (patience_s := policy.patience_s(Message(raw, "q"))) is not None:
        waited.append(patience_s)
        raw = policy.next_round(Message(raw, "q"))
    assert waited == list(PATIENCE_S)
    assert json.loads(raw)["recovered"] == {"v": 1, "count": 2, "since": EARLIER, "rounds": len(PATIENCE_S)}
    assert "rounds" not in json.loads(judge(raw).payload)["recovered"], "the next death begins anew"


@pytest.mark.parametrize(("count", "factor"), [(2, 1), (3, 4), (4, 16), (5, 16), (10**6, 16)])
def test_each_death_that_proved_nothing_makes_the_wait_four_times_as_long(count: int, factor: int) -> None:
    message = Message(struck(count), "q")
    assert PoisonPolicy().patience_s(message) == PATIENCE_S[0] * factor
    assert PoisonPolicy().alone_s(message) == ALONE_S * factor


NASTY = (None, True, False, 0, -1, 3, 10**400, -(10**400), 1.5, -0.0, 1e300, float("inf"), -float("inf"), "", "x",
         "\ud800", "2026-01-01 00:00:00 UTC", [], [1], [[]], {}, {"a": {}}, {"count": 1}, EARLIER, NOW)  # fmt: skip
ANY = st.sampled_from(NASTY)
RECORD = ANY | st.fixed_dictionaries({}, optional=dict.fromkeys(("v", "count", "since", "rounds"), ANY))
FIELDS = ("jid", "class", "args", "queue", "recovered", "failed_at", "retry_count", "dead", "at")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANY) | {"recovered": RECORD}), st.booleans())
def test_no_field_makes_judge_raise(told: dict[str, Any], alone: bool) -> None:
    raw = json.dumps(told).replace("Infinity", "1e999").replace("NaN", "0").encode()
    message = Message(raw, "q")
    policy = PoisonPolicy()
    # `judge` would log what `_judge` raises.
    decision = policy._judge(raw, "q", "host:1:abc", True, name_of(message) if alone else "", NOW)
    assert isinstance(json.loads(decision.payload), dict)
    assert policy.alone_s(message) >= ALONE_S
    if policy.is_suspect(message) and policy.patience_s(message) is not None:
        assert isinstance(json.loads(policy.next_round(message)), dict)


# --- with real processes


@pytest.mark.slow
@pytest.mark.parametrize("wants_burial", [True, False])
def test_a_job_that_kills_its_process_is_buried_after_three_deaths_and_its_neighbours_are_not(
    fleet: Fleet, redis: redis_py.Redis, wants_burial: bool
) -> None:
    """The neighbours run beside the poison in every process that dies."""
    neighbours = [f"neighbour{number}" for number in range(4)]
    for jid in neighbours:
        fleet.push(jid, "Gated", "gate")
    fleet.push("poison", "Fatal", len(neighbours), dead=wants_burial)
    deaths = 0
    while not (fleet.directory / "death-poison").exists():
        assert deaths < 10, fleet.told()
        # After two deaths all these jobs are suspects, and run one after the other.
        if deaths == 2:
            fleet.open("gate")
        process = fleet.start("-q", "q=6").process
        assert eventually(lambda p=process: p.poll() is not None or _told_of_death(fleet)), fleet.told()
        deaths += process.poll() is not None
    assert deaths == 3
    assert eventually(lambda: set(fleet.count("ended")) == set(neighbours)), fleet.told()
    assert eventually(lambda: not in_progress(redis) and not redis.exists("queue:q", "retry")), fleet.told()
    assert fleet.count("began")["poison"] == 3
    assert min(fleet.count("began").values()) == 3, "they had begun each time"
    assert fields(redis.zrange("dead", 0, -1), "jid") == ["poison"]
    told = fleet.directory / "death-poison"  # made before it is written
    assert eventually(lambda: "3 processes died while they ran this job" in told.read_text())
    assert fleet.daemons[-1].output.count("ERROR: poison: class=Fatal jid=poison queue=q") == 1


def _told_of_death(fleet: Fleet) -> bool:
    return (fleet.directory / "death-poison").exists()


def test_a_job_that_cannot_be_judged_goes_back_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    faulty = PoisonPolicy("three")  # type: ignore[arg-type]
    raw = job(jid="abc")
    assert faulty.judge(raw, "q", "host:1:abc", True, name_of(Message(raw, "q")), 1.0) == RecoveryDecision(raw)
    assert caplog.messages == ["a job of dead process host:1:abc cannot be judged, and goes back to queue q"]


@pytest.mark.parametrize("name", ["v", "count", "since", "rounds", "mark", "verdict"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_record_of_a_stranger_never_keeps_a_suspect_from_its_decisions(name: str, value: bytes) -> None:
    record = {"v": 1, "count": 2, "since": 1.0, "rounds": 1, "mark": "", "verdict": 0, name: "@"}
    raw = payload.write({"class": "J", "jid": "j", "args": [], "recovered": record}).replace(b'"@"', value)
    message, policy = Message(raw, "q"), PoisonPolicy()
    policy.is_suspect(message)
    assert policy.alone_s(message) > 0
    assert policy.away_s(message) > 0
    assert (policy.patience_s(message) or 1) > 0
    for written in (policy.next_round(message), policy.awaiting_verdict(message, 5.0)):
        assert payload.read(written)["jid"] == "j"
    policy.counted(message, "m", 3, 5.0)
    assert payload.read(policy.bury(message, 3, 5.0).payload)["jid"] == "j"
