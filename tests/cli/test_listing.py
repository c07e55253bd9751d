"""The commands that show and change jobs: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import job
from calls import Call, one_line
from daemon import command, environment

from goworkers_py.cli.tables import cut, duration, when
from goworkers_py.wire import enclosure

pytestmark = pytest.mark.usefixtures("on_this_server")

UNSHOWN = "\\x1b"


@pytest.fixture
def filled(redis: redis_py.Redis) -> redis_py.Redis:
    now = time.time()
    redis.sadd("queues", "mail", "odd name:*")
    redis.lpush("queue:mail", *(job("Send", n, jid=f"s{n}", enqueued_at=now - 310) for n in range(3)), b"{no\x1b[31m")
    failed = {"retry_count": 2, "error_class": "ValueError", "error_message": "no user\x1b[0m", "failed_at": now - 60}
    redis.zadd("retry", {job("Bad", n, jid=f"r{n}", **failed): now + 3_700 + n for n in range(3)})
    redis.zadd("schedule", {job("Later", jid="l0"): now + 7_300})
    redis.zadd("dead", {job("Bad", n, jid=f"d{n}", **failed): now - 86_400 * (n + 1) for n in range(2)})
    redis.zadd("dead", {b"{no job": now - 10 * 86_400})
    return redis


# --- looking


def test_queues_are_a_table_or_json(filled: redis_py.Redis, call: Call) -> None:
    filled.sadd("paused", "mail")
    assert call("queues").stdout.splitlines() == [
        "queue       size  latency  paused",
        "mail           4    5 min  yes",
        "odd name:*     0    0.0 s  no",
    ]
    lines = [json.loads(line) for line in call("queues", "--json").stdout.splitlines()]
    assert [(line["name"], line["size"], line["paused"]) for line in lines] == [
        ("mail", 4, True), ("odd name:*", 0, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("queues", "no queues"),
        ("retries", "no retries"),
        ("scheduled list", "no scheduled jobs"),
        ("dead", "no dead jobs"),
        ("jobs --set dead --class A", "no dead jobs of class A"),
        ("retries --jid a --jid b", "no retries with jid a, b"),
        (
            "dead list --error O --match x",
            "no dead jobs whose error contains O, whose payload contains x",
        ),
        ("inprogress", "no jobs in progress"),
        ("processes", "no processes"),
    ],
)
def test_an_empty_list_says_so(line: str, told: str, redis: redis_py.Redis, call: Call) -> None:
    """The text goes to stderr, so that a program which reads the list reads nothing."""
    done = call(*line.split())
    assert (done.returncode, done.stdout) == (0, "")
    assert one_line(done.stderr) == told
    done = call(*line.split(), "--json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_empty_queue_says_so(filled: redis_py.Redis, call: Call) -> None:
    assert one_line(call("jobs", "odd name:*").stderr) == "no jobs in queue odd name:*"
    assert one_line(call("jobs", "mail", "--class", "Other").stderr) == "no jobs in queue mail of class Other"
    assert one_line(call("queue", "show", "odd name:*").stderr) == "no jobs in queue odd name:*"


def test_a_queue_is_shown_with_its_next_jobs(filled: redis_py.Redis, call: Call) -> None:
    done = call("queue", "show", "mail", "-n", "2")
    assert done.stdout.splitlines()[-3:] == [
        "enqueued   class  jid  arguments",
        "5 min ago  Send   s0   [0]",
        "5 min ago  Send   s1   [1]",
    ]
    told = json.loads(call("queue", "show", "mail", "--json").stdout)
    assert (told["size"], [one["job"]["jid"] for one in told["next"][:3]]) == (4, ["s0", "s1", "s2"])
    assert told["next"][3] == {"jid": "sha1:98ad36342de0fdf7", "unreadable": "{no\x1b[31m"}


def test_jobs_of_a_queue_are_moved_into_another_one(filled: redis_py.Redis, call: Call) -> None:
    assert call("queue", "move", "mail", "slow", "--arg", "1", "--dry-run").stdout == "1 job would be moved\n"
    done = call("queue", "move", "mail", "slow", "--arg", "1")
    assert (done.returncode, done.stdout) == (0, "1 job moved\n")
    assert one_line(done.stderr) == "no job has been pushed to queue slow before; check the name"
    done = call("queue", "move", "mail", "slow", "--all")
    assert (done.returncode, done.stdout) == (1, "2 jobs moved\n")
    assert "not moved: " in done.stderr
    assert "its payload is not a job; delete it, or leave it" in done.stderr
    assert [json.loads(raw)["args"] for raw in reversed(filled.lrange("queue:slow", 0, -1))] == [[1], [0], [2]]
    assert "the jobs are in queue slow already" in one_line(call("queue", "move", "slow", "slow", "--all").stderr)


def test_a_queue_is_shown_with_all_its_jobs_at_limit_0(redis: redis_py.Redis, call: Call) -> None:
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *(job("Send", n) for n in range(51)))  # more than are shown without a limit
    assert [line.split()[-1] for line in call("queue", "show", "mail", "-n", "0").stdout.splitlines()[4:]] == [
        f"[{n}]" for n in range(51)
    ]
    assert len(json.loads(call("queue", "show", "mail", "-n", "0", "--json").stdout)["next"]) == 51


def test_jobs_of_a_queue_are_listed_newest_first_with_unreadable_ones_among_them(
    filled: redis_py.Redis, call: Call
) -> None:
    assert call("jobs", "mail").stdout.splitlines() == [
        "enqueued   class         jid                    arguments",
        "-          (unreadable)  sha1:98ad36342de0fdf7  {no\\x1b[31m",
        "5 min ago  Send          s2                     [2]",
        "5 min ago  Send          s1                     [1]",
        "5 min ago  Send          s0                     [0]",
    ]
    assert [
        json.loads(line)["job"]["jid"] for line in call("jobs", "mail", "--jid", "s1", "--json").stdout.splitlines()
    ] == ["s1"]
    assert call("jobs", "mail", "--class", "Other").stdout == ""


def test_the_jobs_of_each_set_are_listed(filled: redis_py.Redis, call: Call) -> None:
    for words in (["retries", "list"], ["jobs", "--set", "retries"]):
        done = call(*words, "--limit", "2")
        assert done.stdout.splitlines() == [
            "due     count  queue  class  jid  error                       arguments",
            "in 1 h      2  q      Bad    r0   ValueError: no user?[0m  [0]".replace("?", UNSHOWN),
            "in 1 h      2  q      Bad    r1   ValueError: no user?[0m  [1]".replace("?", UNSHOWN),
        ]
        assert one_line(done.stderr) == "these are the first 2; --limit 0 shows all"
    assert call("scheduled", "list").stdout.split() == [
        "due",
        "queue",
        "class",
        "jid",
        "arguments",
        "in",
        "2",
        "h",
        "q",
        "Later",
        "l0",
        "[]",
    ]
    assert [line.split()[0] for line in call("dead", "list").stdout.splitlines()] == ["died", "1", "2", "10"]


def test_a_job_is_shown_in_full(filled: redis_py.Redis, call: Call) -> None:
    out = call("retries", "show", "r1").stdout
    for line in (r"class          Bad", f"error_message  no user{UNSHOWN}[0m", "args           [1]"):
        assert line in out.splitlines()
    assert "(60 s ago)" in out or "(1 min ago)" in out
    assert json.loads(call("retries", "show", "r1", "--json").stdout)["job"]["jid"] == "r1"


def test_an_unreadable_job_is_shown_escaped_and_matched_by_its_escaped_form(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("dead", {'{"class": "J"}'.encode("utf-16-le"): 1, b"\xff \x1b[31m": 2, job("J"): 3})
    table = call("dead").stdout.splitlines()
    assert table[2].endswith(r"  (unreadable)  sha1:80320621d0dab79d  -      \xff \x1b[31m")
    readable = r'{\x00"\x00c\x00l\x00a\x00s\x00s\x00"\x00:\x00 \x00"\x00J\x00"\x00}\x00'
    assert table[3].endswith(f"  (unreadable)  sha1:007d2f912ad54572  -      {readable}")
    at, jid, shown = call("dead", "show", "--match", r"\x1b[31m").stdout.strip().splitlines()
    assert jid == "jid            sha1:80320621d0dab79d"
    assert at.startswith("at             1970-01-01 00:00:02 UTC ")
    assert shown == r"(unreadable)   \xff \x1b[31m"
    assert call("dead", "delete", "--match", r"\xff").stdout == "1 job deleted\n"
    assert call("dead", "delete", "--match", r'{\x00"').stdout == "1 job deleted\n"
    assert redis.zrange("dead", 0, -1) == [job("J")]


def test_an_unreadable_job_is_named_by_the_digest_in_the_column_jid(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("dead", {b"null": 1, b"12": 2, job("J", None, jid="good"): 3})
    [name] = [line.split()[-3] for line in call("dead", "list").stdout.splitlines() if line.endswith("  null")]
    assert call("dead", "show", name).stdout.endswith("(unreadable)   null\n\n")
    assert call("dead", "retry", "--jid", name).returncode == 1
    assert call("dead", "delete", "--jid", name).stdout == "1 job deleted\n"
    assert redis.zrange("dead", 0, -1) == [b"12", job("J", None, jid="good")]
    assert call("dead", "delete", "--jid", name).returncode == 1


def test_a_payload_enclosed_as_text_is_shown_and_retried_as_the_original(redis: redis_py.Redis, call: Call) -> None:
    half = rb'{"class":"J","args":["\ud800"],"jid":"half","queue":"q","retry_count":3}'
    for raw in (half, b"12", b"\xff"):
        redis.zadd("dead", {enclosure.readable(raw, "q", 1.0): 1})
    listed = call("dead", "list").stdout
    assert "\\ud800" in listed
    assert listed.count("(unreadable)") == 2
    assert r"(original)     \xff" in call("dead", "show", "--match", r"\xff").stdout
    done = call("dead", "retry", "--all")
    assert (done.returncode, done.stdout) == (1, "1 job retried\n")
    assert done.stderr.count("its payload is not a job; delete it, or leave it") == 2
    [back] = redis.lrange("queue:q", 0, -1)
    assert rb'"args":["\ud800"],"jid":"half","queue":"q","retry_count":2' in back
    assert redis.zcard("dead") == 2


def test_a_jid_or_a_queue_that_does_not_exist_is_one_line_and_exit_code_1(filled: redis_py.Redis, call: Call) -> None:
    for words, line in (
        (["retries", "show", "x"], "no job in retries with jid x"),
        (["dead", "show", "--match", "x y"], "no job in dead whose payload contains 'x y'"),
        (["dead", "retry", "--jid", "x"], "no such job in dead: jid x"),
        (["queue", "show", "x y"], "there is no queue 'x y'; `pyworkers queues` lists all"),
        (["queue", "delete", "mail", "--jid", "x"], "no such job in queue mail: jid x"),
        (["jobs", "x"], "there is no queue 'x'; `pyworkers queues` lists all"),
    ):
        done = call(*words)
        assert done.returncode == 1
        assert one_line(done.stderr) == line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["jobs"], "give either a queue's name, or --set"),
        (["jobs", "q", "--set", "dead"], "give either a queue's name, or --set"),
        (["dead", "show"], "give either the jid, or --match"),
        (["dead", "show", "d0", "--match", "x"], "give either the jid, or --match"),
        (["retries", "delete"], "choose the jobs to delete: by --jid, by a filter, or --all"),
        (["retries", "delete", "--all", "--class", "J"], "choose the jobs to delete: by --jid, by a filter, or --all"),
        (["queue", "delete", "mail"], "choose the jobs to delete: by --jid or by a filter; `queue clear` deletes all"),
        (["queue", "move", "mail", "slow"], "choose the jobs to move: by --jid, by a filter, or --all"),
        (["queue", "show", "\udcff"], "a queue's name must be text, and not empty"),
        (["dead", "kill", "--all"], "No such command 'kill'; see 'pyworkers dead --help'"),
        (["dead", "retry", "--jid"], "Option '--jid' requires an argument; see 'pyworkers dead retry --help'"),
        (["queue", "show", "q", "--limit"], "requires an argument; see 'pyworkers queue show --help'"),
        (["enqueue", "--in"], "requires an argument; see 'pyworkers enqueue --help'"),
    ],
    ids=" ".join,
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    filled: redis_py.Redis, call: Call, words: list[str], line: str
) -> None:
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in one_line(done.stderr)


# --- acting


def test_jobs_are_retried_by_jid_by_filter_and_all(filled: redis_py.Redis, call: Call) -> None:
    assert call("retries", "retry", "--jid", "r0").stdout == "1 job retried\n"
    assert call("retries", "retry", "--error", "no user", "--dry-run").stdout == "2 jobs would be retried\n"
    assert filled.zcard("retry") == 2
    assert json.loads(call("retries", "retry", "--error", "no user", "--json").stdout) == {
        "retried": 2, "problems": [],
    }  # fmt: skip
    assert call("scheduled", "retry", "--all").stdout == "1 job retried\n"
    assert filled.llen("queue:q") == 4


def test_a_job_that_cannot_be_retried_is_reported_and_the_others_are_retried(
    filled: redis_py.Redis, call: Call
) -> None:
    done = call("dead", "retry", "--all")
    assert (done.returncode, done.stdout) == (1, "2 jobs retried\n")
    assert (
        one_line(done.stderr)
        == "not retried: jid sha1:6eddbe55f4dc7682: its payload is not a job; delete it, or leave it"
    )
    assert call("dead", "delete", "--match", "{no job").stdout == "1 job deleted\n"
    assert not filled.exists("dead")


def test_jobs_are_killed_and_deleted(filled: redis_py.Redis, call: Call) -> None:
    assert call("retries", "kill", "--match", '"args": [1]').stdout == "1 job killed\n"
    assert filled.zcard("dead") == 4
    assert call("retries", "delete", "--class", "Bad").stdout == "2 jobs deleted\n"
    assert call("queue", "delete", "mail", "--class", "Send", "--dry-run").stdout == "3 jobs would be deleted\n"
    assert call("queue", "delete", "mail", "--class", "Send").stdout == "3 jobs deleted\n"
    assert filled.lrange("queue:mail", 0, -1) == [b"{no\x1b[31m"]


EVERYTHING = {
    "queue clear mail": ("delete all of 4 jobs in queue mail", "queue:mail"),
    "retries clear": ("delete all of 3 jobs in retries", "retry"),
    "retries delete --all": ("delete all of 3 jobs in retries", "retry"),
    "retries kill --all": ("kill all of 3 jobs in retries", "retry"),
    "scheduled clear": ("delete all of 1 job in scheduled", "schedule"),
    "dead clear": ("delete all of 3 jobs in dead", "dead"),
}


@pytest.mark.parametrize("line", EVERYTHING)
def test_changing_all_jobs_needs_yes(filled: redis_py.Redis, call: Call, line: str) -> None:
    question, key = EVERYTHING[line]
    done = call(*line.split())
    assert done.returncode == 2
    assert one_line(done.stderr).startswith(f"to {question}, add --yes; see ")
    assert filled.exists(key)
    assert call(*line.split(), "--yes").returncode == 0
    assert not filled.exists(key)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("queue clear idle", "queue idle is empty: there is nothing to delete\n"),
        ("dead clear", "dead is empty: there is nothing to delete\n"),
        ("retries kill --all", "0 jobs killed\n"),
        ("processes stop --all", "0 processes asked to stop\n"),
    ],
)
def test_no_yes_is_needed_when_there_is_nothing_to_change(
    redis: redis_py.Redis, call: Call, line: str, told: str
) -> None:
    redis.sadd("queues", "idle")
    done = call(*line.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 3), ("y", 0, 0)])
def test_on_a_terminal_the_command_asks_for_confirmation(
    filled: redis_py.Redis, redis_url: str, answer: str, code: int, left: int
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    done = subprocess.run(
        command("retries", "clear", "--redis", redis_url),
        stdin=theirs, capture_output=True, text=True, env=environment(), timeout=30,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert "delete all of 3 jobs in retries? [y/N]" in done.stderr
    assert (done.returncode, filled.zcard("retry")) == (code, left)


def test_a_queue_is_paused_and_resumed(filled: redis_py.Redis, call: Call) -> None:
    assert call("queue", "pause", "mail").stdout == "mail is paused\n"
    assert call("queue", "pause", "mail").stdout == "mail was paused already\n"
    done = call("queue", "pause", "new")
    assert done.returncode == 0
    assert one_line(done.stderr) == "no job has been pushed to queue new yet; check the name"
    assert filled.smembers("paused") == {b"mail", b"new"}
    assert call("queue", "resume", "new").stdout == "new is resumed\n"
    assert call("queue", "resume", "new").stdout == "new was not paused\n"


@pytest.mark.parametrize(
    "line", ["queue show mail", "queue clear mail --yes", "jobs mail", "queue delete mail --jid x", "enqueue -q mail J"]
)
def test_a_queues_key_of_another_type_is_named(line: str, redis: redis_py.Redis, call: Call) -> None:
    redis.set("queue:mail", "no list")
    told = one_line(call(*line.split()).stderr)
    assert told == "WRONGTYPE: queue:mail is a string; rename or delete what some other program wrote there"
    assert redis.get("queue:mail") == b"no list"


@pytest.mark.parametrize(
    "line", ["retries", "jobs --set retries", "retries clear --yes", "retries retry --all", "retries summary"]
)
def test_a_sets_key_of_another_type_is_named(line: str, redis: redis_py.Redis, call: Call) -> None:
    redis.rpush("retry", "no set")
    done = call(*line.split())
    told = one_line(done.stderr)
    assert (done.returncode, told.startswith("WRONGTYPE: retry is a list; ")) == (1, True)


def test_the_other_queues_are_listed_when_one_key_is_of_another_type(filled: redis_py.Redis, call: Call) -> None:
    filled.sadd("queues", "broken")
    filled.set("queue:broken", "no list")
    done = call("queues")
    assert (done.returncode, one_line(done.stderr)) == (1, "key queue:broken is a string, and must be a list")
    assert "odd name:*" in done.stdout


# --- for people


def read_to_its_end(terminal: int) -> str:
    shown = b""
    try:
        while some := os.read(terminal, 65_536):
            shown += some
    except OSError:  # a terminal raises it when its other end is closed
        pass
    os.close(terminal)
    return shown.decode()


def test_on_a_terminal_lines_are_cut_to_its_width_and_in_a_pipe_they_are_whole(
    filled: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    filled.lpush("queue:long", job("J", "x" * 500))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("jobs", "long", "--redis", redis_url), stdout=theirs, env=environment(COLUMNS="60"), cwd=tmp_path
    )
    os.close(theirs)
    lines = read_to_its_end(ours).splitlines()
    assert process.wait(20) == 0
    assert max(map(len, lines)) == 60
    assert lines[1].endswith("xxx…")


@pytest.mark.parametrize(
    ("jobs", "terminal", "barred"), [(5_000, True, True), (4_999, True, False), (5_000, False, False)]
)
def test_a_change_of_many_jobs_shows_a_bar_on_a_terminal_and_never_on_stdout(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path, jobs: int, terminal: bool, barred: bool
) -> None:
    redis.zadd("dead", {job("J", n): n for n in range(jobs)})
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        command("dead", "delete", "--class", "Nobody", "--yes", "--json", "--redis", redis_url), cwd=tmp_path,
        env=environment(TERM="xterm"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    told = read_to_its_end(ours)
    assert "100%" in told if barred else not told
    out, _ = process.communicate(timeout=20)
    assert json.loads(out) == {"deleted": 0, "problems": []}


def test_durations_are_shown_with_their_unit() -> None:
    told = [duration(seconds) for seconds in (0, 4.26, 42, 90, 7_200, 200_000)]
    assert told == ["0.0 s", "4.3 s", "42 s", "2 min", "2 h", "2 d"]
    assert when(None) == "-"
    assert when(time.time() + 7_300) == "in 2 h"
    assert when(time.time() - 100_000) == "1 d ago"
    assert (cut("abcdef", 6), cut("abcdef", 5)) == ("abcdef", "abcd…")


SCORES = ["inf", "-inf", "-1e300", "-5", "0", "5e-324", "1e17", "1.7e308"]


@pytest.mark.parametrize("name", ["retry", "schedule", "dead"])
def test_entries_of_any_score_are_shown_and_are_json(name: str, redis: redis_py.Redis, call: Call) -> None:
    redis.zadd(name, {job("Odd", score, jid=f"of {score}"): float(score) for score in SCORES})
    group = {"retry": "retries", "schedule": "scheduled", "dead": "dead"}[name]
    listed = call(group, "list")
    assert (listed.returncode, listed.stderr, len(listed.stdout.splitlines())) == (0, "", 1 + len(SCORES))
    assert max(map(len, listed.stdout.splitlines())) < 120

    told = [json.loads(line, parse_constant=pytest.fail) for line in call(group, "list", "--json").stdout.splitlines()]
    assert {one["job"]["jid"]: one["at"] for one in told} == {
        f"of {score}": score if "inf" in score else float(score) for score in SCORES
    }
    for score in SCORES:
        shown = call(group, "show", f"of {score}")
        assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize("number", [b"inf", b"nan", b"-1e999", b"9" * 400, b"soon"])
def test_a_process_with_odd_numbers_in_its_record_is_listed(number: bytes, redis: redis_py.Redis, call: Call) -> None:
    info = b'{"version": "9.9", "queues": ["q"], "concurrency": %s, "started_at": %s}' % (b"1", number)
    redis.sadd("processes", "odd:1:a")
    redis.hset("odd:1:a", mapping={"info": info, "busy": number, "beat": number, "rss": number, "concurrency": number,
                               "cpu_share": number})  # fmt: skip
    redis.hset("odd:1:a:work", "t", b'{"queue": "q", "payload": "{}", "run_at": %s}' % number)
    for words in (["processes"], ["processes", "--json"]):
        done = call(*words)
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout, parse_constant=pytest.fail)["cpu_share"] is None


# --- filters, times and copies


def test_jobs_are_listed_by_tag_argument_queue_and_time(redis: redis_py.Redis, call: Call) -> None:
    now = time.time()
    redis.zadd("retry", {
        job("Mail", 42, jid="eu", queue="mail", tags=["eu"]): now - 7_200,
        job("Mail", 43, jid="us", queue="mail", tags=["us"]): now - 60,
        job("Mail", 42, jid="other", queue="slow"): now + 3_600,
    })  # fmt: skip

    def found(*words: str) -> list[str]:
        done = call("retries", "list", "--json", *words)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["job"]["jid"] for line in done.stdout.splitlines()]

    assert found("--tagged", "eu") == ["eu"]
    assert found("--arg", "42") == ["eu", "other"]
    assert found("--arg", "42", "--of-queue", "slow") == ["other"]
    assert found("--since", "2m") == ["us", "other"]
    assert found("--since", "3h", "--until", "1h") == ["eu"]
    assert found("--since", "+30min") == ["other"]
    assert found("--until", str(now - 3_000)) == ["eu"]
    day = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - 600))
    assert found("--since", day) == found("--since", f"{day}Z") == found("--since", f"{day}+00:00") == ["us", "other"]


@pytest.mark.parametrize("value", ["yesterday", "2w", "", "2026-13-01"])
def test_a_time_that_is_none_is_refused_with_the_forms(value: str, call: Call) -> None:
    done = call("retries", "list", "--since", value)
    assert done.returncode == 2
    assert "2h (ago), +2h (from now), 2026-11-23T10:00 (in UTC) or epoch seconds" in one_line(done.stderr)


def test_retries_wait_for_another_time(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("retry", {job("A", jid="a"): 1.0, job("B", jid="b"): 2.0})
    assert call("retries", "reschedule", "--class", "A", "--at", "4000000000", "--dry-run").stdout == (
        "1 job would be rescheduled\n"
    )
    assert call("retries", "reschedule", "--class", "A", "--at", "4000000000").stdout == "1 job rescheduled\n"
    assert [score for _, score in redis.zrange("retry", 0, -1, withscores=True)] == [2.0, 4e9]
    assert call("retries", "reschedule", "--class", "A").returncode == 2


def test_the_summary_of_a_sample_says_so(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("dead", {job("J", number, error_class="E"): number for number in range(2_500)})
    done = call("dead", "summary", "--sample")
    assert "J" in done.stdout
    assert one_line(done.stderr) == "estimated from 2000 of 2500 jobs; without --sample all are counted"
    redis.zremrangebyrank("dead", 0, -100)
    assert call("dead", "summary", "--sample").stderr == ""


def test_failures_of_retries_and_dead_jobs_are_counted_together(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("retry", {job("J", 1, error_class="E"): 1})
    redis.zadd("dead", {job("J", 2, error_class="E"): 1})
    [told] = [json.loads(line) for line in call("failures", "--json").stdout.splitlines()]
    assert (told["class"], told["error_class"], told["count"]) == ("J", "E", 2)


def test_the_history_is_a_table_or_json(redis: redis_py.Redis, call: Call) -> None:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    redis.set(f"stat:processed:{today}", 12)
    redis.hset(f"pyworkers:day:{today}", mapping={"mail|processed": 5, "mail|failed": 1})
    assert call("history", "--days", "1").stdout.splitlines() == [
        "day         processed  failed  queue",
        f"{today}         12       0  (all)",
        "                    5       1  mail",
    ]
    [told] = [json.loads(line) for line in call("history", "--days", "1", "--json").stdout.splitlines()]
    assert told == {
        "date": today, "processed": 12, "failed": 0, "queues": {"mail": {"processed": 5, "failed": 1}},
    }  # fmt: skip


def test_a_job_is_pushed_again_with_other_arguments(redis: redis_py.Redis, call: Call) -> None:
    redis.zadd("dead", {job("J", 1, jid="first", queue="mail", error_class="E"): 1})
    jid = call("job", "again", "first", "--args", "[2]", "--kwargs", '{"a": 1}').stdout.strip()
    [pushed] = [json.loads(raw) for raw in redis.lrange("queue:mail", 0, -1)]
    assert (pushed["jid"], pushed["args"], pushed["kwargs"]) == (jid, [2], {"a": 1})
    assert "error_class" not in pushed
    assert redis.zcard("dead") == 1
    done = call("job", "again", "nowhere")
    assert (done.returncode, "no job with jid nowhere" in done.stderr) == (1, True)
    assert call("job", "again", "first", "--args", "{}").returncode == 2
