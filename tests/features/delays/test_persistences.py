"""The persistences of delay queues, by the suite that is published for them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import delay_crash_points
import pytest
import redis as redis_py
from crash_points import lives

import goworkers_py as workers
from goworkers_py.core.errors import BrokerUnavailable, ConfigError
from goworkers_py.features.delays.testing import (
    Open,
    PersistenceContract,
    SharedPersistenceContract,
    listed,
    opened,
    task,
)


class Files:
    """A persistence as a user writes it: a file for each task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, task: workers.DelayTask) -> None:
        path = self._path(task.id)
        written = path.with_suffix(".new")
        written.write_text(task.to_json(), "utf-8")
        written.replace(path)

    def list(self) -> Iterable[workers.DelayTask]:
        return [workers.DelayTask.from_json(path.read_bytes()) for path in self._folder.glob("*.json")]

    def delete(self, task_id: str) -> None:
        self._path(task_id).unlink(missing_ok=True)

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{task_id.encode().hex()[:240]}.json"


class TestFiles(PersistenceContract):
    @pytest.fixture
    def open(self, tmp_path: Path) -> Open:
        return lambda: Files(tmp_path)


class TestMemory(PersistenceContract):
    @pytest.fixture
    def open(self) -> Open:
        one = workers.MemoryPersistence()
        return lambda: one


class TestSQLite(SharedPersistenceContract):
    @pytest.fixture
    def open(self, tmp_path: Path) -> Open:
        return lambda: workers.SQLitePersistence(tmp_path / "delays.db")


class TestRedis(SharedPersistenceContract):
    @pytest.fixture
    def open(self, redis_url: str) -> Open:
        return lambda: workers.RedisPersistence(redis_url)


class TestRedisInTheLayoutOfAGoProgram(PersistenceContract):
    @pytest.fixture
    def open(self, redis_url: str) -> Open:
        return lambda: workers.RedisPersistence(redis_url, layout="delaytk")


# --- what the suite cannot ask


def test_delay_queues_with_other_names_or_namespaces_have_tasks_of_their_own(redis_url: str) -> None:
    with opened(lambda: workers.RedisPersistence(redis_url)) as persistence:
        persistence.save(task())
    assert listed(lambda: workers.RedisPersistence(redis_url, name="other")) == {}
    assert listed(lambda: workers.RedisPersistence(redis_url, namespace="shop")) == {}


def test_a_layout_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no layout 'lists'; use 'pyworkers' or 'delaytk'"):
        workers.RedisPersistence(layout="lists")


@pytest.mark.parametrize("kind", ["redis", "delaytk", "sqlite"])
def test_a_process_that_is_killed_during_a_save_leaves_a_whole_task_or_none(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path, kind: str
) -> None:
    """The original wrote the body in one step, and its id into the list in another one."""
    place = str(tmp_path / "delays.db") if kind == "sqlite" else redis_url
    assert len(lives(delay_crash_points, kind, place, 5)) > 4
    with closing(delay_crash_points.opened(kind, place)) as kept:
        found = {each.id for each in kept.list()}
    assert "known" in found
    if kind == "redis":
        assert found == {each.decode() for each in redis.hkeys("pyworkers:delay-tasks:default")}
        assert found == {each.decode() for each in redis.zrange("pyworkers:delay-due:default", 0, -1)}
    if kind == "delaytk":
        assert found == {key.decode().removeprefix("delaytk_") for key in redis.keys("delaytk_*")}
        assert found == {each.decode() for each in redis.lrange("__delay_queue_list__", 0, -1)}


def test_nothing_is_left_of_a_task_that_is_deleted_cancelled_or_done(redis: redis_py.Redis, redis_url: str) -> None:
    with closing(workers.RedisPersistence(redis_url)) as persistence:
        claims, own = persistence.claims, [task(name) for name in ("deleted", "cancelled", "done")]
        assert claims is not None
        claims.beat("one", 60.0)
        persistence.save_many(own)
        assert len(claims.take("one", "claim", [each.id for each in own], own[0].due)) == 3
        persistence.delete("deleted")
        claims.cancel("one", "cancelled")
        claims.end("one", "claim", ["done"], (), ())
    assert redis.keys() == [b"pyworkers:delay-owners:default"]


