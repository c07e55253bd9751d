"""A job is written as a test. Each test here runs what was written, without a server."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest
from apps import without_server

import goworkers_py
from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.core.errors import WorkersError
from goworkers_py.testing.replay import LONGEST_ARGUMENTS, as_test
from goworkers_py.wire.enclosure import readable
from goworkers_py.wire.failure import pack_backtrace
from goworkers_py.wire.stored_job import StoredJob

MODULE = """
import datetime

import goworkers_py as workers

BANK = {"up": False}
CALLS = []


class Declined(Exception):
    class ForGood(Exception):
        pass


class ConnectionError(Exception):
    pass


@workers.job("Shop::Charge", queue="money", retry=3, tags=["shop"])
def charge(*args, **kwargs):
    CALLS.append((args, kwargs, workers.current_message()))
    if not BANK["up"]:
        raise BANK["error"]


@workers.job("Shop::Report", queue="reports")
def report(day: datetime.date):
    CALLS.append(day)


@workers.job("Shop::Exact", queue="money")
def exact(order): ...
"""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    app = without_server()
    for name in ("job", "enqueue", "enqueue_with_options"):
        monkeypatch.setattr(goworkers_py, name, getattr(app, name))
    shop = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    exec(compile(MODULE, "shop.py", "exec"), shop.__dict__)
    shop.BANK["error"] = ValueError("no account")
    return app


def stored(**fields: Any) -> StoredJob:
    payload = {
        "class": "Shop::Charge",
        "args": [42],
        "jid": "6f1c2d3e4f5a",
        "queue": "money",
        "created_at": 1.5,
        **fields,
    }
    return StoredJob(json.dumps(payload).encode(), "")


def failed(error_class: str = "ValueError", error_message: str = "no account", **fields: Any) -> StoredJob:
    return stored(error_class=error_class, error_message=error_message, failed_at=2.5, retry_count=0, **fields)


def run(app: App, text: str) -> list[testing.EnqueuedJob]:
    """Runs the test that was written, and returns what it pushed."""
    names: dict[str, Any] = {}
    exec(compile(text, "test_written.py", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    with testing.fake(app) as sandbox:
        test(sandbox)
        return sandbox._pushed()


def written(app: App, job: StoredJob) -> str:
    return as_test(job, app.registry, ["shop"])


def code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")).strip()


def test_the_file_tells_the_story_and_runs_the_job(app: App) -> None:
    job = failed(kwargs={"pdf": True}, error_backtrace=pack_backtrace(["/srv/shop.py:31:in `charge'"]))
    text = written(app, job)
    assert (
        text
        == """\
# Job 6f1c2d3e4f5a of the class Shop::Charge. Written by `pyworkers replay`.
# queue money, pushed 1970-01-01T00:00:01.500Z
# It has failed once, at last at 1970-01-01T00:00:02.500Z:
#     ValueError: no account
# Backtrace, the innermost call first:
#     /srv/shop.py:31:in `charge'

import re

import pytest
from shop import charge


def test_charge_6f1c2d3e(pyworkers_fake):
    # Make here what the job finds in production: rows, files, answers of other services.
    charge.enqueue(42, pdf=True)
    with pytest.raises(ValueError, match=re.escape("no account")):
        pyworkers_fake.run_all()
        pytest.fail("the job does not fail any more: take `pytest.raises` away, and keep `pyworkers_fake.run_all()`")
"""
    )
    run(app, text)


def test_the_test_of_a_job_that_is_mended_says_so(app: App) -> None:
    text = written(app, failed())
    sys.modules["shop"].BANK["up"] = True
    with pytest.raises(pytest.fail.Exception, match="the job does not fail any more: take `pytest"):
        run(app, text)


def test_another_error_of_the_same_class_is_not_the_one_of_the_job(app: App) -> None:
    text = written(app, failed())
    sys.modules["shop"].BANK["error"] = ValueError("no such order")
    with pytest.raises(AssertionError, match="no such order"):
        run(app, text)


def test_a_job_that_has_not_failed_is_expected_to_end_well(app: App) -> None:
    sys.modules["shop"].BANK["up"] = True
    text = written(app, stored())
    assert "# It has not failed yet." in text
    assert text.endswith("    pyworkers_fake.run_all()\n")
    run(app, text)


deep: Any = 1
for _ in range(90):
    deep = [deep]


@pytest.mark.parametrize(
    "args",
    [
        [],
        [None, True, False, 0, -1, 1.5, -0.0, 1e300, 12345678901234567890123, 10**90],
        ['"', "'", "\"'", "\\", "{x}", "%s", "", "\t\n\r\x00\x1b", '"""', "# no comment"],
        ["ä ß 漢 🐍", "\u202e\u2066 turned", "\u2028", "\ufeff"],
        [{"a": [{"b": {"c": [1, [2, [3]]]}}], "class": 1, "": None, "ü": {}}],
        [deep],
        [
            "a long text " * 30,
            ["and a list of texts of which each is long"] * 9,
            {"key of it": ["x" * 90, {"y": "z" * 99}]},
        ],
    ],
)
def test_arguments_come_back_as_they_were(app: App, args: list[Any]) -> None:
    text = written(app, failed(args=args, kwargs={"named": args}))
    assert text.isascii() or "ä" in text or "ü" in text
    if not any(len(str(one)) > 100 for one in args):
        assert max(map(len, text.splitlines())) <= 120
    [job] = run(app, text)
    assert (job.args, job.kwargs) == (args, {"named": args})


