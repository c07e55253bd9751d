"""`pyworkers enqueue`: what it pushes, what it refuses, and what it tells."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, queue
from calls import JOBS, Call, one_line
from daemon import Daemon, pyworkers

from goworkers_py.admin.inspector import Inspector

NOWHERE = "redis://127.0.0.1:1/0"


def test_enqueue_prints_the_jid_of_the_pushed_job(redis_url: str, redis: redis_py.Redis) -> None:
    done = pyworkers("enqueue", "--redis", redis_url, "-q", "q", "Billing::InvoiceJob", '[42, {"pdf": true}, "ü"]')
    assert done.returncode == 0
    (pushed,) = map(json.loads, queue(redis))
    assert done.stdout == f"{pushed['jid']}\n"
    assert pushed["class"] == "Billing::InvoiceJob"
    assert pushed["args"] == [42, {"pdf": True}, "ü"]
    assert pushed["retry"] is True


def test_enqueue_without_a_queue_and_arguments_uses_queue_default_and_no_arguments(
    call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    assert call("enqueue", "--redis", redis_url, "J").returncode == 0
    (pushed,) = map(json.loads, queue(redis, "default"))
    assert (pushed["args"], pushed["queue"]) == ([], "default")


def test_enqueue_writes_retry_into_the_payload(call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    for flag in ("3", "0", "false", "True"):
        assert call("enqueue", "--redis", redis_url, "-q", "q", "--retry", flag, "J").returncode == 0
    assert [json.dumps(retry) for retry in fields(queue(redis), "retry")] == ["3", "0", "false", "true"]


def test_enqueue_takes_queue_and_options_from_the_jobs_code_unless_flags_override_them(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    first = ["enqueue", "--redis", redis_url, "-r", "jobs"]
    for arguments in (["Quick"], ["-q", "other", "--retry", "false", "Quick"]):
        assert pyworkers(*first, *arguments, cwd=here).returncode == 0
    retries = {name: fields(queue(redis, name), "retry") for name in ("q", "other")}
    assert retries == {"q": [3], "other": [False]}


def test_enqueue_refuses_arguments_that_do_not_fit_the_jobs_function(
    here: Path, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    with (here / "jobs.py").open("a") as jobs:
        jobs.write('@workers.job("Two")\ndef two(one, other): ...\n')
    first = ["enqueue", "--redis", redis_url, "-r", "jobs", "-q", "q", "--in", "90"]
    done = call(*first, "Two", "[1]")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr) == "Two cannot be called with these arguments: missing a required argument: 'other'"
    assert call(*first, "Two", "[1, 2]").returncode == 0
    assert redis.zcard("schedule") == 1


def test_enqueue_takes_keyword_arguments_and_the_json_of_typed_ones(
    here: Path, call: Call, redis_url: str, redis: redis_py.Redis
) -> None:
    with (here / "jobs.py").open("a") as jobs:
        jobs.write("import datetime\n@workers.job('Typed')\ndef typed(day: datetime.date, *, pdf=False): ...\n")
    first = ["enqueue", "--redis", redis_url, "-r", "jobs", "-q", "q"]
    assert call(*first, "Typed", '["2026-01-31"]', "--kwargs", '{"pdf": true}').returncode == 0
    assert call("enqueue", "--redis", redis_url, "-q", "q", "Foreign", "--kwargs", '{"pdf": 1}').returncode == 0
    typed, foreign = map(json.loads, queue(redis))
    assert (typed["args"], typed["kwargs"]) == (["2026-01-31"], {"pdf": True})
    assert (foreign["args"], foreign["kwargs"]) == ([], {"pdf": 1})
    listed = call("jobs", "q", "--redis", redis_url).stdout
    assert '["2026-01-31"] {"pdf": true}' in listed
    for wrong, told in (
        (["Typed", '["soon"]'], "Typed: day: is 'soon', not a date, such as '2026-01-31'"),
        (["Typed", "[]", "--kwargs", "[1]"], "--kwargs must be a JSON object, such as '{\"pdf\": true}', is '[1]'"),
    ):
        done = call(*first, *wrong)
        assert (done.returncode, one_line(done.stderr).partition("; see")[0]) == (2, told)


def test_enqueue_goes_through_the_client_links_of_the_configuration(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    (here / "links.py").write_text("def stamp(job):\n    return None if job['args'] == [0] else job | {'stamp': 'x'}\n")
    (here / "conf.ini").write_text("[middleware]\nclient = links:stamp\n")
    first = ["enqueue", "--redis", redis_url, "-c", "conf.ini", "-q", "q", "J"]
    assert pyworkers(*first, "[1]", cwd=here).returncode == 0
    done = pyworkers(*first, "[0]", cwd=here)
    assert (done.returncode, one_line(done.stderr)) == (1, "not pushed: a client link stopped the push")
    assert fields(queue(redis), "stamp") == ["x"]


def test_configure_in_a_module_does_not_override_the_command_line(
    here: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    (here / "jobs.py").write_text(
        f"import goworkers_py as workers\nworkers.configure(redis={NOWHERE!r})\n"
        "@workers.job('J', queue='q')\ndef run(): ...\n"
    )
    assert pyworkers("enqueue", "--redis", redis_url, "-r", "jobs", "J", cwd=here).returncode == 0
    assert fields(queue(redis), "class") == ["J"]


NO_PROCESS = (
    "no live process is known to fetch from queue q, so the job waits there (go-workers does not say from which "
    "queues it fetches); to run it: pyworkers run -q q -r MODULE"
)


def test_enqueue_warns_when_no_live_process_fetches_from_the_queue(
    here: Path, redis_url: str, redis: redis_py.Redis, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is pushed all the same."""

    def told(*flags: str) -> str:
        done = call("enqueue", "--redis", redis_url, "-r", "jobs", *flags, "Quick")
        assert (done.returncode, len(done.stdout)) == (0, 25)
        return done.stderr

    assert one_line(told()) == NO_PROCESS
    assert redis.llen("queue:q") == 1
    with Daemon(here, redis_url, JOBS, "-q", "q") as daemon:
        daemon.ready()
        with monkeypatch.context() as patch:
            patch.setattr(Inspector, "processes", lambda _: pytest.fail("the whole fleet was read"))
            assert told("--retry", "true") == ""  # with a number, the fleet would be read to look for go-workers2
        assert told() == ""
        daemon.kill()
    assert one_line(told()) == NO_PROCESS, "a process on this machine is known to be dead at once"
    redis.sadd("processes", "rails:1:abc")
    redis.hset("rails:1:abc", mapping={"info": json.dumps({"queues": ["q"], "concurrency": 5}), "beat": time.time()})
    assert told() == "", "Sidekiq fetches from it"