@pytest.mark.parametrize("record", [b"no JSON", b'{"v":2,"id":"a","due":1,"type":"t","params":1}', b'{"v":1,"id":"a"}'])
def test_a_record_that_cannot_be_read_is_kept_and_shown(redis: redis_py.Redis, redis_url: str, record: bytes) -> None:
    def open() -> workers.RedisPersistence:  # noqa: A001
        return workers.RedisPersistence(redis_url)

    with opened(open) as persistence:
        persistence.save(task())
        redis.hset("pyworkers:delay-tasks:default", "a", record)
        [found] = persistence.list()
    assert found.id == "a"
    assert found.held.startswith("its record cannot be read: ")
    assert redis.hget("pyworkers:delay-tasks:default", "a") == record


def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    with opened(lambda: workers.SQLitePersistence(path)) as persistence:
        persistence.save(task())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ConfigError, match="is of another release"):
        workers.SQLitePersistence(path).list()


def test_a_file_that_cannot_be_written_refuses_the_save(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable, match="nothing was changed"):
        workers.SQLitePersistence(tmp_path / "no" / "folder.db").save(task())


def test_a_process_waits_for_another_one_that_makes_the_file_just_now(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        ending = threading.Timer(0.3, other.execute, ["COMMIT"])
        ending.start()
        with opened(lambda: workers.SQLitePersistence(path)) as persistence:
            persistence.save(task())
            assert [one.id for one in persistence.list()] == [task().id]
        ending.join()


def test_all_processes_on_a_file_count_the_time_by_one_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the wall clock between a stop and the next start does not move the due times of the tasks."""
    with opened(lambda: workers.SQLitePersistence(tmp_path / "delays.db")) as first:
        before = first.time()  # type: ignore[attr-defined]
    real = __import__("time").time
    monkeypatch.setattr("time.time", lambda: real() + 3_600)
    with opened(lambda: workers.SQLitePersistence(tmp_path / "delays.db")) as later:
        assert 0 <= later.time() - before < 600  # type: ignore[attr-defined]


def test_an_address_in_the_environment_that_is_no_redis_is_told_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYWORKERS_BROKER", "embedded")
    with pytest.raises(ConfigError, match=r"^RedisPersistence: the server's address is not valid: .* PYWORKERS_BROKER"):
        workers.RedisPersistence()


@pytest.mark.parametrize("me", ["me", "new"])
def test_a_lease_in_a_file_that_ended_while_nothing_was_heard_is_no_death(tmp_path: Path, me: str) -> None:
    """The machine slept. An owner that lives has time to renew its lease."""
    with closing(workers.SQLitePersistence(tmp_path / "delays.db")) as kept:
        for owner in "me", "runs":
            kept.claims.beat(owner, 30.0)
        with kept.step() as step:
            step.execute("UPDATE delay_owners SET until = until - 5 WHERE owner = 'runs'")
            step.execute("UPDATE delay_owners SET until = until - ?", (28 if me == "me" else 40,))
        kept.save(workers.DelayTask("a", 0.0, "remind", ""))
        with kept.step() as step:
            step.execute("UPDATE delay_tasks SET owner = 'runs', claim = 'claim'")
        kept.claims.beat(me, 30.0)
        assert kept.claims.take(me, "mine", ["a"], 1.0) == []


def test_a_process_that_beats_seldom_gives_a_dead_one_another_lease_in_a_file_only_once(tmp_path: Path) -> None:
    with closing(workers.SQLitePersistence(tmp_path / "delays.db")) as kept:

        def of_dead() -> float | None:
            """After 20 seconds in which nothing was heard."""
            with kept.step() as step:
                step.execute("UPDATE delay_owners SET until = until - 20")
            kept.claims.beat("me", 30.0)
            with kept.step() as step:
                found = step.execute("SELECT until FROM delay_owners WHERE owner = 'dead'").fetchone()
            return None if found is None else float(found[0])

        for owner in "me", "dead":
            kept.claims.beat(owner, 30.0)
        with kept.step() as step:
            step.execute("UPDATE delay_owners SET until = until - 15 WHERE owner = 'dead'")
        given = of_dead()
        assert given is not None
        assert of_dead() == given - 20
        assert of_dead() is None
