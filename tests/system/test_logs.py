from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apps import job

from goworkers_py.core.errors import TimeLimitExceeded
from goworkers_py.observe.log_format import JsonFormatter, PlainFormatter, log_with_stack
from goworkers_py.system.logs import Handler, LogFile, setup_logging
from goworkers_py.wire.message import Message, reset_current, set_current

ROOT, OURS = logging.getLogger(), logging.getLogger("goworkers_py")


def record(text: str = "hello", **extra: Any) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "app", "levelname": "INFO", "levelno": 20, "msg": text, "created": 1_700_000_000.25, "msecs": 250.0,
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


# --- nobody writes a line but us

# Line breaks of all kinds, a bell, colours, a halved surrogate pair, C1's own escape, turned text.
TRICKS = (
    "a\n2023-11-14T22:13:20.250Z pid=1 ERROR: forged\r\x0b\x0c\x1c\x85\u2028\u2029\x07\x1b[2J\x7f\x9b2J\ud800\u202e"
)
ESCAPED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800\u202e]")


@pytest.mark.parametrize("formatter", [PlainFormatter(), PlainFormatter(coloured=True), JsonFormatter()])
def test_no_text_can_pass_for_another_line(formatter: logging.Formatter) -> None:
    jid = TRICKS.replace("\ud800", "")  # a jid that cannot be written is none
    token = set_current(Message(json.dumps({"class": TRICKS, "jid": jid}).encode(), TRICKS))
    try:
        line = formatter.format(record(TRICKS, name=TRICKS, threadName=TRICKS, extra_of_the_job=TRICKS, **{TRICKS: 1}))
    finally:
        reset_current(token)
    if isinstance(formatter, JsonFormatter):
        told = json.loads(line)
        assert {told[name] for name in ("msg", "class", "queue", "logger", "thread")} == {TRICKS}
        assert told["jid"] == jid
    assert not ESCAPED.search(line.replace("\x1b[32mINFO\x1b[0m", ""))


@pytest.mark.parametrize("text", ["größer\tals", "全角\u3000空白", "👨\u200d👩\u200d👧", "a\xa0b", "C:\\new"])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert PlainFormatter().format(record(text)).endswith(f"INFO: {text}")
    line = JsonFormatter().format(record(text))
    assert json.loads(line)["msg"] == text


def failed(raises: Callable[[], object]) -> logging.LogRecord:
    try:
        raises()
    except BaseException:
        return record(exc_info=sys.exc_info())
    raise AssertionError


def no(text: str = "no") -> None:
    raise ValueError(text)


def test_an_exception_is_told_with_its_traceback() -> None:
    plain, as_json = PlainFormatter().format(failed(no)), json.loads(JsonFormatter().format(failed(no)))
    assert re.search(r"INFO: hello\n  Traceback .*\n(  .*\n)+  ValueError: no$", plain)
    assert as_json["traceback"].startswith("Traceback")
    assert as_json["traceback"].endswith("\nValueError: no")
    assert (as_json["error_class"], as_json["error_message"]) == ("ValueError", "no")


def in_a_chain() -> None:
    try:
        try:
            no("the first\nof all")
        except ValueError as error:
            raise LookupError(TRICKS) from error
    except LookupError:
        no("the last")


def test_all_causes_are_told_as_python_prints_them_but_each_text_in_one_line() -> None:
    lines = PlainFormatter().format(failed(in_a_chain)).split("\n")
    assert len([line for line in lines if re.match(r"\d{4}-", line)]) == 1
    assert all(line.startswith("  ") for line in lines[1:] if line)
    text = "\n".join(lines)
    assert not ESCAPED.search(text.replace("\n", ""))
    assert "\n  ValueError: the first\\nof all\n" in text
    assert "The above exception was the direct cause of" in text
    assert "\n  LookupError: a\\n2023-" in text
    assert "During handling of the above exception" in text
    assert lines[-1] == "  ValueError: the last"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups and notes came with Python 3.11")
def test_groups_and_notes_are_told() -> None:
    def group() -> None:
        inner = ValueError("a\nb")
        inner.add_note("note of\ntwo lines")  # type: ignore[attr-defined, unused-ignore]
        raise ExceptionGroup("several", [inner, OSError("c")])  # type: ignore[name-defined, unused-ignore]  # noqa: F821

    text = PlainFormatter().format(failed(group))
    assert re.search(r"several \(2 sub-exceptions\)\n.*\| ValueError: a\\nb\n.*\| note of", text, re.DOTALL)
    assert "| OSError: c" in text
    assert all(line.startswith("  ") for line in text.split("\n")[1:])