def test_enqueue_refuses_a_class_that_the_named_modules_do_not_know(
    here: Path, redis_url: str, redis: redis_py.Redis, call: Call
) -> None:
    done = call("enqueue", "--redis", redis_url, "-r", "jobs", "Quik")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr).startswith("the modules of -r register no job 'Quik'; did you mean 'Quick'?")
    assert not redis.exists("queue:default")
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\n[queue:any]\nhandler = jobs:quick\n")
    for arguments in (["-c", "conf.ini"], ["-c", "conf.ini", "-r", "jobs", "-q", "any"]):
        assert call("enqueue", "--redis", redis_url, *arguments, "OfRuby").returncode == 0


def test_enqueue_pushes_an_unknown_class_where_the_file_names_the_modules_and_hints_at_a_near_one(
    here: Path, redis_url: str, redis: redis_py.Redis, call: Call
) -> None:
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\n")
    for job_class, hinted in (("Quik", True), ("Billing::InvoiceJob", False)):
        done = call("enqueue", "--redis", redis_url, "-c", "conf.ini", job_class)
        assert done.returncode == 0
        hint = f"no job '{job_class}' is registered here; did you mean 'Quick'? It is pushed all the same"
        assert (hint in done.stderr) == hinted
    assert fields(queue(redis, "default"), "class") == ["Quik", "Billing::InvoiceJob"]


def test_enqueue_without_a_server_names_its_address_and_says_what_to_do(call: Call) -> None:
    done = call("enqueue", "J", "--redis", NOWHERE)
    assert done.returncode == 75
    told = one_line(done.stderr)
    assert (
        f"; start the server of {NOWHERE}, or set another address with PYWORKERS_BROKER, --broker or configure" in told
    )


@pytest.mark.parametrize("command", [["enqueue", "J"], ["stats"]], ids=" ".join)
@pytest.mark.parametrize(
    ("partition", "setting"),
    [
        ("own-one", "`broker` in [partition:own-one], or PYWORKERS_PARTITION_OWN_ONE_BROKER: redis"),
        ("shared", "PYWORKERS_BROKER, --broker or configure(broker=...): redis"),
        ("main", "PYWORKERS_BROKER, --broker or configure(broker=...): redis"),
    ],
)
def test_the_advice_for_a_partition_names_what_sets_its_broker(
    command: list[str], partition: str, setting: str, here: Path, call: Call
) -> None:
    (here / "conf.ini").write_text(
        f"[pyworkers]\nbroker = {NOWHERE}\n[partition:own-one]\nbroker = {NOWHERE}\nqueues = q\n"
        "[partition:shared]\nnamespace = other\nqueues = q\n"
    )
    done = call(*command, "-c", "conf.ini", "--partition", partition)
    assert done.returncode == 75
    assert f"; start the server of {NOWHERE}, or set another address with {setting}" in one_line(done.stderr)


def test_enqueue_with_in_or_at_schedules_the_job(call: Call, redis_url: str, redis: redis_py.Redis) -> None:
    began = time.time()
    assert call("enqueue", "--redis", redis_url, "--in", "90.5", "J").returncode == 0
    assert call("enqueue", "--redis", redis_url, "--at", "4102444800", "J").returncode == 0
    first, second = (score for _, score in redis.zrange("schedule", 0, -1, withscores=True))
    assert began + 90.5 <= first <= time.time() + 90.5
    assert second == 4102444800
