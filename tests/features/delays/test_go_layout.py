"""The layout of a Go program of a time wheel: its programs read what we write, and we read what they wrote.

`restarted` is what that program makes of a record when it starts: the seconds until it runs the task.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis as redis_py
from delaying import Queues
from waiting import eventually

import goworkers_py as workers
from goworkers_py.features.delays.redis_lists import address_of_environment

LIST = "__delay_queue_list__"


def go_record(task_id: str, cycles: int, position: int, params: str = "text", then: Any = None) -> dict[str, Any]:
    return {
        "Id": task_id, "CycleCount": cycles, "WheelPosition": position, "TaskType": "remind", "TaskParams": params,
        "Next": then,
    }  # fmt: skip


def saved_by_go(redis: redis_py.Redis, record: dict[str, Any]) -> None:
    redis.lpush(LIST, record["Id"])
    redis.set(f"delaytk_{record['Id']}", json.dumps(record, separators=(",", ":")))


def restarted(redis: redis_py.Redis) -> dict[str, tuple[int, str, str]]:
    found = {}
    for task_id in redis.lrange(LIST, 0, -1):
        record = json.loads(redis.get(b"delaytk_" + task_id))
        seconds = (record["CycleCount"] + 1) * 3600 + record["WheelPosition"]
        assert record["Next"] is None
        assert seconds > 0
        found[record["Id"]] = (seconds, record["TaskType"], record["TaskParams"])
    return found


def test_that_program_runs_our_tasks_at_the_right_time(queues: Queues, redis: redis_py.Redis, redis_url: str) -> None:
    queue = queues.made({}, workers.RedisPersistence(redis_url, layout="delaytk"))
    delays = {"a": 10, "b": 3599, "c": 3600, "d": 3700, "e": 100_000}
    for task_id, delay in delays.items():
        queue.push(delay, "remind", "text", task_id)
    queue.push(60, "remind", {"user": 7}, "json")
    found = restarted(redis)
    assert {key: abs(found[key][0] - delay) <= 1 for key, delay in delays.items()} == dict.fromkeys(delays, True)
    assert found["a"][1:] == ("remind", "text")
    assert found["json"][2] == '{"user":7}'


def test_tasks_of_that_program_run_and_a_restart_does_not_move_them(
    queues: Queues, redis: redis_py.Redis, redis_url: str
) -> None:
    """The original added (CycleCount + 1) turns at each of its starts."""
    saved_by_go(redis, go_record("soon", -1, 0, '{"a":1}'))
    saved_by_go(redis, go_record("later", 0, 100))
    ran: list[Any] = []
    queue = queues.started({"remind": ran.append}, workers.RedisPersistence(redis_url, layout="delaytk"))
    assert eventually(lambda: ran == ['{"a":1}'])  # a text, as that program's executors get it
    assert eventually(lambda: redis.lrange(LIST, 0, -1) == [b"later"])
    assert redis.exists("delaytk_soon") == 0
    assert eventually(lambda: len(queue.pending()) == 1)
    [task] = queue.pending()
    assert 3_600 < task.due - time.time() <= 3_700
    queue.stop()
    again = queues.started({}, workers.RedisPersistence(redis_url, layout="delaytk"))
    assert again.pending() == [task]


def test_a_record_that_nests_its_slot_is_read_and_none_is_written(
    queues: Queues, redis: redis_py.Redis, redis_url: str
) -> None:
    """The original nested all tasks of the slot in each record, and silently skipped what it then could not read."""
    nested: Any = None
    for number in range(50):
        nested = go_record(f"older-{number}", 0, 5, then=nested)
    saved_by_go(redis, go_record("a", 0, 5, 'text with ,"Next": in it', nested))
    deep = json.dumps(go_record("deep", 0, 7), separators=(",", ":"))
    level = json.dumps(go_record("older", 0, 7), separators=(",", ":"))
    nest = level[: -len("null}")]
    redis.lpush(LIST, "deep")
    redis.set("delaytk_deep", deep[: -len("null}")] + nest * 20_000 + "null" + "}" * 20_001)
    queue = queues.started({}, workers.RedisPersistence(redis_url, layout="delaytk"))
    # Not those that are nested: each had a record of its own, until it had run.
    assert {task.id: task.params for task in queue.pending()} == {"a": 'text with ,"Next": in it', "deep": "text"}
    assert set(restarted(redis)) == {"a", "deep"}


@pytest.mark.parametrize("record", ["no JSON", "[]", '{"Id":"a","CycleCount":"x"}', '{"Id":"a","TaskType":1}'])
def test_a_record_that_cannot_be_read_is_kept_and_shown(
    queues: Queues, redis: redis_py.Redis, redis_url: str, record: str, caplog: pytest.LogCaptureFixture
) -> None:
    redis.lpush(LIST, "a", "without a record")
    redis.set("delaytk_a", record)
    queue = queues.started({}, workers.RedisPersistence(redis_url, layout="delaytk"))
    [task] = queue.pending()
    assert task.id == "a"
    assert task.held.startswith("its record cannot be read: ")
    assert redis.get("delaytk_a") == record.encode()
    assert "its record cannot be read" in caplog.text
    assert "an id without a task" in caplog.text


def test_the_variables_of_that_program_name_the_server(
    redis: redis_py.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = redis.connection_pool.connection_kwargs
    monkeypatch.setenv("REDIS_ADDR", f"{place['host']}:{place['port']}")
    monkeypatch.setenv("REDIS_DB", str(place.get("db", 0)))
    monkeypatch.setenv("DELAY_QUEUE_LIST_KEY", "my_list")
    kept = workers.RedisPersistence(layout="delaytk")
    kept.save(workers.DelayTask("a", time.time() + 60, "remind", "text"))
    kept.close()
    assert redis.lrange("my_list", 0, -1) == [b"a"]
    monkeypatch.setenv("REDIS_PWD", "se/cret")
    with pytest.raises(workers.BrokerError, match=r"password|AUTH"):
        workers.RedisPersistence(layout="delaytk").save(workers.DelayTask("b", 1.0, "remind", "text"))


def test_without_these_variables_it_is_the_server_of_that_programs_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_ADDR", "REDIS_DB", "REDIS_PWD"):
        monkeypatch.delenv(name, raising=False)
    assert address_of_environment() == "redis://localhost:6379/0"


def test_a_known_id_is_listed_once(redis: redis_py.Redis, redis_url: str) -> None:
    kept = workers.RedisPersistence(redis_url, layout="delaytk")
    for due in (1.0, 2.0):
        kept.save(workers.DelayTask("a", due, "remind", "text"))
    assert redis.lrange(LIST, 0, -1) == [b"a"]
    kept.close()
