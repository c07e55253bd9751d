"""Sidekiq's own pages over a fleet with Python processes, in a real browser: what they show, what their buttons do."""

from __future__ import annotations

import json
import re
import time

import pytest
import redis as redis_py
from browser import Browser
from programs import PyWorkers, Ruby, entries, runs, sidekiq_version, skip_before_sidekiq
from waiting import eventually

from goworkers_py import App, EnqueueOptions

# The first one starts the browser.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

ARGS = [{"name": "Zoë <b>", "big": 12345678901234567890123}, 7]
SHOWN_ARGS = '{"name"=>"Zoë <b>", "big"=>12345678901234567890123}, 7'
FAILED = EnqueueOptions(retry=5, backtrace=True)


# By their headings and not by their classes, which are others in each version of Sidekiq.
PROCESSES = "//table[.//th = 'Name']//tr"
WORK = "//table[.//th = 'TID']//tr[td]"


def processes(browser: Browser) -> list[str]:
    browser.open("/busy")
    return browser.texts(f"{PROCESSES}/td[1]")


def process(tag: str) -> str:
    return f"{PROCESSES}[.//span = '{tag}']"


def row(word: str) -> str:
    """Of the entry with that argument, in the list of a set."""
    return f"//div[contains(@class, 'table_container')]//tr[.//div[@class = 'args'][contains(., '{word}')]]"


def link(word: str, page: str) -> str:
    """To the page of that entry. Sidekiq 8 has two in a row."""
    return f"({row(word)}//a[contains(@href, '{page}/')])[1]"


def press(browser: Browser, page: str, word: str, button: str) -> None:
    """Chooses that entry in the list and clicks on a button under it."""
    browser.open(page)
    browser.click(f"{row(word)}//input[@type = 'checkbox']")
    browser.click(f"//form[.//table]//input[@value = '{button}']")


def test_busy_shows_python_beside_ruby_and_quiet_and_stop_act_on_it(
    browser: Browser, redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers, python: App
) -> None:
    with (
        ruby.sidekiq("rb"),
        pyworkers("py=1", tag="one", log_level="info") as one,
        pyworkers("py=1", "more=4", tag="two", log_level="info") as two,
    ):
        for daemon in (one, two):
            daemon.ready()
            python.enqueue("py", "WaitingJob", ARGS)
        assert eventually(lambda: len(redis.keys("*:workers")) == 2)
        assert eventually(lambda: len(processes(browser)) == 3), browser.text
        first, second = browser.texts(f"{process('one')}/td[1]"), browser.texts(f"{process('two')}/td[1]")
        for told, daemon, queues in ((first[0], one, "py"), (second[0], two, "py[,;] more")):
            assert f":{daemon.process.pid} " in told
            assert " python " in told
            # Of another version than the page's, which Sidekiq shows since 7.
            assert re.search(rf" Queues: {queues}( Version: .*)?$", told)
        threads_and_busy = [
            browser.texts(f"{process(tag)}//td[{column}]") for tag in ("one", "two") for column in (4, 5)
        ]
        assert threads_and_busy == [["1"], ["1"], ["5"], ["1"]]
        jobs = browser.texts(WORK)
        assert len(jobs) == 2
        for told in jobs:
            assert re.search(r" worker:py:1 [0-9a-f]{24} py WaitingJob ", told)
            assert SHOWN_ARGS in told

        browser.click(f"{process('one')}//button[@name = 'quiet']")
        one.says("quiet: no new jobs are fetched")
        assert eventually(lambda: "quiet" in " ".join(processes(browser)))
        quiet = browser.texts(f"{process('quiet')}/td[1]")
        assert [told.split(" ")[1] for told in quiet] == ["one"]

        browser.click(f"{process('two')}//button[@name = 'stop']")
        two.says("stopping: running jobs have")
        redis.set("open", 1)
        assert two.wait() == 0
        assert eventually(lambda: len(runs(redis)) == 2)
        assert eventually(lambda: len(processes(browser)) == 2), browser.text
        assert not browser.texts(process("two"))
        assert eventually(lambda: processes(browser) and not browser.texts(WORK))


def fail_three(redis: redis_py.Redis, python: App, options: EnqueueOptions, end: str) -> None:
    for word in ("again", "away", "elsewhere"):
        python.enqueue_with_options("py", "FailingJob", [word, *ARGS], options)
    assert eventually(lambda: redis.zcard(end) == 3)
    if end == "retry":
        put_off_retries(redis)


def put_off_retries(redis: redis_py.Redis) -> None:
    """None is retried by itself while the pages are looked at."""
    redis.zadd("retry", dict.fromkeys(redis.zrange("retry", 0, -1), time.time() + 3_600), xx=True)


def tells_the_failure(browser: Browser, page: str) -> None:
    """In the list, and with its backtrace on the page of the entry, which is open afterwards."""
    browser.open(page)
    (told,) = browser.texts(row("again"))
    for part in ("py FailingJob", f'"again", {SHOWN_ARGS}', "ValueError: failed <on purpose> é"):
        assert part in told
    browser.click(link("again", page))
    for part in ("FailingJob", "ValueError", "failed <on purpose> é", "jobs.py:", "in `deeper'", SHOWN_ARGS):
        assert part in browser.text


