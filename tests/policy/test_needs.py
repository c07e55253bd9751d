"""The needs of a job: read from any payload, and refused by workers that do not know them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import job
from fleet import Fleet
from hasty import hasty
from hypothesis import given
from hypothesis import strategies as st
from jsontext import examples, field_texts
from waiting import eventually

from goworkers_py import __version__
from goworkers_py.core.outcome import Dead, Outcome, Reschedule
from goworkers_py.policy import needs as policy
from goworkers_py.policy.needs import MOST_ROUNDS, Needs
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import field_of, lacking

NOW = 1_700_000_000.0
LOCKS = field_of(["locks"])


def unmet(raw: bytes, **options: Any) -> Outcome | None:
    return Needs(wall=lambda: NOW, **options).unmet(Message(raw, "q"))


# --- reading


@pytest.mark.parametrize("told", [field_of([]), field_of(["expiry"]), {"v": 1, "needs": ["locks"], "new": 7}, LOCKS])
def test_a_job_is_run_where_all_of_its_needs_are_known(told: dict[str, Any]) -> None:
    assert lacking(told, {"locks", "expiry"}) == []


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (LOCKS, "locks"),
        (field_of(["expiry", "locks"]), "locks"),
        ({"v": 2, "needs": []}, "version 2"),
        ({"v": True, "needs": []}, "version 1"),
        ({"needs": []}, "version of type NoneType"),
        ({"v": math.inf, "needs": []}, "version of type float"),
        ({"v": 1}, "needs of another shape"),
        ({"v": 1, "needs": "expiry"}, "needs of another shape"),
        ({"v": 1, "needs": [["expiry"]]}, "of type list"),
        ({"v": 1, "needs": [None, {}]}, "of type dict"),
        ({"v": 1, "needs": ["a\nb"]}, r"a\nb"),
        (None, "another shape"),
        ([], "another shape"),
        ("locks", "another shape"),
    ],
)
def test_a_field_that_cannot_be_read_is_an_unknown_need(told: Any, word: str) -> None:
    assert word in str(lacking(told, {"expiry"}).pop()).replace("\\\\", "\\")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "needs", "rounds", "x"]), inner),
    max_leaves=8,
)


@examples(300)
@given(ANYTHING, st.sampled_from([1, 2, None]))
def test_no_field_of_a_stranger_raises(told: Any, v: int | None) -> None:
    if isinstance(told, dict) and v is not None:
        told["v"] = v
    raw = json.dumps({"class": "J", "args": [], needs.FIELD: told}).encode()
    try:
        message = Message(raw, "q")
    except Exception:  # NaN, which is no JSON
        return
    outcome = Needs(wall=lambda: NOW).unmet(message)
    if isinstance(outcome, Reschedule | Dead):
        Message(outcome.payload, "q")
    assert (outcome is None) == (lacking(message.get(needs.FIELD), ()) == [])


# --- a worker that does not know a need


def test_rounds_are_counted_in_the_job_and_everything_else_stays_as_it_was_written() -> None:
    raw = b'{"class":"J","jid":"a","args":[1.0e+16],"at":1,"pyworkers":{"v":1,"needs":["x"],"new":1.10,"s":"\\u00e9"}}'
    first = unmet(raw)
    assert isinstance(first, Reschedule)
    texts = field_texts(first.payload)
    assert texts["args"] == "[1.0e+16]"
    assert texts["pyworkers"] == '{"v":1,"needs":["x"],"new":1.10,"s":"\\u00e9","rounds":1}'
    assert (texts["queue"], "at" in texts) == ('"q"', False)
    again = unmet(first.payload)
    assert isinstance(again, Reschedule)
    assert Message(again.payload, "q")["pyworkers"]["rounds"] == 2


def test_the_pauses_grow_up_to_an_hour_and_end_after_about_a_day() -> None:
    raw, waited_s = job(jid="a", pyworkers=LOCKS), [0.0]
    while isinstance(outcome := unmet(raw), Reschedule):
        waited_s.append(outcome.at - NOW)
        raw = outcome.payload
    assert len(waited_s) == MOST_ROUNDS + 1
    assert waited_s[1] < 6
    assert max(waited_s) < 3_960
    assert 12 * 3_600 < sum(waited_s) < 36 * 3_600
    assert isinstance(outcome, Dead)


def test_after_the_last_round_the_job_is_dead_with_an_error_that_names_the_need(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome = unmet(job(jid="a", dead=False, pyworkers={**LOCKS, "rounds": MOST_ROUNDS}))
    assert isinstance(outcome, Dead)
    message = Message(outcome.payload, "q")
    assert message["error_class"] == "goworkers_py.NeedsNewerRelease"
    assert f"needs locks, which pyworkers {__version__} does" in message["error_message"]
    assert (message["failed_at"], message["retry_count"]) == (NOW, 0)
    assert message["pyworkers"] == {**LOCKS, "rounds": 0}  # a retry by hand starts the rounds anew
    assert "moved to the dead set: this job needs locks" in caplog.text


def test_a_job_that_ruby_cannot_read_is_dead_at_once_because_it_cannot_wait_in_the_schedule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome = unmet(b'{"class":"J","jid":"a","args":[1e400],"pyworkers":{"v":1,"needs":["locks"]}}')
    assert isinstance(outcome, Dead)
    flaw = "it holds the number 1e400, which is infinite to Ruby"
    text = f"it cannot wait in the schedule for a newer worker, because {flaw}"
    assert text in Message(outcome.payload, "q")["error_message"]
    assert "rescheduled" not in caplog.text


def test_two_equal_jobs_without_a_jid_stay_two() -> None:
    one, two = (unmet(job(pyworkers=LOCKS)) for _ in range(2))
    assert isinstance(one, Reschedule)
    assert isinstance(two, Reschedule)
    assert one.payload != two.payload


def test_each_need_is_warned_of_once_and_only_so_many_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    deciding = Needs()
    for number in range(3 * policy.MOST_REMEMBERED):
        for _ in range(2):
            deciding.unmet(Message(job(pyworkers=field_of([f"feature-{number}"])), "q"))
    assert len(caplog.records) == policy.MOST_REMEMBERED


NEWER = {
    "policy.known_needs.SPEAKS": ["locks"],
    "policy.needs.FIRST_PAUSE_S": 0.05,
    "policy.needs.LONGEST_PAUSE_S": 0.2,
    "policy.needs.MOST_ROUNDS": 400,
}
OLDER = {**NEWER, "policy.known_needs.SPEAKS": []}


def test_in_a_mixed_fleet_only_workers_that_know_the_need_run_the_job(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    with Fleet(tmp_path, redis_url, redis) as fleet:
        older = fleet.start("-q", "q=5", "--poll-interval", "0.1", prefix=hasty(OLDER)).ready()
        fleet.push("plain", "Short")
        for number in range(10):
            fleet.push(f"j{number}", "Short", pyworkers=LOCKS)
        older.says(f"a job needs locks, which this release ({__version__}) does not know")
        assert eventually(lambda: redis.zcard("schedule")), fleet.told()
        newer = fleet.start("-q", "q=1", "--poll-interval", "0.1", prefix=hasty(NEWER)).ready()
        for number in range(10):
            fleet.await_run("began", f"j{number}")
        assert {run.pid for run in fleet.runs if run.jid != "plain"} == {newer.process.pid}
        assert set(fleet.count("began").values()) == {1}
        assert older.output.count("a job needs locks") == 1
        assert eventually(lambda: redis.get("stat:processed") == b"11"), fleet.told()
        assert redis.get("stat:failed") is None


def test_without_such_a_worker_the_job_is_buried_and_no_code_of_the_user_gets_it(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    with Fleet(tmp_path, redis_url, redis) as fleet:
        fleet.start("-q", "q", "--poll-interval", "0.1", prefix=hasty({**OLDER, "policy.needs.MOST_ROUNDS": 3})).ready()
        fleet.push("j", "Short", pyworkers=LOCKS, dead=False)
        assert eventually(lambda: redis.zcard("dead") == 1), fleet.told()
        fleet.push("plain", "Short")
        fleet.await_run("began", "plain")
        assert {run.jid for run in fleet.runs} == {"plain"}
        assert not (tmp_path / "death-j").exists()
