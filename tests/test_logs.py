from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from apps import job

from goworkers_py.logformat import JsonFormatter, PlainFormatter
from goworkers_py.logs import setup_logging
from goworkers_py.message import Message, reset_current, set_current

ROOT, OURS = logging.getLogger(), logging.getLogger("goworkers_py")


def record(text: str = "hello", **extra: Any) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "app", "levelname": "INFO", "msg": text, "created": 1_700_000_000.25, "msecs": 250.0,
         "threadName": "worker:q:1", "process": os.getpid(), **extra}
    )  # fmt: skip


@pytest.fixture
def running() -> Iterator[None]:
    """As inside a job."""
    token = set_current(Message(job("A::B", jid="abc"), "mail"))
    yield
    reset_current(token)


@pytest.fixture
def levels() -> Iterator[None]:
    levels = ROOT.level, OURS.level
    yield
    ROOT.setLevel(levels[0])
    OURS.setLevel(levels[1])


def test_a_plain_line_has_time_pid_thread_and_level() -> None:
    assert PlainFormatter().format(record()) == f"2023-11-14T22:13:20.250Z pid={os.getpid()} worker:q:1 INFO: hello"


@pytest.mark.usefixtures("running")
def test_a_line_from_inside_a_job_names_it() -> None:
    line = PlainFormatter().format(record(elapsed=1.235))
    assert " worker:q:1 class=A::B jid=abc queue=mail elapsed=1.235 INFO: hello" in line


@pytest.mark.parametrize("name", ["A\nfake INFO: line", "A B", "A\x1b[2J", "A\rB"])
def test_a_strangers_class_name_cannot_pass_for_another_line_or_field(name: str) -> None:
    token = set_current(Message(job(name), "q"))
    try:
        line = PlainFormatter().format(record())
    finally:
        reset_current(token)
    assert f" class={json.dumps(name)} queue=q INFO: hello" in line
    assert line.isprintable()


@pytest.mark.usefixtures("running")
def test_a_json_line_is_one_object() -> None:
    line = JsonFormatter().format(record("größer\nals", elapsed=0.5))
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z", "pid": os.getpid(), "thread": "worker:q:1", "lvl": "INFO", "logger": "app",
        "msg": "größer\nals", "class": "A::B", "jid": "abc", "queue": "mail", "elapsed": 0.5,
    }  # fmt: skip


def test_an_exception_is_told_with_its_traceback() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        failed = record(exc_info=sys.exc_info())
    plain, as_json = PlainFormatter().format(failed), json.loads(JsonFormatter().format(failed))
    assert re.search(r"INFO: hello\nTraceback .*\n(.*\n)+ValueError: no$", plain)
    assert as_json["exception"].startswith("Traceback")
    assert as_json["exception"].endswith("ValueError: no")


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(("style", "formatter"), [("plain", PlainFormatter), ("json", JsonFormatter)])
def test_logging_is_set_up_for_a_program_that_has_none(
    style: str, formatter: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ROOT, "handlers", [])  # pytest's own
    setup_logging("warning", style)
    (handler,) = ROOT.handlers
    assert isinstance(handler.formatter, formatter)
    logging.getLogger("jobs.own").warning("heard")
    logging.getLogger("goworkers_py.x").info("not heard")
    out, err = capsys.readouterr()
    assert "heard" in err
    assert "not heard" not in err
    assert not out


@pytest.mark.usefixtures("levels")
def test_a_programs_own_handlers_are_kept_and_our_level_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    own = logging.NullHandler()
    monkeypatch.setattr(ROOT, "handlers", [own])
    ROOT.setLevel("ERROR")
    setup_logging("debug", "plain")
    assert ROOT.handlers == [own]
    assert (ROOT.level, OURS.level) == (logging.ERROR, logging.DEBUG)