def args(redis: redis_py.Redis, name: str) -> list[str]:
    return sorted(entry["args"][0] for entry in entries(redis, name))


def test_retries_shows_failures_of_python_and_its_buttons_do_what_they_say(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    with pyworkers("py"):
        fail_three(redis, python, FAILED, "retry")
        tells_the_failure(browser, "/retries")
        browser.click("//input[@value = 'Retry Now']")
        assert eventually(lambda: [run["args"][0] for run in runs(redis, "raised")].count("again") == 2)
        assert eventually(lambda: redis.zcard("retry") == 3)
        put_off_retries(redis)
        press(browser, "/retries", "away", "Delete")
        press(browser, "/retries", "elsewhere", "Kill")
        assert eventually(lambda: (args(redis, "retry"), args(redis, "dead")) == (["again"], ["elsewhere"]))
        assert "ValueError: failed <on purpose> é" in browser.open("/morgue")
        assert len(runs(redis, "raised")) == 4


def test_a_job_with_keyword_arguments_that_do_not_fit_is_shown_and_retried_with_them(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    python.enqueue_with_options("py", "TypedJob", ["again", *ARGS], EnqueueOptions(), {"pdf": True})
    with pyworkers("py"):
        (before,) = eventually(lambda: entries(redis, "retry"))
        put_off_retries(redis)
        assert "ArgumentsDoNotFit" in browser.open("/retries")
        browser.click(link("again", "/retries"))
        assert f'"again", {SHOWN_ARGS}' in browser.text
        browser.click("//input[@value = 'Retry Now']")
        (after,) = eventually(lambda: [job for job in entries(redis, "retry") if "retried_at" in job])
        put_off_retries(redis)
        press(browser, "/retries", "again", "Kill")
        assert eventually(lambda: args(redis, "dead") == ["again"])
        assert "ArgumentsDoNotFit" in browser.open("/morgue")
    assert before["kwargs"] == after["kwargs"] == entries(redis, "dead")[0]["kwargs"] == {"pdf": True}
    assert before["unfit_since"] == after["unfit_since"]


def test_an_iterable_job_of_python_is_shown_with_its_cursor(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    python.enqueue("py", "SteppingJob", [])
    with pyworkers("py"):
        assert eventually(lambda: redis.zcard("retry"))
        put_off_retries(redis)
    assert "SteppingJob" in browser.open("/retries")
    if sidekiq_version() >= (8, 1, 4):
        assert "cursor=41; exec=1; rt=" in browser.text
    browser.click("(//td//a[contains(@href, '/retries/')])[1]")
    assert "failed between two steps" in browser.text


def test_metrics_shows_the_runs_of_python(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    skip_before_sidekiq(7, "has no such page")
    with pyworkers("py"):
        python.enqueue("py", "PythonJob", [])
        python.enqueue_with_options("py", "FailingJob", [], EnqueueOptions(retry=False))
        assert eventually(lambda: "FailingJob 0 1 " in browser.open("/metrics"))
        assert "PythonJob 1 0 " in browser.text
        assert "PythonJob" in browser.open("/metrics/PythonJob")


def test_dead_shows_failures_of_python_and_its_buttons_do_what_they_say(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    with pyworkers("py"):
        fail_three(redis, python, EnqueueOptions(retry=0, backtrace=True), "dead")
        tells_the_failure(browser, "/morgue")
        press(browser, "/morgue", "again", "Retry Now")
        assert eventually(lambda: [run["args"][0] for run in runs(redis, "raised")].count("again") == 2)
        assert eventually(lambda: redis.zcard("dead") == 3)
        press(browser, "/morgue", "away", "Delete")
        assert eventually(lambda: args(redis, "dead") == ["again", "elsewhere"])
        assert len(runs(redis, "raised")) == 4


def test_scheduled_jobs_of_python_can_be_run_at_once_and_deleted(
    browser: Browser, redis: redis_py.Redis, pyworkers: PyWorkers, python: App
) -> None:
    with pyworkers("py"):
        for word in ("now", "never"):
            python.enqueue_in("py", "PythonJob", 3600, [word, *ARGS])
        browser.open("/scheduled")
        (told,) = browser.texts(row("now"))
        assert f'py PythonJob "now", {SHOWN_ARGS}' in told
        press(browser, "/scheduled", "now", "Add to queue")
        (run,) = eventually(lambda: runs(redis))
        assert run["args"] == json.loads(json.dumps(["now", *ARGS]))
        press(browser, "/scheduled", "never", "Delete")
        assert eventually(lambda: not redis.exists("schedule"))
        assert "No scheduled jobs were found" in browser.text


def test_a_waiting_job_of_python_is_shown_and_deleted_in_its_queue(
    browser: Browser, redis: redis_py.Redis, python: App
) -> None:
    python.enqueue("py", "PythonJob", ["stays"])
    python.enqueue("py", "PythonJob", ["goes", *ARGS])
    assert "py 2" in browser.open("/queues")
    assert SHOWN_ARGS in browser.open("/queues/py")
    browser.click("//tr[contains(., '\"goes\"')]//input[@name = 'delete']")
    assert eventually(lambda: redis.llen("queue:py") == 1)
    assert json.loads(redis.lindex("queue:py", 0))["args"] == ["stays"]
