"""A connection that reads any headers of a message, see `headers`.

pika has no public place at which the bytes of the headers can be seen: this class overrides a private method of it. If
a later pika has no such method, it reads the headers by itself again, and a test of ours fails.
"""

from __future__ import annotations

import struct
from typing import Any

import pika  # type: ignore[import-untyped]
from pika import frame as frames

from goworkers_py.brokers.rabbitmq.headers import headers_at, read_headers

# Of a frame of AMQP: its type, channel and size; then, in the frame that has the properties, what comes before them.
_BEGIN = struct.Struct(">BHL")
_PROPERTIES_AT = _BEGIN.size + 12
_OF_PROPERTIES = 2
_NO_HEADERS = bytes(4)  # the length of the headers


class ForeignConnection(pika.SelectConnection):  # type: ignore[misc]
    def _read_frame(self) -> tuple[int, Any]:
        try:
            size, frame = super()._read_frame()
            if type(frame) is not frames.Header or not frame.properties.headers:
                return size, frame
        except Exception:
            if not self._frame_buffer or self._frame_buffer[0] != _OF_PROPERTIES:
                raise
        return _read(self._frame_buffer)


def _read(buffer: bytes) -> tuple[int, Any]:
    """The first frame in the buffer, and its size there. pika gets it without the headers."""
    kind, channel, length = _BEGIN.unpack_from(buffer)
    size = _BEGIN.size + length + 1
    begin, end = (_PROPERTIES_AT + at for at in headers_at(buffer[_PROPERTIES_AT:size]))
    changed = buffer[_BEGIN.size : begin] + _NO_HEADERS + buffer[end:size]
    _, frame = frames.decode_frame(_BEGIN.pack(kind, channel, len(changed) - 1) + changed)
    frame.properties.headers = read_headers(buffer[begin:end])
    return size, frame
