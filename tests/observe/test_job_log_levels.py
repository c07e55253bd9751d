"""The log lines of single jobs: their level, their fields, their colours."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from apps import own_app
from daemon import Daemon, command, environment
from waiting import eventually

from goworkers_py import EnqueueOptions
from goworkers_py.observe.job_log_levels import JobLevels, level_named

JOBS = """
import logging
import goworkers_py as workers

log = logging.getLogger("myapp")

@workers.job(queue="q")
def chat(name):
    log.debug("debug of %s", name)
    log.info("info of %s", name, extra={"order": 42, "jid": "forged", "who": {"é": [1]}})
    log.error("error of %s", name)
"""


def chat(redis_url: str, tmp_path: Path, *flags: str) -> str:
    with own_app(redis_url) as app, Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", *flags) as daemon:
        levels = {"loud": "debug", "quiet": "ERROR", "odd": "shout", "last": 7}
        app.client_middleware(lambda job: {**job, "log_level": levels.get(job["args"][0])})
        for name in ("usual", *levels):
            app.enqueue("q", "chat", [name])
        assert eventually(lambda: daemon.output.count("error of ") == 1 + len(levels)), daemon.output
        assert daemon.stop() == 0
        return daemon.output


def test_a_job_logs_at_the_level_in_its_payload(redis_url: str, tmp_path: Path) -> None:
    told = chat(redis_url, tmp_path)
    lines = re.findall(r"(debug|info|error) of (\w+)", told)
    # Job by job: on a busy machine a job may overtake those that go back.
    assert {job: [level for level, of in lines if of == job] for _, job in lines} == {
        "usual": ["info", "error"],
        "loud": ["debug", "info", "error"],
        "quiet": ["error"],
        "odd": ["info", "error"],
        "last": ["info", "error"],
    }
    assert told.count(" INFO: start\n") == told.count(" INFO: done\n") == 4


def test_fields_that_a_job_adds_are_in_its_line(redis_url: str, tmp_path: Path) -> None:
    told = [json.loads(line) for line in chat(redis_url, tmp_path, "--log-format", "json").splitlines()]
    (line,) = [line for line in told if line["msg"] == "info of usual"]
    assert (line["order"], line["who"], line["class"], line["lvl"]) == (42, {"é": [1]}, "chat", "INFO")
    assert re.fullmatch("[0-9a-f]{24}", line["jid"])
    (done, *_) = [line for line in told if line["msg"] == "done"]
    assert isinstance(done["elapsed"], float)
    assert {"ts", "pid", "thread", "queue"} < set(done)


FAILING = """
import goworkers_py as workers

def helper(text):
    raise ValueError(text)

@workers.job("Failing", queue="q")
def failing(text):
    try:
        helper("the cause")
    except ValueError as error:
        raise LookupError(text) from error

@workers.job("Failing::Async", queue="q")
async def failing_async(text):
    helper(text)

class Link:
    def call(self, queue, message, call_next):
        return call_next()