def test_a_traceback_is_not_endless() -> None:
    def again(depth: int) -> None:
        if depth == 0:
            no("x" * 10**6)
        (again if depth % 2 else lambda depth: again(depth))(depth - 1)

    assert len(PlainFormatter().format(failed(lambda: again(400)))) < 60_000


class Nasty(Exception):
    """Its text is a str that raises whatever is done with it."""

    def __str__(self) -> str:
        class Text(str):
            __slots__ = ()

            def __format__(self, spec: str) -> str:
                raise SystemExit

            __str__ = __mod__ = __format__  # type: ignore[assignment]

        return Text("nasty")


class HalfACharacter(Exception):
    __module__ = "\ud800"
    __qualname__ = "Nasty\ud800"


@pytest.mark.parametrize("kind", [Nasty, HalfACharacter])
@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_an_exception_that_cannot_be_shown_is_named(formatter: logging.Formatter, kind: type[Exception]) -> None:
    def raises() -> None:
        raise kind

    line = formatter.format(failed(raises))
    assert "Nasty" in line
    assert line.encode()


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_a_stack_stands_below_its_line(formatter: logging.Formatter, caplog: pytest.LogCaptureFixture) -> None:
    log_with_stack(logging.getLogger("app"), logging.WARNING, "File a\n  b()\x1b", "thread %s", "w\n1")
    assert "b()" in caplog.text
    line = formatter.format(caplog.records[0])
    if isinstance(formatter, JsonFormatter):
        assert json.loads(line)["stack"] == "File a\n  b()\x1b"
    else:
        assert line.endswith("WARNING: thread w\\n1\n  File a\n    b()\\x1b")


# --- a handler


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[Handler]:
    """Writes the file `log`."""
    with (tmp_path / "log").open("wb") as stream:
        handler = Handler(stream.fileno())
        handler.setFormatter(PlainFormatter())
        yield handler
        handler.close()


class Unshowable:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


def test_a_line_that_cannot_be_made_is_told_with_its_place(handler: Handler, tmp_path: Path) -> None:
    handler.handle(record("%d jobs", args=("five",), pathname="a.py", lineno=3))
    handler.handle(record(msg=Unshowable(LookupError("hidden")), pathname="b.py", lineno=5))
    first, second = (tmp_path / "log").read_text().splitlines()
    assert "ERROR: a.py:3 cannot log '%d jobs': TypeError: " in first
    assert second.endswith("ERROR: b.py:5 cannot log 'Unshowable': LookupError: hidden")


def test_a_job_that_logs_at_its_time_limit_is_interrupted_all_the_same(handler: Handler) -> None:
    with pytest.raises(TimeLimitExceeded):
        handler.handle(record(msg=Unshowable(TimeLimitExceeded())))


# --- setting it up


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(("style", "formatter"), [("plain", PlainFormatter), ("json", JsonFormatter)])
def test_logging_is_set_up_for_a_program_that_has_none(
    style: str, formatter: type, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ROOT, "handlers", [])  # pytest's own
    setup_logging("warning", style)
    (handler,) = ROOT.handlers
    assert isinstance(handler.formatter, formatter)
    logging.getLogger("jobs.own").warning("heard")
    logging.getLogger("goworkers_py.x").info("not heard")
    out, err = capfd.readouterr()
    assert "heard" in err
    assert "not heard" not in err
    assert not out
    handler.close()


@pytest.mark.usefixtures("levels")
def test_a_programs_own_handlers_are_kept_and_our_level_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    own = logging.NullHandler()
    monkeypatch.setattr(ROOT, "handlers", [own])
    ROOT.setLevel("ERROR")
    setup_logging("debug", "plain")
    assert ROOT.handlers == [own]
    assert (ROOT.level, OURS.level) == (logging.ERROR, logging.DEBUG)


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_a_job_is_interrupted_also_while_its_traceback_is_written(
    formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(*_: object) -> str:
        raise TimeLimitExceeded

    monkeypatch.setattr("goworkers_py.observe.log_format._printed", struck)
    record = logging.makeLogRecord({"msg": "m", "exc_info": (ValueError, ValueError("x"), None)})
    with pytest.raises(TimeLimitExceeded):
        formatter.format(record)


def test_a_logfile_of_another_kind_is_written_to_after_it_was_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    handler = LogFile(str(path))
    try:
        path.unlink()
        handler.reopen()
        handler.handle(logging.makeLogRecord({"msg": "after"}))
        assert "after" in path.read_text()
    finally:
        handler.close()
        os.close(handler._file)
        os.close(reader)
