"""`processes`, `inprogress`, `recover` and `top`, with real daemons."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import redis as redis_py
from apps import fields, in_progress, job, queue
from calls import Call, one_line
from daemon import Daemon, command, environment
from servers import RedisServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import RedisSettlement
from goworkers_py.cli import main
from goworkers_py.cli import recover as recover_command
from goworkers_py.cli.top import _share
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.timing import TIMING, Timing

pytestmark = pytest.mark.usefixtures("on_this_server")


def begun(redis: redis_py.Redis, *jids: str) -> None:
    redis.lpush("queue:q", *(job("Slow", 30, jid=jid) for jid in jids))
    assert eventually(lambda: len(in_progress(redis)) == len(jids))


# --- processes


BUSY = """
    import time
    import goworkers_py as workers
    from goworkers_py.core.timing import Timing

    workers.app.timing = Timing(beat_every_s=0.2)

    @workers.job("Burn", queue="q")
    def burn(seconds):
        ended = time.monotonic() + seconds
        while time.monotonic() < ended:
            pass
"""


def test_the_cpu_that_a_process_uses_is_told(redis: redis_py.Redis, redis_url: str, tmp_path: Path, call: Call) -> None:
    def told() -> Any:
        return [json.loads(line)["cpu_share"] for line in call("processes", "--json").stdout.splitlines()]

    with Daemon(tmp_path, redis_url, BUSY, "-q", "q=2", "-t", "0.1").ready() as daemon:
        assert eventually(lambda: told()[0] is not None and told()[0] < 0.05), "it waits"
        redis.lpush("queue:q", job("Burn", 60))
        assert eventually(lambda: told()[0] > 0.06), "a busy machine gives it a small part of a core"
        header, row = call("processes").stdout.splitlines()
        assert re.fullmatch(r"\d+%", row[: header.index("cpu") + 3].split()[-1])
        assert daemon.stop() == 0


def test_a_killed_process_is_not_listed(slow_daemon: Daemon, redis: redis_py.Redis, call: Call) -> None:
    [identity] = (json.loads(line)["identity"] for line in call("processes", "--json").stdout.splitlines())
    slow_daemon.kill()
    redis.delete(f"pyworkers:lease:{identity}")  # as the process does that finds it dead
    assert redis.exists(identity)
    assert call("processes").stdout == ""
    assert call("processes", "stop", identity).returncode == 1


def test_processes_of_sidekiq_and_go_workers_are_listed_also_with_missing_fields(
    redis: redis_py.Redis, call: Call
) -> None:
    now = time.time()
    info = {"hostname": "web", "pid": 7, "queues": ["default"], "concurrency": 5, "tag": "app", "started_at": now - 100}
    redis.sadd("processes", "sidekiq:7:a", "go:8:b", "gone:9:c", "odd:1:d")
    redis.hset("sidekiq:7:a", mapping={"info": json.dumps(info), "busy": 1, "beat": now, "quiet": "true", "rss": 2048})
    redis.hset("go:8:b", mapping={"info": '{"Pid":8,"queues":null}', "busy": 0, "beat": int(now), "quiet": 0})
    redis.hset("odd:1:d", mapping={"info": "no json", "busy": "many"})
    work = {"queue": "default", "run_at": int(now) - 3, "payload": {"class": "Old", "args": [1], "jid": "o1"}}
    redis.hset("sidekiq:7:a:workers", "tid", json.dumps(work))
    told = [json.loads(line) for line in call("processes", "--json").stdout.splitlines()]
    assert [(one["identity"], one["busy"], one["concurrency"], one["quiet"]) for one in told] == [
        ("go:8:b", 0, 0, False), ("odd:1:d", 0, 0, False), ("sidekiq:7:a", 1, 5, True),
    ]  # fmt: skip
    assert [one["cpu_share"] for one in told] == [None, None, None]
    header, *rows = call("processes").stdout.splitlines()
    assert {row[: header.index("cpu") + 3].split()[-1] for row in rows} == {"-"}
    assert "Old" in call("top", "--once").stdout


# --- in progress, recover


def test_the_help_of_recover_says_that_it_calls_no_on_death_handlers(call: Call) -> None:
    told = " ".join(call("recover", "--help").stdout.split())
    assert "The application is not imported, so its on_death handlers are not called for it" in told


def test_jobs_in_progress_are_shown_with_their_owner_and_recovered_when_it_is_dead(
    slow_daemon: Daemon, redis: redis_py.Redis, call: Call
) -> None:
    begun(redis, "a", "b")
    [identity] = [one.decode() for one in redis.hkeys("pyworkers:owners")]
    assert eventually(lambda: redis.hlen(f"{identity}:work") == 2)
    redis.lpush(f"queue:q:{identity}:inprogress", b"{no job")
    told = [json.loads(line) for line in call("inprogress", "--json").stdout.splitlines()]
    assert [(one["alive"], one.get("job", {}).get("jid")) for one in told] == [(True, "a"), (True, "b"), (True, None)]
    assert all(time.time() - one["running_since"] < 60 for one in told[:2])
    assert call("recover").stdout == "0 jobs recovered\n"
    slow_daemon.kill()
    assert call("inprogress").stdout.splitlines()[1].split()[:2] == [identity, "no"]
    done = call("recover")
    assert done.stdout.splitlines()[0] == f"class=Slow jid=a queue=q of {identity}: back to its queue"
    assert done.stdout.splitlines()[-1] == "3 jobs recovered"
    assert in_progress(redis) == []
    assert redis.llen("queue:q") == 3


def test_recover_waits_for_a_beat_of_a_process_whose_lease_has_expired(
    redis: redis_py.Redis, call: Call, called_app: App
) -> None:
    called_app.timing = Timing(await_beat_s=0.01)
    entry = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})
    redis.hset("pyworkers:owners", mapping={"away:1:x": entry, "lives:2:y": entry})
    redis.set("pyworkers:lease:lives:2:y", 1)
    redis.lpush("queue:q:away:1:x:inprogress", job(jid="lost"))
    redis.lpush("queue:q:lives:2:y:inprogress", job(jid="held"))
    done = call("recover", "--json")
    assert json.loads(done.stdout) == {"recovered": 1, "problems": []}
    assert "lease expired: away:1:x; waiting" in done.stderr
    assert fields(queue(redis), "jid") == ["lost"]
    assert fields(in_progress(redis), "jid") == ["held"]


def test_recover_gives_the_lock_of_a_job_that_ran_its_time_again(redis: redis_py.Redis, call: Call) -> None:
    owner, lock = "host:1:00000000000a", {"name": "Job:one", "for": 60}
    payload = json.dumps({"class": "Job", "args": [], "jid": "1", "pyworkers": {"v": 1, "lock": lock}})
    redis.hset("pyworkers:owners", owner, json.dumps({"v": 1, "queues": {"q": 1}}))
    redis.hset("pyworkers:gone", owner, 4_000_000_000)
    redis.lpush(f"queue:q:{owner}:inprogress", payload)
    redis.hset("pyworkers:lock:Job:one", mapping={"v": "1", "jid": "1", "owner": owner})
    assert call("recover").stdout.splitlines()[-1] == "1 job recovered"
    assert 50 < redis.ttl("pyworkers:lock:Job:one") <= 60


def test_recover_takes_nothing_from_a_process_that_beats_again_while_it_waits(
    redis: redis_py.Redis, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})
    redis.hset("pyworkers:owners", "away:1:x", entry)
    redis.lpush("queue:q:away:1:x:inprogress", job())

    class BeatMeanwhile:
        def wait(self, seconds: float) -> None:
            assert seconds == TIMING.await_beat_s
            redis.set("pyworkers:lease:away:1:x", 1)

    monkeypatch.setattr(recover_command, "threading", SimpleNamespace(Event=BeatMeanwhile))
    assert call("recover").stdout == "0 jobs recovered\n"
    assert len(in_progress(redis)) == 1


def test_a_recovery_that_loses_the_server_prints_the_recovered_jobs_and_fails(
    redis: redis_py.Redis, call: Call, called_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    called_app.timing = Timing(await_beat_s=0.01)
    entry = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})
    for owner in ("away:1:x", "away:2:y"):
        redis.hset("pyworkers:owners", owner, entry)
        redis.lpush(f"queue:q:{owner}:inprogress", job())
    end, asked = RedisSettlement.settle, []

    def break_off(*step: Any) -> Any:
        asked.append(step)
        if len(asked) == 2:
            raise BrokerUnavailable("timed out")
        return end(*step)

    monkeypatch.setattr(RedisSettlement, "settle", break_off)
    done = call("recover")
    assert done.returncode == 75
    assert done.stdout.count("back to its queue") == 1
    assert "timed out" in done.stderr
    assert len(in_progress(redis)) == 1


def test_recover_takes_over_the_jobs_of_one_go_workers_process(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "a:b")
    redis.lpush("queue:a:b:host:1:inprogress", job(jid="1"), job(jid="2"))
    redis.lpush("queue:c:host:1:inprogress", job(jid="3"))  # nothing was ever pushed to its queue
    redis.lpush("queue:a:b:other:inprogress", job(jid="4"))
    redis.lpush("queue:a:b", job(jid="0"))
    done = call("recover", "--go-workers", "host:1")
    assert done.returncode == 2
    assert "add --yes" in one_line(done.stderr)
    assert call("recover", "--go-workers", "host:1", "--yes").stdout == "2 jobs recovered\n"
    assert fields(queue(redis, "a:b"), "jid") == ["0", "1", "2"]
    assert call("recover", "--go-workers", "1", "--yes").stdout == "1 job recovered\n"
    assert fields(queue(redis, "c:host"), "jid") == ["3"]
    done = call("recover", "--go-workers", "1", "--yes")
    assert done.returncode == 1
    assert one_line(done.stderr).startswith("process 1 of go-workers has no jobs in progress")
    assert redis.keys("*:inprogress") == [b"queue:a:b:other:inprogress"]


def test_recover_takes_nothing_from_a_go_workers_process_with_a_recent_heartbeat(
    redis: redis_py.Redis, call: Call
) -> None:
    redis.sadd("queues", "q")
    redis.lpush("queue:q:7:inprogress", job())
    heartbeats = json.dumps([{"pid": "1", "in_progress_queue": '"q:7:inprogress"'}])
    redis.sadd("processes", "go")
    redis.hset("go", mapping={"info": "{}", "beat": int(time.time()), "worker_heartbeats": heartbeats})
    done = call("recover", "--go-workers", "7", "--yes")
    assert done.returncode == 1
    assert one_line(done.stderr) == "process 7 of go-workers is alive: its jobs would run twice; stop it first"
    redis.hset("go", "beat", int(time.time()) - 100)
    assert call("recover", "--go-workers", "7", "--yes").returncode == 0


@pytest.mark.parametrize("prefix", ["", "ns:", "n*[s]:"])
def test_queue_and_process_are_read_from_the_key_of_a_list_under_any_namespace(
    redis: redis_py.Redis, call: Call, prefix: str
) -> None:
    keys = Keys(prefix.removesuffix(":"))
    redis.sadd(keys.queues, "q")
    redis.lpush(keys.inprogress("q", "7"), job())
    redis.lpush("other:queue:q:7:inprogress", job())
    flags = ("--namespace", prefix.removesuffix(":")) if prefix else ()
    assert call("recover", "--go-workers", "7", "--yes", *flags).stdout == "1 job recovered\n"
    assert redis.llen(keys.queue("q")) == 1


# --- top


def test_top_once_shows_everything(slow_daemon: Daemon, redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "q")
    redis.sadd("paused", "other")
    begun(redis, "a")
    [identity] = [one.decode() for one in redis.hkeys("pyworkers:owners")]
    assert eventually(lambda: redis.exists(f"{identity}:work"))
    out = call("top", "--once").stdout
    assert "in progress 1  scheduled 0  retries 0  dead 0" in out
    assert re.search(r"other +0 +0\.0 s +paused", out)
    assert re.search(rf"{identity} +1/2 ", out)
    assert re.search(r" s  q +Slow +a +\[30\]", out)
    assert "\x1b" not in out


def test_top_without_a_terminal_is_a_usage_error(call: Call) -> None:
    done = call("top")
    assert done.returncode == 2
    assert "top needs a terminal; --once prints it once" in one_line(done.stderr)


@contextmanager
def top_on_a_terminal(redis_url: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command("top", "--redis", redis_url), stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(TERM="xterm"), start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    try:
        yield ours, process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def shown(terminal: int, text: str, within_s: float = 20) -> str:
    """Reads what the program draws from now on, up to and with the text."""
    drawn, deadline = "", time.monotonic() + within_s
    while text not in drawn and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                drawn += os.read(terminal, 65_536).decode("utf-8", "replace")
            except OSError:
                break
    assert text in drawn
    return drawn


@pytest.mark.parametrize("end", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_top_fits_the_screen_goes_on_through_an_outage_and_leaves_the_terminal_as_it_was(
    own_redis: RedisServer, end: bytes
) -> None:
    client = own_redis.client()
    client.sadd("queues", *(f"queue-{'x' * 70}-{n}" for n in range(50)))
    with top_on_a_terminal(own_redis.url) as (terminal, process):
        # Up to the end of the first frame: on a busy machine the beginning of the next one may be read with it.
        frame = shown(terminal, "\x1b[J").partition("\x1b[J")[0]
        assert "... and 4" in frame
        lines = re.sub(r"\x1b\[\??\d*[a-zA-Z]", "", frame).replace("\r", "").split("\n")
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        shown(terminal, "/s)")
        own_redis.stop()
        shown(terminal, "no server: ")
        own_redis.start()
        shown(terminal, "pyworkers top")
        os.write(terminal, end)
        shown(terminal, "\x1b[?25h\x1b[?1049l")
        assert process.wait(20) == 0


def test_top_leaves_the_terminal_as_it_was_when_it_is_terminated(redis_url: str) -> None:
    with top_on_a_terminal(redis_url) as (terminal, process):
        shown(terminal, "/s)")
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        process.terminate()
        shown(terminal, "\x1b[?25h\x1b[?1049l")
        assert process.wait(20) == 143
        assert termios.tcgetattr(terminal)[3] & termios.ECHO


def test_tables_share_the_screen() -> None:
    one, five, fifty = ["x"], ["x"] * 5, ["x"] * 50
    assert _share(30, [five, five, five]) == [5, 5, 5]
    assert sum(_share(21, [fifty, fifty, fifty])) + 3 <= 21
    assert _share(21, [one, fifty, one])[1] > 7
    assert _share(0, [fifty, fifty, fifty]) == [0, 0, 0]


def test_no_command_has_two_options_of_the_same_name() -> None:
    def look(one: click.Command) -> None:
        names = [parameter.name for parameter in one.params]
        assert len(names) == len(set(names)), one.name
        for inner in one.commands.values() if isinstance(one, click.Group) else ():
            look(inner)

    look(main)
