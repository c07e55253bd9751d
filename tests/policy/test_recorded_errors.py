"""What the payload of a failed job tells of its error."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsontext import examples
from retry_decisions import ABSENT, decide, fields_of, fields_raw, job

from goworkers_py.core.errors import RetryJob
from goworkers_py.core.outcome import Outcome
from goworkers_py.policy.retry import MAX_BACKTRACE_LINES, USUAL_BACKTRACE_LINES
from goworkers_py.wire import payload
from goworkers_py.wire.failure import (
    MAX_ERROR_MESSAGE,
    backtrace,
    error_class,
    error_text,
    pack_backtrace,
    unpack_backtrace,
)
from goworkers_py.wire.message import Message

# --- the rewritten job


# --- errors of any kind


class Unprintable(Exception):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised


class Endless(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000


class NoText(Exception):
    def __str__(self) -> str:
        return 5


class Outer:
    class Inner(Exception):
        pass


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), ""),
        (ValueError("a", 1), "('a', 1)"),
        (KeyError("é😀"), "'é😀'"),
        (ValueError("x" * 10_000), "x" * 10_000),
        (ValueError("é" * 10_001), "é" * 10_000),
        (Endless(), "x" * 10_000),
        (ValueError("a\ud800b\udfff"), "a?b?"),
        (ValueError("nul \x00 and \u2028"), "nul \x00 and \u2028"),
        (ValueError(b"\xff\x00"), "b'\\xff\\x00'"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "'utf-8' codec can't decode byte 0xff in position 0: bad"),
        (Unprintable(RuntimeError("no")), "(its message cannot be shown: str() raised RuntimeError)"),
        (Unprintable(RecursionError()), "(its message cannot be shown: str() raised RecursionError)"),
        (Unprintable(SystemExit()), "(its message cannot be shown: str() raised SystemExit)"),
        (NoText(), "(its message cannot be shown: str() raised TypeError)"),
        (SystemExit(3), "3"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_any_error_is_recorded(error: BaseException, told: str) -> None:
    assert error_text(error) == told
    fields = fields_of(decide(job(backtrace=True), error))
    assert fields["error_message"] == told
    assert fields["error_class"] == error_class(error)


@given(st.text(st.characters(exclude_categories=())) | st.binary() | st.lists(st.text(max_size=3)))
@examples(100)
def test_any_error_message_can_be_stored(content: Any) -> None:
    told = error_text(ValueError(content))
    assert len(told) <= MAX_ERROR_MESSAGE
    assert payload.read(payload.write({"error_message": told}))["error_message"] == told
    if isinstance(content, str):
        assert told == "".join("?" if 0xD800 <= ord(char) <= 0xDFFF else char for char in content)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError(), "ValueError"),
        (json.JSONDecodeError("", "", 0), "json.decoder.JSONDecodeError"),
        (Outer.Inner(), f"{__name__}.Outer.Inner"),
        (RetryJob(delay=1), "goworkers_py.RetryJob"),
    ],
)
def test_an_error_is_named_with_its_module(error: BaseException, name: str) -> None:
    assert error_class(error) == name


# --- backtraces


def caught(function: Callable[..., Any], *args: Any) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def outer(depth: int) -> None:
    if depth:
        outer(depth - 1)
    else:
        inner()


def inner() -> None:
    raise ValueError("deep")


def lines_of(outcome: Outcome) -> list[str]:
    return unpack_backtrace(fields_of(outcome).get("error_backtrace"))


@pytest.mark.parametrize(
    ("of_payload", "of_code", "lines"),
    [
        (ABSENT, None, USUAL_BACKTRACE_LINES),
        (None, None, USUAL_BACKTRACE_LINES),
        (ABSENT, False, 0),
        (ABSENT, 2, 2),
        (ABSENT, True, 32),
        (True, False, 32),
        (False, True, 0),
        (False, None, 0),
        (0, True, 0),
        (3, True, 3),
        (10**6, False, 32),
        ("yes", False, 0),
    ],
)
def test_a_job_says_how_many_lines_of_the_backtrace_are_kept(
    of_payload: Any, of_code: bool | int | None, lines: int
) -> None:
    outcome = decide(job(backtrace=of_payload), caught(outer, 29), backtrace=of_code)
    assert len(lines_of(outcome)) == lines
    assert ("error_backtrace" in fields_of(outcome)) == (lines > 0)


def test_the_innermost_call_comes_first_in_rubys_shape() -> None:
    lines = backtrace(caught(outer, 1), 10)
    assert [re.sub(r":\d+:", ":N:", line) for line in lines] == [
        f"{__file__}:N:in `{name}'" for name in ("inner", "outer", "outer", "caught")
    ]
    assert f"{__file__}:{inner.__code__.co_firstlineno + 1}:in `inner'" == lines[0]


def test_our_own_frames_are_left_out_unless_there_are_no_others() -> None:
    def through_us() -> None:
        payload.check_plain([object()], "args")

    error = caught(through_us)
    assert all("goworkers_py" not in line.rpartition("/")[0].rpartition("/")[2] for line in backtrace(error, 99))
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    assert backtrace(error, 99)[-1].endswith("in `check_plain'")


def test_an_error_that_was_never_raised_has_no_backtrace() -> None:
    assert backtrace(ValueError(), 10) == []


def test_an_endless_recursion_leaves_a_short_backtrace() -> None:
    def endless() -> None:
        endless()

    outcome = decide(job(backtrace=True), caught(endless))
    assert len(lines_of(outcome)) == MAX_BACKTRACE_LINES
    assert len(fields_raw(outcome)) < 2_000


def test_a_file_name_that_is_no_unicode_is_stored() -> None:
    error = caught(lambda: exec(compile("raise ValueError", "a\udcff.py", "exec")))
    assert backtrace(error, 1) == ["a?.py:1:in `<module>'"]


def test_a_later_failure_replaces_the_backtrace() -> None:
    first = decide(job(backtrace=1), caught(inner))
    second = decide(Message(fields_raw(first), "default"), caught(outer, 0))
    assert len(lines_of(second)) == 1
    assert fields_raw(second).count(b"error_backtrace") == 1


def test_a_backtrace_is_packed_as_every_sidekiq_from_6_0_2_reads_it() -> None:
    packed = pack_backtrace(["a.rb:1:in `é'", "x" * 500])
    assert re.fullmatch("[A-Za-z0-9+/]+=*", packed)
    assert json.loads(zlib.decompress(base64.b64decode(packed, validate=True))) == ["a.rb:1:in `é'", "x" * 500]


@pytest.mark.parametrize(
    ("stored", "lines"),
    [
        (pack_backtrace(["a", "b"]), ["a", "b"]),
        (base64.encodebytes(zlib.compress(b'["a"]')).decode(), ["a"]),
        ("\n".join(pack_backtrace(["a", "b"])), ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["a", 1], ["a", "1"]),
        ([], []),
        (None, []),
        (5, []),
        ("", []),
        ("not base64!", []),
        ("é", []),
        (base64.b64encode(b"no zlib").decode(), []),
        (base64.b64encode(zlib.compress(b"\x04\x08[\x06")).decode(), []),
        (base64.b64encode(zlib.compress(b'{"a":1}')).decode(), []),
        (base64.b64encode(zlib.compress(b"\xff")).decode(), []),
    ],
)
def test_backtraces_of_every_version_are_unpacked(stored: Any, lines: list[str]) -> None:
    assert unpack_backtrace(stored) == lines


@pytest.mark.parametrize(
    ("said", "calls"), [(-1, ["raises", "inner"]), (-2, ["raises"]), (-100, []), (2, ["raises", "inner"])]
)
def test_a_negative_backtrace_leaves_out_the_outermost_calls_as_ruby_does(said: int, calls: list[str]) -> None:
    def raises() -> None:
        raise ValueError("no")

    def inner() -> None:
        raises()

    def outer() -> None:
        inner()

    try:
        outer()
    except ValueError as error:
        trace = error.__traceback__
        assert trace is not None
        raised = error.with_traceback(trace.tb_next)  # without this test
    fields = fields_of(decide(job(backtrace=said), raised))
    told = unpack_backtrace(fields.get("error_backtrace"))
    assert [line.rpartition("`")[2].rstrip("'") for line in told] == calls