@pytest.mark.parametrize("name", ["a b", "class", "1st", "ü-x", "self", "queue"])
def test_names_of_keyword_arguments_may_be_any_text(app: App, name: str) -> None:
    text = written(app, failed(kwargs={name: 1}))
    [job] = run(app, text)
    assert (job.args, job.kwargs) == ([42], {name: 1})


HOSTILE = "x\nimport os; os.abort()\n\"\"\"'''\\ \u202e\x1b[2J\u2028import sys"


def test_texts_of_strangers_stay_in_comments_and_literals(app: App) -> None:
    job = failed(
        HOSTILE, HOSTILE, queue=HOSTILE, tags=[HOSTILE], args=[HOSTILE], jid=HOSTILE, kwargs={HOSTILE: HOSTILE},
        error_backtrace=pack_backtrace([HOSTILE]), **{HOSTILE: HOSTILE},
    )  # fmt: skip
    for text in (written(app, job), written(app, failed(HOSTILE, HOSTILE, **{"class": HOSTILE}))):
        compile(text, "test_written.py", "exec")
        assert "\n    import os" not in text
        assert not any(line.startswith(("import os", "import sys")) for line in text.split("\n"))
        assert text.isprintable() is False  # its line ends only:
        assert text.replace("\n", "").isprintable()


# --- the push


def test_an_argument_of_a_converted_type_is_pushed_as_json(app: App) -> None:
    text = written(app, stored(**{"class": "Shop::Report", "args": ["2026-01-02"], "queue": "reports"}))
    assert 'workers.enqueue("reports", "Shop::Report", ["2026-01-02"])' in text
    assert "import shop  # noqa: F401 (declares jobs)" in text
    run(app, text)
    assert [str(day) for day in sys.modules["shop"].CALLS] == ["2026-01-02"]


def test_arguments_that_do_not_fit_are_pushed_and_fail_as_in_the_worker(app: App) -> None:
    why = "Shop::Exact cannot be called with these arguments: too many positional arguments"
    text = written(app, failed("goworkers_py.ArgumentsDoNotFit", why, **{"class": "Shop::Exact", "args": [1, 2]}))
    assert "with pytest.raises(\n        workers.ArgumentsDoNotFit,\n        match=re.escape(" in text
    run(app, text)


def test_what_the_code_may_look_at_comes_with_the_push(app: App) -> None:
    text = written(app, failed(queue="urgent", tags=["vip"], locale="de", bid="b1", retry=7, pyworkers={"needs": []}))
    assert 'charge.set(queue="urgent", tags=["vip"], extra={"locale": "de"}).enqueue(42)' in text
    run(app, text)
    message = sys.modules["shop"].CALLS[0][2]
    assert (message.queue, message.tags, message.get("locale")) == ("urgent", ["vip"], "de")
    assert "charge.enqueue(42)" in written(app, failed(tags=["shop"]))  # as in the code


def test_a_class_that_no_module_declares_is_pushed_by_its_name(app: App) -> None:
    text = written(app, failed("Net::ReadTimeout", "late", **{"class": "Billing::InvoiceJob", "locale": "de"}))
    assert "# No module of `require` declares Billing::InvoiceJob: import the one that does." in text
    assert "def test_billing_invoice_job_6f1c2d3e(" in text
    [push] = [line for line in text.splitlines() if "enqueue_with" in line]
    told = 'workers.EnqueueOptions(extra={"locale": "de"})'
    assert push == f'    workers.enqueue_with_options("money", "Billing::InvoiceJob", [42], {told})'
    with pytest.raises(WorkersError, match="no job is registered as 'Billing::InvoiceJob'"):
        run(app, text)  # the queue has code, so a worker would fetch the job
    lonely = written(app, failed(**{"class": "Billing::InvoiceJob", "queue": "nobody"}))
    with pytest.raises(pytest.fail.Exception, match="no code has run: import the module of the job"):
        run(app, lonely)


