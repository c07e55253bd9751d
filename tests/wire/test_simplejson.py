"""Where simplejson differs from Python's json, which these tests take as right; and simplejson without its C part."""

from __future__ import annotations

import enum
import json
import logging
import os
import re
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
import simplejson
from hypothesis import given
from hypothesis import strategies as st
from jsontext import FEWER_VARIABLE, JOBS, VALUES, examples

from goworkers_py.api.client import Client
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.cli.tables import as_text
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, UnreadablePayload
from goworkers_py.core.job_state import JobState
from goworkers_py.observe.log_format import JsonFormatter
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

TESTS = next(folder for folder in Path(__file__).parents if folder.name == "tests")

Pair = namedtuple("Pair", "a b")  # noqa: PYI024  # typed or not, it has `_asdict`


class Listing(list[int]):
    def _asdict(self) -> dict[str, int]:
        return {"a": 1}


class Fancy:
    def for_json(self) -> int:
        return 1

    def _asdict(self) -> dict[str, int]:
        return {"a": 1}

    def __iter__(self) -> Iterator[int]:
        return iter([1])

    def __str__(self) -> str:
        return "fancy"


class Level(enum.IntEnum):
    HIGH = 3


class Count(int):
    def __repr__(self) -> str:
        return "many"

    __str__ = __repr__


class Share(float):
    def __repr__(self) -> str:
        return "half"


# --- reading


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"a":1}', '\xef\xbb\xbf{"a":1}', '{"a":\ufeff1}', '{"a":[\xef\xbb\xbf1]}', '{"a":1\uff11}',
        '{"a":\u0661}', '{"a":1.\uff11}', '{"a":1e\uff11}', '{"a":"\\u00\uff11\uff11"}', '{"a":\xa01}', '{"a":1_0}',
        '{"a":"\\u 123"}',
    ],
)  # fmt: skip
def test_json_that_only_simplejson_reads_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="char"):
        json.loads(text)
    with pytest.raises(UnreadablePayload):
        payload.read(text.encode())


_DAMAGES = st.sampled_from([*'{}[]",:\\/0123456789+-.eEuntf \n\r\t\x00\x0b\xa0\uff11\ufeff\u2028', "NaN", "\\u"])


def _judged(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=pytest.fail)
    except (ValueError, pytest.fail.Exception):
        return None


@given(JOBS.map(bytes.decode), st.data())
@examples(300)
def test_a_damaged_job_is_read_or_refused_as_json_has_it(text: str, data: st.DataObject) -> None:
    at, replaced = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 1))
    text = text[:at] + data.draw(_DAMAGES) + text[at + replaced :]
    value = _judged(text)
    if type(value) is dict:
        assert repr(payload.read(text.encode())) == repr(value)
    else:
        with pytest.raises(UnreadablePayload):
            payload.read(text.encode())


def test_a_missing_value_is_reported_with_its_place_and_other_flaws_by_simplejsons_text() -> None:
    for raw, told in ((b'{"a":1,"b":}', "no value at character 11"), (b'{"a":1 "b"', "Expecting ',' delimiter")):
        with pytest.raises(UnreadablePayload, match=f"^not JSON: {told}"):
            payload.read(raw)


@pytest.mark.parametrize("levels", [150, 600, 60_000])
def test_a_very_deeply_nested_job_is_reported_as_one(levels: int) -> None:
    """Without the C part, Python's recursion limit is reached after some hundred levels."""
    with pytest.raises(UnreadablePayload, match=r"^nested deeper than 100 levels, which Ruby refuses to read$"):
        payload.read(b'{"args":' + b"[" * levels + b"]" * levels + b"}")


# --- writing


@pytest.mark.parametrize(
    "value", [b"x", Decimal(1), Fancy(), {1}, range(3), pytest.param(iter([1]), id="iterator"), pytest.fail]
)
def test_a_value_that_only_simplejson_writes_is_refused(value: Any) -> None:
    for whole in (value, [value], {"a": value}, {"a": [{"b": value}]}):
        with pytest.raises(TypeError, match="is not JSON"):
            payload.encode(whole)
    with pytest.raises(ArgumentError):
        payload.check_plain([value], "args")


@pytest.mark.parametrize("key", [b"x", Decimal(1), (1,), Fancy()])
def test_a_key_that_only_simplejson_writes_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="keys must be"):
        payload.encode({key: 1})


def test_json_that_is_written_already_is_no_argument() -> None:
    with pytest.raises(ArgumentError, match="is a RawJSON, not plain JSON"):
        payload.check_plain([simplejson.RawJSON("1")], "args")


@pytest.mark.parametrize("value", [Pair(1, 2), (1, (2,)), Listing([1]), Level.HIGH, Count(7), Share(0.5), 2**80, 2**53])
def test_every_kind_of_list_and_number_is_written_as_one(value: Any) -> None:
    for whole in (value, [value], {"a": value}):
        assert payload.encode(whole) == json.dumps(whole, separators=(",", ":"))


