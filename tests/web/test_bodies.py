"""Bodies of requests: their length, and the memory that all of them may take at once."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
from waiting import eventually

from goworkers_py.web.http import budget, request
from goworkers_py.web.http.budget import Budget
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import MOST_BYTES, Request


def asked(body: bytes = b"{}", **environ: Any) -> Request:
    told = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
    return Request({**told, "wsgi.input": io.BytesIO(body), **environ})


def status(do: Callable[[], object]) -> int:
    with pytest.raises(Refused) as refused:
        do()
    return refused.value.status


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "PATIENCE_S", 0.0)


@pytest.mark.parametrize(
    "length",
    ["9" * 5_000, "9" * 16, "-1", "+2", "2_0", "0x2", "2.0", "2,2", "2, 3", " ", "\xb2", "\u0662", "two", "1e1", "2 2"],
)
def test_a_length_that_is_no_short_decimal_number_is_refused(length: str) -> None:
    assert status(lambda: asked(CONTENT_LENGTH=length).json) == 400


@pytest.mark.parametrize(
    ("length", "told"), [("", 411), ("2", 400), (str(MOST_BYTES + 1), 400)], ids=["alone", "both", "both, long"]
)
def test_a_body_in_chunks_is_refused(length: str, told: int) -> None:
    assert status(lambda: asked(CONTENT_LENGTH=length, HTTP_TRANSFER_ENCODING="chunked").json) == told


def test_a_body_that_was_cut_off_does_nothing() -> None:
    fields = b"job=1&job=2"
    assert status(lambda: asked(fields, CONTENT_LENGTH="30", CONTENT_TYPE="").form) == 400


def test_a_body_is_refused_again_in_the_same_words() -> None:
    """Nobody reads on in an input that has ended, or waits for more."""
    one = asked(b"{}", CONTENT_LENGTH="3")
    assert [status(lambda: one.json), status(lambda: one.form)] == [400, 400]


@pytest.mark.parametrize("values", [b"[],", b"{},", b"1,"])
def test_a_body_of_a_million_values_is_refused_before_it_is_read(values: bytes) -> None:
    body = b'{"jobs":[' + values * (1_900_000 // len(values)) + b"1]}"
    assert status(lambda: asked(body).json) == 413


def test_what_all_bodies_hold_at_once_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "BODIES", Budget(5 * MOST_BYTES))
    body = b'{"text":"%s"}' % (b"a" * (MOST_BYTES - 20))
    held = [asked(body) for _ in range(5)]
    for one in held:
        assert len(one.json["text"]) == MOST_BYTES - 20
    late = asked(body)
    assert status(lambda: late.json) == 503
    late.close()
    held[0].close()
    assert asked(body).json


def test_a_request_that_ends_gives_back_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BODIES", "VALUES"):
        monkeypatch.setattr(request, name, Budget(1_000_000))
    body = b'{"a":[' + b"1," * 8_000 + b"1]}"
    for wrong in range(20):
        one = asked(body[: -1 if wrong % 2 else None])
        if wrong % 2:
            assert status(lambda one=one: one.json) == 400
        else:
            assert one.json
        one.close()
        one.close()
    for name in ("BODIES", "VALUES"):
        getattr(request, name).take(1_000_000)


def test_who_waits_goes_on_when_another_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "PATIENCE_S", 30.0)
    few = Budget(10)
    few.take(10)
    went_on = threading.Event()
    waiter = threading.Thread(target=lambda: (few.take(4), went_on.set()))
    waiter.start()
    assert not went_on.wait(0.05)
    few.give(10)
    assert eventually(went_on.is_set)
    waiter.join()


def test_cookies_are_read_in_a_time_that_grows_with_their_length_only() -> None:
    cookies = asked(HTTP_COOKIE='a=1; b="2";c = 3;;=;d;e=f=g; a=last' + "; x=" + "\\" * 60_000).cookies
    assert {name: cookies[name] for name in "abcde"} == {"a": "last", "b": "2", "c": "3", "d": "", "e": "f=g"}
