"""Reads what a message that another program has published says beside its body."""

from __future__ import annotations

from typing import Any

from goworkers_py.wire.properties import Properties


def properties_of(method: Any, properties: Any) -> Properties:
    """From the method and the properties with which pika delivers the message. pika hands on a text that is not UTF-8
    as bytes."""
    return Properties(
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        headers=properties.headers or {},
        message_id=properties.message_id,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        type=properties.type,
        app_id=properties.app_id,
        user_id=properties.user_id,
        timestamp=properties.timestamp,
        expiration=properties.expiration,
        priority=properties.priority,
        exchange=method.exchange,
        routing_key=method.routing_key,
        redelivered=method.redelivered,
    )


def is_of_stream(properties: Any) -> bool:
    """Whether the message comes from a stream: RabbitMQ writes its place there into a header."""
    return properties.headers is not None and "x-stream-offset" in properties.headers