@given(st.text(st.characters(exclude_categories=()), max_size=20))
@examples(200)
def test_any_text_is_written_as_ruby_does(text: str) -> None:
    for whole in (text, [text], {text: text}):
        assert payload.encode(whole) == json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


_PLAIN = VALUES.map(lambda text: json.loads(text, parse_int=lambda digits: int(digits[:9]), parse_float=lambda _: 1e-7))


@given(st.lists(st.one_of(_PLAIN, st.sampled_from(["\nnull", ",\nnull,", {"\nnull": [None]}, None]))))
@examples(100)
def test_values_that_are_written_together_are_written_as_each_alone(values: list[Any]) -> None:
    assert payload.encode_each(values) == [payload.encode(value) for value in values]


class Still(Clock):
    def wall(self) -> float:
        return 1_700_000_000.25


def test_a_job_is_written_alone_as_among_others() -> None:
    broker = open_broker(Config(broker="memory://written-alone"))
    client = Client(lambda: broker, clock=Still())
    options = EnqueueOptions(tags=["é"], extra={"cattr": {"a": [1, "\n"]}})
    args = [1.5, {"a": [None, "\nnull", "é"]}, 'x"']
    for rows in ([args], [args, Pair(1, 2), [], (3,)]):
        client.push_bulk("q", "Höflich::Job", rows, options)
    payloads = [one.payload for one in broker.admin.jobs_in(Place(JobState.WAITING, "q")).first(10)]
    alone, *others = (re.sub(rb'"jid":"[0-9a-f]{24}"', b'"jid":""', raw) for raw in payloads)
    assert others[0] == alone
    assert [json.loads(raw)["args"] for raw in others[1:]] == [[1, 2], [], [3]]


# --- JSON that is no job


def test_infinity_in_a_job_can_be_shown() -> None:
    message = Message(b'{"args":[1e400,-1e400,"\xc3\xa9"]}', "q")
    assert message.to_json() == '{"args": [Infinity, -Infinity, "é"]}'
    assert as_text(message.args) == '[Infinity, -Infinity, "é"]'


def test_a_process_of_an_old_sidekiq_may_run_a_job_with_infinity(redis_url: str, redis: redis_py.Redis) -> None:
    redis.sadd("processes", "old:1:a")
    redis.hset("old:1:a:workers", "t", b'{"queue":"q","run_at":1,"payload":{"class":"Old","args":[1e400],"x":NaN}}')
    broker = open_broker(Config(broker=redis_url))
    [running] = broker.admin.running()
    broker.close()
    assert json.loads(running.job.payload)["args"] == [float("inf")]


@pytest.mark.parametrize(
    "extra",
    [
        b"\xff", [b"x"], Decimal("1.50"), {"a": Decimal("1.50")}, Pair(1, "é"), [Pair(1, 2)], Listing([1]), Fancy(),
        [Fancy()], {1}, Level.HIGH, float("nan"), [float("-inf")], {1: None, None: True}, 2**80, "\u2028é",
    ],
)  # fmt: skip
def test_a_json_log_line_has_what_a_job_adds_as_pythons_json_writes_it(extra: Any) -> None:
    record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "hello", "extra": extra})
    told = json.loads(JsonFormatter().format(record))
    assert repr(told["extra"]) == repr(json.loads(json.dumps(extra, default=str)))


def test_a_json_log_line_is_json_whatever_the_name_of_what_a_job_adds() -> None:
    record = logging.makeLogRecord({"msg": "hello", 1: 2, 'a"\n': 3})
    told = json.loads(JsonFormatter().format(record))
    assert (told["1"], told['a"\n']) == (2, 3)


# --- a Python for which simplejson has no C part


WITHOUT = """
import sys
sys.modules["simplejson._speedups"] = None
import simplejson.decoder, simplejson.encoder, simplejson.scanner
assert not any((simplejson.encoder.c_make_encoder, simplejson.decoder.c_scanstring, simplejson.scanner.c_make_scanner))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
OF_JSON = (
    "test_payload.py",
    "test_message.py",
    "test_golden.py",
    "test_retry.py",
    "test_recorded_errors.py",
    "test_logs.py",
)


@pytest.mark.server
@pytest.mark.timeout(300)
def test_all_these_tests_pass_without_the_c_part() -> None:
    files = [str(next(TESTS.rglob(name))) for name in OF_JSON]
    selected = ["-k", "not without_the_c_part and not old_sidekiq", __file__, *files]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment[FEWER_VARIABLE] = "10"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "-q", "-p", "no:cacheprovider", *selected],
        capture_output=True, text=True, cwd=TESTS.parent, env=environment, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
