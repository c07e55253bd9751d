"""Commands to real processes whose connections are cut, and which are killed: none is missed, none is obeyed twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app, started
from daemon import Daemon, pyworkers
from hasty import hasty
from proxy import Proxy
from servers import RedisServer
from waiting import await_stopped, eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.calls.call import Call, Target
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.calls.record import written_call
from goworkers_py.features.calls.redis_part import calls_key

JOBS = """
    import os
    import goworkers_py as workers

    @workers.job("Quick", queue="q")
    def quick(): ...

    @workers.command("note")
    def note(number):
        with open("noted-%d" % os.getpid(), "a") as file:
            file.write("%d\\n" % number)
        return number
"""

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]


def noted(folder: Path, daemon: Daemon) -> list[int]:
    path = folder / f"noted-{daemon.process.pid}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def give(app: App, number: int, life_s: float = 60.0) -> None:
    """Without waiting for answers."""
    app.broker.require_part(Calls).give(Call(f"call-{number}", "note", [number], Target(), "the test", life_s))


def test_commands_that_are_given_while_connections_are_cut_are_each_obeyed_once(
    tmp_path: Path, redis_server: RedisServer, redis_url: str, app: App
) -> None:
    with Proxy(int(redis_url.rpartition(":")[2].partition("/")[0])) as proxy:
        database = redis_url.rpartition("/")[2]
        url = f"redis://127.0.0.1:{proxy.port}/{database}"
        # After a cut it may find all commands at once, and refuses those beyond MOST_AT_ONCE.
        patient = hasty({"features.calls.own_commands.MOST_AT_ONCE": 1_000})
        with Daemon(tmp_path, url, JOBS, "-q", "q=1", prefix=patient) as daemon:
            daemon.ready()
            numbers = iter(range(1_000))
            given = []
            for fault in (
                proxy.cut,
                lambda: proxy.drop_reply_of(b"MULTI", times=3),
                lambda: proxy.drop_command(b"MULTI", times=3),
                lambda: proxy.drop_reply_of(b"XRANGE", times=2),
                proxy.refuse,
                proxy.pass_through,
                proxy.swallow,
                proxy.pass_through,
                proxy.cut,
            ):
                fault()
                for _ in range(3):
                    given.append(next(numbers))
                    give(app, given[-1])
            proxy.pass_through()
            proxy.cut()
            assert eventually(lambda: sorted(noted(tmp_path, daemon)) == given, 40)
            give(app, 5_000)
            assert eventually(lambda: 5_000 in noted(tmp_path, daemon))
            assert sorted(noted(tmp_path, daemon)) == [*given, 5_000]
            assert eventually(lambda: app.broker.require_part(Calls).answers("call-5000"))
            # Each command has a thread of its own: the last answer may come before others.
            assert eventually(
                lambda: all(len(app.broker.require_part(Calls).answers(f"call-{number}")) == 1 for number in given)
            )


def test_a_command_whose_message_was_lost_is_found_by_the_next_look(
    app: App, redis_url: str, redis: redis_py.Redis
) -> None:
    with own_app(redis_url, QueueConfig("q")) as other:
        other.command("note")(lambda number: number)
        with started(other):
            assert eventually(lambda: any(one.commands for one in app.inspector.processes()))
            given = Call("call-1", "note", [1], Target(), "the test", 60.0)
            redis.xadd(calls_key(Keys()), {"call": written_call(given)})  # and no PUBLISH
            assert eventually(lambda: [one.value for one in app.broker.require_part(Calls).answers("call-1")] == [1])


def test_an_answer_that_the_server_did_not_get_is_given_again(app: App, redis_url: str) -> None:
    port, _, database = redis_url.rpartition(":")[2].partition("/")
    with (
        Proxy(int(port)) as proxy,
        own_app(f"redis://127.0.0.1:{proxy.port}/{database}", QueueConfig("q")) as behind,
    ):

        @behind.command("lose")
        def lose() -> int:
            proxy.drop_command(b"RPUSH")  # the answer to this command
            return 7

        with started(behind):
            assert eventually(lambda: any(one.commands for one in app.inspector.processes()))
            app.broker.require_part(Calls).give(Call("call-lose", "lose", [], Target(), "the test", 60.0))
            assert eventually(lambda: [one.value for one in app.broker.require_part(Calls).answers("call-lose")] == [7])


def test_a_process_that_stood_still_obeys_what_has_not_expired_and_nothing_else(
    tmp_path: Path, redis_url: str, app: App
) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as daemon:
        daemon.ready()
        give(app, 1)
        assert eventually(lambda: noted(tmp_path, daemon) == [1])
        daemon.signal(signal.SIGSTOP)
        give(app, 2)
        give(app, 3, life_s=0.001)
        done = app.inspector.call("note", 4, timeout_s=0.5)
        assert (done.answers, len(done.silent)) == ([], 1)
        daemon.signal(signal.SIGCONT)
        give(app, 5)
        # Each command has a thread of its own: the one of 5 may come before the one of 2.
        assert eventually(lambda: {2, 5}.issubset(noted(tmp_path, daemon)))
        assert sorted(noted(tmp_path, daemon)) == [1, 2, 5]


def test_the_successor_of_a_killed_process_obeys_no_command_of_before(tmp_path: Path, redis_url: str, app: App) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as first:
        first.ready()
        first.signal(signal.SIGSTOP)
        for number in range(5):
            give(app, number)
        first.kill()
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as second:
        second.ready()
        give(app, 9)
        assert eventually(lambda: noted(tmp_path, second) == [9])
        answers = eventually(lambda: app.broker.require_part(Calls).answers("call-9"))
        assert [answer.ok for answer in answers] == [True]
        assert app.broker.require_part(Calls).answers("call-1") == []


def test_all_processes_of_a_parent_answer_and_one_that_hangs_is_named(tmp_path: Path, redis_url: str, app: App) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "--processes", "2") as daemon:
        assert eventually(lambda: len(app.inspector.processes()) == 2)
        assert eventually(lambda: all(one.commands for one in app.inspector.processes()))
        call = ("processes", "call", "note", "--all", "--json")
        done = pyworkers(*call, "--arg", "7", "--within", "30", PYWORKERS_REDIS=redis_url)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.returncode, [(one["ok"], one["value"]) for one in told]) == (0, [(True, 7)] * 2)
        pid = int(told[0]["identity"].split(":")[1])
        os.kill(pid, signal.SIGSTOP)
        try:
            await_stopped(pid)
            # Long enough for the other process on a busy machine.
            done = pyworkers(*call, "--arg", "8", "--within", "8", PYWORKERS_REDIS=redis_url)
            told = [json.loads(line) for line in done.stdout.splitlines()]
            assert done.returncode == 1
            assert sorted((one["ok"], one.get("error", "")) for one in told) == [
                (False, "no answer within 8 s"), (True, ""),
            ]  # fmt: skip
        finally:
            os.kill(pid, signal.SIGCONT)
        assert daemon.stop() == 0


def test_a_quiet_process_is_resumed_and_a_stop_ends_it(tmp_path: Path, redis_url: str, redis: redis_py.Redis) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1") as daemon:
        daemon.ready()
        daemon.signal(signal.SIGTSTP)
        daemon.says("quiet: no new jobs are fetched")
        assert pyworkers("processes", "resume", "--all", "--within", "30", PYWORKERS_REDIS=redis_url).returncode == 0
        daemon.says("resumed: jobs are fetched again")
        pyworkers("enqueue", "Quick", "--queue", "q", PYWORKERS_REDIS=redis_url)
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        stop = ("processes", "stop", "--all", "--yes", "--within", "30")
        assert pyworkers(*stop, PYWORKERS_REDIS=redis_url).returncode == 0
        assert daemon.wait() == 0
