"""What a message of RabbitMQ says beside its body, inside of a job."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from goworkers_py.features.plain_lists.payload import body_of, wrapped
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.properties import Properties


def there_and_back(properties: Properties) -> Properties | None:
    return Message(wrapped(b"body", "orders", 1.0, properties), "orders").properties


ALL = Properties(
    content_type="application/json", content_encoding="gzip", headers={"tenant": "a"}, message_id="m1",
    correlation_id="c1", reply_to="answers", type="OrderPlaced", app_id="shop", user_id="guest", timestamp=1767312000,
    expiration="60000", priority=3, exchange="shop", routing_key="order.new", redelivered=True,
)  # fmt: skip


def test_all_properties_come_back_from_the_job() -> None:
    assert there_and_back(ALL) == ALL
    assert there_and_back(Properties()) == Properties()
    assert there_and_back(Properties(priority=0, exchange="")) == Properties(priority=0, exchange="")


@pytest.mark.parametrize(
    "value",
    [
        "text", 1, 1.5, True, False, None, b"\xff\x00", Decimal("1.50"), -math.inf, [1, [b"a"], {"x": None}],
        datetime(2026, 1, 2, tzinfo=timezone.utc), {"deep": {"er": [Decimal(1)]}}, {}, {"$base64": "of somebody else"},
        {"$object": {"$time": 1}}, {"$time": 1, "more": 2},
    ],
)  # fmt: skip
def test_a_header_of_any_type_comes_back_as_it_was(value: Any) -> None:
    found = there_and_back(Properties(headers={"x": value, "more": 1}))
    assert found is not None
    assert found.headers == {"x": value, "more": 1}
    assert type(found.headers["x"]) is type(value)


def test_a_single_header_with_the_name_of_a_tag_is_no_tag() -> None:
    told = Properties(headers={"$base64": "YQ=="})
    assert there_and_back(told) == told


def test_a_job_without_properties_has_none() -> None:
    assert Message(wrapped(b"body", "orders", 1.0), "orders").properties is None
    assert Message(payload.write({"class": "Job", "args": []}), "q").properties is None


@pytest.mark.parametrize(
    "record",
    [
        None, 1, [], {"headers": 1}, {"headers": {"x": {"$base64": "?"}}}, {"headers": {"x": {"$time": "soon"}}},
        {"headers": {"x": {"$time": 1e300}}}, {"headers": {"x": {"$decimal": "?"}}}, {"headers": {"$base64": "YQ=="}},
        {"headers": {"x": {"$object": 1}}}, {"unknown": 1},
    ],
)  # fmt: skip
def test_a_record_that_a_stranger_wrote_raises_nothing(record: Any) -> None:
    fields = {"class": "x", "args": ["b"], "plain": {"v": 1, "as": "text", "properties": record}}
    message = Message(payload.write(fields), "orders")
    assert message.properties in (None, Properties())
    assert body_of(message.fields) == b"b"


def test_a_record_of_a_later_version_is_left_alone() -> None:
    fields = {"class": "x", "args": ["b"], "plain": {"v": 2, "as": "text", "properties": {"message_id": "m"}}}
    assert Message(payload.write(fields), "orders").properties is None