def test_a_job_of_a_queue_with_a_handler_is_run_by_it(app: App) -> None:
    seen: list[Any] = []
    app.process("plain", seen.append)
    [job] = run(app, written(app, stored(**{"class": "Any", "queue": "plain"})))
    assert [message.args for message in seen] == [[42]]
    assert job.job_class == "Any"


# --- the error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("shop.Declined", "from shop import Declined, charge"),
        ("shop.Declined.ForGood", "with pytest.raises(Declined.ForGood, match="),
        ("shop.ConnectionError", "with pytest.raises(shop.ConnectionError, match="),
        ("json.decoder.JSONDecodeError", "from json.decoder import JSONDecodeError"),
        (
            "somewhere.Else",
            "    # The class of the error, somewhere.Else, is not imported by the job's module.\n    with py",
        ),
        ("shop.charge", "with pytest.raises(Exception, match="),
        ("SystemExit", "with pytest.raises(SystemExit, match="),
    ],
)
def test_the_class_of_the_error_is_imported_where_it_is_known(app: App, error: str, text: str) -> None:
    told = written(app, failed(error, "no account"))
    assert text in told
    compile(told, "test_written.py", "exec")
    assert "somewhere" not in sys.modules


@pytest.mark.parametrize(
    ("error", "fields", "text"),
    [
        ("Net::ReadTimeout", {}, "# It has failed in Ruby."),
        ("NoMethodError", {}, "# It has failed in Ruby."),
        ("RuntimeError", {"error_backtrace": pack_backtrace(["/srv/app.rb:3:in `x'"])}, "# It has failed in Ruby."),
        ("goworkers_py.TimeLimitExceeded", {}, "came from outside of the job, and no test repeats it."),
        ("goworkers_py.PoisonPill", {}, "came from outside of the job, and no test repeats it."),
    ],
)
def test_an_error_that_no_test_can_repeat_is_told_and_not_expected(
    app: App, error: str, fields: dict[str, Any], text: str
) -> None:
    sys.modules["shop"].BANK["up"] = True
    told = written(app, failed(error, **fields))
    assert text in told
    assert "pytest.raises" not in told
    run(app, told)


@pytest.mark.parametrize(("error", "outcome"), [("KillJob", "dead"), ("RetryJob", "retry")])
def test_a_job_that_has_ended_itself_is_told_by_its_outcome(app: App, error: str, outcome: str) -> None:
    kind = getattr(goworkers_py, error)
    sys.modules["shop"].BANK["error"] = kind(delay=60) if error == "RetryJob" else kind("enough")
    text = written(app, failed(f"goworkers_py.{error}"))
    assert f'== ["{outcome}"]' in text
    run(app, text)


def test_of_a_long_error_the_first_line_is_expected_and_the_rest_told(app: App) -> None:
    message = "a" * 300 + "\n" + "\n".join(f"line {number}" for number in range(30))
    sys.modules["shop"].BANK["error"] = ValueError(message)
    text = written(app, failed("ValueError", message, encrypt=True))
    run(app, text)
    assert "#     line 18\n#     ... and 11 more lines" in text
    assert max(map(len, text.splitlines())) < 210
    assert "# Sidekiq has encrypted the last argument. The job gets it so, in Python too." in text


def test_an_error_without_a_text_is_known_by_its_class(app: App) -> None:
    sys.modules["shop"].BANK["error"] = ValueError()
    text = written(app, failed("ValueError", ""))
    assert "with pytest.raises(ValueError):" in text
    run(app, text)


# --- refused


LONG = b"a" * LONGEST_ARGUMENTS


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"no json", "cannot be read as a job"),
        (readable(b"no json", "money", 1.0), "cannot be read as a job, so no code runs it: no json"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":{"a":1}}', "its arguments must be a list"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":[],"kwargs":[1]}', "kwargs must be a dict"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":[1e400]}', "no test can push job j: its arguments"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":["\\ud800"]}', "no test can push job j: its arg"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":["%s"]}' % LONG, "a test may have 200,000 of them"),
        (b'{"class":"Shop::Charge","jid":"j","queue":"money","args":[%s]}' % (b"1" * 4_100), "more digits than"),
    ],
)  # fmt: skip
def test_a_job_that_no_test_can_push_is_refused(app: App, raw: bytes, why: str) -> None:
    with pytest.raises(
        WorkersError, match=r"^(job \S+ cannot be read|no test can push job j|the arguments take)"
    ) as caught:
        written(app, StoredJob(raw))
    assert why in str(caught.value)
    assert len(str(caught.value)) < 400