workers.middleware.append(Link())
"""


@pytest.mark.parametrize("job_class", ["Failing", "Failing::Async"])
def test_a_failed_run_is_logged_once_from_the_jobs_frames_on(job_class: str, redis_url: str, tmp_path: Path) -> None:
    forged = "no\n2026-11-22T01:41:24.287Z pid=1 ERROR: forged\x1b[2J"
    outputs = []
    with own_app(redis_url) as app:
        for flags in ((), ("--log-format", "json")):
            with Daemon(tmp_path, redis_url, FAILING, "-q", "q=1", *flags) as daemon:
                app.enqueue_with_options("q", job_class, [forged], EnqueueOptions(jid="a\nb"))
                daemon.says("ended in failure")
                assert daemon.stop() == 0
                outputs.append(daemon.output)
    plain, told = outputs[0], [json.loads(line) for line in outputs[1].splitlines()]
    assert plain.count("  Traceback (most recent call last):") == (2 if job_class == "Failing" else 1)
    assert "goworkers_py" not in "".join(line for line in plain.splitlines() if line.startswith("  "))
    assert "asyncio" not in plain
    assert all(re.match(r"(\d{4}-\d\d-\d\dT|  |$)", line) for line in plain.splitlines())
    assert re.search(r"ERROR: failed: \w+: no\\n2026-[^\n]*\\x1b\[2J; to be retried", plain)
    assert "\x1b" not in plain
    assert not re.search(r"^\S+ pid=1 ", plain, re.MULTILINE)
    [line] = [line for line in told if "traceback" in line]
    assert (line["error_class"], line["error_message"], line["retry_count"], line["lvl"], line["jid"]) == (
        "LookupError" if job_class == "Failing" else "ValueError", forged, 0, "ERROR", "a\nb",
    )  # fmt: skip
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z$", line["next_retry_at"])
    assert "in helper" in line["traceback"]


@pytest.mark.parametrize(
    ("wish", "level"),
    [("debug", 10), ("WARN", 30), ("warning", 30), ("fatal", 50), ("shout", None), (3, None), (None, None)],
)
def test_a_level_is_a_word_of_sidekiq(wish: object, level: int | None) -> None:
    assert level_named(wish) == level


def test_a_job_logs_at_the_level_in_its_code(redis_url: str, tmp_path: Path) -> None:
    jobs = JOBS.replace('queue="q"', 'queue="q", log_level="debug"')
    with own_app(redis_url) as app, Daemon(tmp_path, redis_url, jobs, "-q", "q=1") as daemon:
        app.enqueue("q", "chat", ["usual"])
        app.enqueue_with_options("q", "chat", ["quiet"], EnqueueOptions(log_level="error"))
        daemon.says("error of quiet")
        assert daemon.stop() == 0
    lines = re.findall(r"(debug|info|error) of (\w+)", daemon.output)
    assert lines == [("debug", "usual"), ("info", "usual"), ("error", "usual"), ("error", "quiet")]


def in_another_thread(ask: Callable[[], bool]) -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask).result()


def test_a_job_with_a_low_log_level_does_not_change_other_threads() -> None:
    logger = logging.getLogger("test_levels")
    logger.setLevel(logging.INFO)
    levels = JobLevels()
    levels.configure([logger])
    debug = logging.makeLogRecord({"levelno": logging.DEBUG})
    with levels.during(logging.DEBUG), levels.during(logging.DEBUG):
        assert levels.wanted(debug)
        assert not in_another_thread(lambda: levels.wanted(debug))
        with levels.during(logging.ERROR):
            assert logger.level == logging.DEBUG
            assert not levels.wanted(debug)
    assert logger.level == logging.INFO


@pytest.mark.server
@pytest.mark.parametrize(
    ("opened", "changes", "coloured"),
    [
        (pty.openpty, {"TERM": "xterm"}, True),
        (pty.openpty, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (pty.openpty, {"TERM": "dumb"}, False),
        (os.pipe, {"TERM": "xterm"}, False),
    ],
    ids=["terminal", "NO_COLOR", "dumb", "pipe"],
)
def test_there_are_colours_only_on_a_terminal(
    opened: Callable[[], tuple[int, int]], changes: dict[str, str], coloured: bool, tmp_path: Path
) -> None:
    ours, theirs = opened()
    try:
        done = subprocess.Popen(
            command("run", "--allow-no-jobs", "--redis", "redis://127.0.0.1:1", "-t", "0"),
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=tmp_path,
            env=environment(**{"NO_COLOR": "", **changes}),
        )  # fmt: skip
        told = b""
        while b"Redis cannot serve" not in told:
            told += os.read(ours, 4096)
        done.terminate()
        done.wait()
    finally:
        os.close(theirs)
        os.close(ours)
    assert (b"\x1b[31mERROR\x1b[0m" in told) == coloured
    assert (b"\x1b" in told) == coloured


def test_a_file_has_no_colours_and_takes_lines_of_several_processes(redis_url: str, tmp_path: Path) -> None:
    with Daemon(tmp_path, redis_url, JOBS, "--processes", "2", "--logfile", "log", changes={"TERM": "xterm"}) as daemon:
        log = tmp_path / "log"
        assert eventually(lambda: log.exists() and log.read_text().count("; stop it with TERM") == 2)
        assert daemon.stop() == 0
    assert "\x1b" not in log.read_text()
    assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in log.read_text().splitlines())


def test_a_new_configuration_shows_at_the_end_of_a_change_by_a_person() -> None:
    levels, logger = JobLevels(), logging.getLogger("of.this.test")
    levels.configure([logger])
    levels.reconfigure(logging.WARNING)
    assert logger.level == logging.WARNING
    levels.change(logging.DEBUG)
    levels.reconfigure(logging.ERROR)
    assert logger.level == logging.DEBUG
    levels.change(None)
    assert logger.level == logging.ERROR
    with levels.during(logging.DEBUG):
        levels.reconfigure(logging.INFO)
        assert logger.level == logging.DEBUG
    assert logger.level == logging.INFO
