"""Messages that other programs have published: the properties beside their bodies, and connections of pika that read
any headers, see `headers`.

pika has no public place at which the bytes of the headers can be seen: a private method of it is overridden here. If a
later pika has no such method, it reads the headers by itself again, and a test of ours fails.
"""

from __future__ import annotations

import struct
from typing import Any

import pika  # type: ignore[import-untyped]
from pika import frame as frames

from goworkers_py.brokers.rabbitmq.headers import headers_at, read_headers
from goworkers_py.wire.properties import Properties

# Of a frame of AMQP: its type, channel and size; then, in the frame that has the properties, what comes before them.
_BEGIN = struct.Struct(">BHL")
_PROPERTIES_AT = _BEGIN.size + 12
_OF_PROPERTIES = 2
_NO_HEADERS = bytes(4)  # the length of the headers


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


# --- headers


class JobSelectConnection(pika.SelectConnection):  # type: ignore[misc]
    """For jobs, whose headers pika reads faster: only of those that it cannot read they are read here."""

    def _read_frame(self) -> tuple[int, Any]:
        try:
            return super()._read_frame()  # type: ignore[no-any-return]
        except Exception:  # of many kinds: of the time, of Unicode, of struct, and pika's own
            found = _with_headers(self._frame_buffer)
            if found is None:
                raise
            return found


class ForeignSelectConnection(pika.SelectConnection):  # type: ignore[misc]
    """For bodies of other programs, whose headers are shown to their handlers."""

    def _read_frame(self) -> tuple[int, Any]:
        return _with_headers(self._frame_buffer) or super()._read_frame()


def _with_headers(buffer: bytes) -> tuple[int, Any] | None:
    """The first frame in the buffer, and its size there, if it has headers. pika gets it without these."""
    if len(buffer) < _BEGIN.size or buffer[0] != _OF_PROPERTIES:
        return None
    kind, channel, length = _BEGIN.unpack_from(buffer)
    size = _BEGIN.size + length + 1
    if len(buffer) < size:
        return None
    begin, end = headers_at(buffer, _PROPERTIES_AT)
    if begin == end:
        return None
    changed = buffer[_BEGIN.size : begin] + _NO_HEADERS + buffer[end:size]
    _, frame = frames.decode_frame(_BEGIN.pack(kind, channel, len(changed) - 1) + changed)
    frame.properties.headers = read_headers(buffer[begin:end])
    return size, frame
