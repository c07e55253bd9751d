"""Headers as other programs write them. Those that pika writes are the cross-check."""

from __future__ import annotations

import struct
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

pika = pytest.importorskip("pika")

from goworkers_py.brokers.rabbitmq.foreign import _with_headers  # noqa: E402
from goworkers_py.brokers.rabbitmq.headers import headers_at, read_headers  # noqa: E402
from goworkers_py.features.plain_lists.payload import wrapped  # noqa: E402
from goworkers_py.wire.message import Message  # noqa: E402
from goworkers_py.wire.properties import UNREADABLE, Properties  # noqa: E402

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
HEADERS = {
    "text": "grüße", "bytes": b"\xff", "yes": True, "no": False, "int": -5, "long": 2**40, "none": None, "at": AT,
    "price": Decimal("12.50"), "table": {"deep": {"er": [1, "a", {"x": None}]}}, "empty": {}, "list": [],
}  # fmt: skip


def raw_properties(**properties: Any) -> bytes:
    return b"".join(pika.BasicProperties(**properties).encode())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"content_type": "a", "content_encoding": "b", "message_id": "m", "priority": 1},
    ],
)
def test_headers_that_pika_writes_are_read(more: dict[str, Any]) -> None:
    raw = raw_properties(headers=HEADERS, **more)
    begin, end = headers_at(raw, 0)
    assert read_headers(raw[begin:end]) == HEADERS
    begin, end = headers_at(raw_properties(**more), 0)
    assert begin == end


def table(kind: bytes, value: bytes) -> bytes:
    pair = b"\x01x" + kind + value
    return struct.pack(">I", len(pair)) + pair


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (b"T", struct.pack(">Q", 1767312000000), 1767312000000),  # milliseconds
        (b"T", struct.pack(">Q", 2**64 - 1), 2**64 - 1),
        (b"d", struct.pack(">d", 1.5), 1.5),
        (b"f", struct.pack(">f", 0.25), 0.25),
        (b"b", b"\xff", -1),
        (b"B", b"\xff", 255),
        (b"s", b"\xff\xfe", -2),
        (b"u", b"\xff\xfe", 65534),
        (b"i", b"\xff" * 4, 2**32 - 1),
        (b"L", b"\xff" * 8, -1),
        (b"S", struct.pack(">I", 1) + b"\xff", b"\xff"),  # a text that is not UTF-8
    ],
)
def test_each_kind_of_value_is_read(kind: bytes, value: bytes, read: object) -> None:
    assert read_headers(table(kind, value)) == {"x": read}


@pytest.mark.parametrize(
    "raw",
    [
        table(b"Z", b""),
        table(b"S", struct.pack(">I", 100) + b"short"),
        table(b"I", b"\x00"),
        table(b"", b""),
        struct.pack(">I", 9) + b"\x20",
        b"\x00",
        table(b"A", struct.pack(">I", 2**31)),
    ],
)
def test_headers_that_cannot_be_read_are_kept(raw: bytes) -> None:
    assert read_headers(raw) == {UNREADABLE: raw}


def nested(levels: int) -> bytes:
    """Headers with an array in an array, so many of them."""
    raw = b""
    for _ in range(levels):
        raw = b"A" + struct.pack(">I", len(raw)) + raw
    return table(raw[:1], raw[1:])


def test_headers_that_are_nested_too_deep_are_kept() -> None:
    for levels in (41, 5000):
        assert read_headers(nested(levels)) == {UNREADABLE: nested(levels)}


def test_the_deepest_headers_that_are_read_go_into_a_job() -> None:
    headers = read_headers(nested(40))
    job = Message(wrapped(b"1", "orders", 1.0, Properties(headers=headers)), "orders")
    assert job.properties == Properties(headers=headers)
    assert UNREADABLE not in headers
    told: Any = 1
    for _ in range(40):
        told = {"$time": told}  # the name of a tag: it costs two levels
    job = Message(wrapped(b"1", "orders", 1.0, Properties(headers={"x": told})), "orders")
    assert job.properties == Properties(headers={"x": told})


def test_a_frame_that_has_not_come_whole_is_left_to_pika() -> None:
    told = pika.BasicProperties(content_type="text/plain", headers=HEADERS, message_id="m1")
    raw = pika.frame.Header(1, 7, told).marshal()
    assert not any(_with_headers(raw[:size]) for size in range(len(raw)))
    size, frame = _with_headers(raw + raw) or (0, None)
    assert (size, frame.body_size, frame.channel_number) == (len(raw), 7, 1)
    assert (frame.properties.headers, frame.properties.message_id) == (HEADERS, "m1")
    assert _with_headers(pika.frame.Header(1, 7, pika.BasicProperties(message_id="m1")).marshal()) is None
    assert _with_headers(pika.frame.Heartbeat().marshal()) is None
