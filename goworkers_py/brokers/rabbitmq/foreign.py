"""Reads what a message that another program has published says beside its body."""

from __future__ import annotations

from typing import Any

from goworkers_py.wire.properties import Properties


def properties_of(method: Any, told: Any) -> Properties:
    """From the method and the properties with which pika delivers the message. pika hands on a text that is not UTF-8
    as bytes."""
    return Properties(
        content_type=told.content_type,
        content_encoding=told.content_encoding,
        headers=told.headers or {},
        message_id=told.message_id,
        correlation_id=told.correlation_id,
        reply_to=told.reply_to,
        type=told.type,
        app_id=told.app_id,
        user_id=told.user_id,
        timestamp=told.timestamp,
        expiration=told.expiration,
        priority=told.priority,
        exchange=method.exchange,
        routing_key=method.routing_key,
        redelivered=method.redelivered,
    )


def is_of_stream(told: Any) -> bool:
    """Whether the message comes from a stream: RabbitMQ writes its place there into a header."""
    return told.headers is not None and "x-stream-offset" in told.headers
