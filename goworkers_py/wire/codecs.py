"""Codecs: the body of a message as bytes, and back. For typed messages, plain lists and the messages of other services.

A codec is any object with `encode(value)` and `decode(body)`. Those in `NAMED` have a name in the configuration. A body
that cannot be decoded goes to the dead jobs at once: no later try would read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import simplejson

from goworkers_py.core.errors import ArgumentError, ConfigError, UnreadableBody
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_text


@runtime_checkable
class Codec(Protocol):
    def encode(self, value: Any) -> bytes: ...

    def decode(self, body: bytes) -> Any: ...


class JsonCodec:
    """Strict JSON in UTF-8: any value, not only an object."""

    def encode(self, value: Any) -> bytes:
        payload.check_plain(value, "the message")
        return payload.encode(value).encode()

    def decode(self, body: bytes) -> Any:
        return simplejson.loads(body.decode("utf-8"), parse_constant=payload.refuse_constant)


class TextCodec:
    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise ArgumentError(f"the codec text writes str, not {type(value).__name__}; choose another codec")
        return value.encode("utf-8")

    def decode(self, body: bytes) -> str:
        return body.decode("utf-8")


class BytesCodec:
    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ArgumentError(f"the codec bytes writes bytes, not {type(value).__name__}; choose another codec")
        return bytes(value)

    def decode(self, body: bytes) -> bytes:
        return body


class MsgpackCodec:
    """MessagePack, by the package msgpack, which is imported when the codec is chosen."""

    def __init__(self) -> None:
        try:
            import msgpack  # type: ignore[import-untyped]
        except ImportError:
            raise ConfigError("the codec msgpack needs a package: pip install 'goworkers-py[msgpack]'") from None
        self._pack: Callable[..., bytes] = msgpack.packb
        self._unpack: Callable[..., Any] = msgpack.unpackb

    def encode(self, value: Any) -> bytes:
        return self._pack(value)

    def decode(self, body: bytes) -> Any:
        return self._unpack(body)


class ProtobufCodec:
    """The fields of a message as a dict, by a class that protoc has generated. The package protobuf is imported by the
    generated module, never here."""

    def __init__(self, message: Any) -> None:
        if not hasattr(message, "DESCRIPTOR") or not hasattr(message, "FromString"):
            raise ConfigError(
                "the codec protobuf needs message=, a class that protoc has generated: message=mail_pb2.Mail"
            )
        self._message = message
        self._fields = {field.name: field for field in message.DESCRIPTOR.fields}

    @property
    def fields(self) -> list[str]:
        return list(self._fields)

    def encode(self, value: Mapping[str, Any]) -> bytes:
        written: bytes = self._message(**value).SerializeToString()
        return written

    def decode(self, body: bytes) -> dict[str, Any]:
        read = self._message.FromString(body)
        return {name: _value_of(read, field) for name, field in self._fields.items()}


def _value_of(message: Any, field: Any) -> Any:
    """None for a field that knows whether it is set, and is not; else its value, or its default."""
    if field.has_presence and not message.HasField(field.name):
        return None if field.message_type is not None or not field.has_default_value else field.default_value
    value = getattr(message, field.name)
    if not field.is_repeated:
        return value
    return dict(value) if isinstance(value, Mapping) else list(value)


# By the names that the configuration and the code of typed messages use. `protobuf` needs a class as well.
NAMED: dict[str, Callable[[], Codec]] = {
    "json": JsonCodec,
    "text": TextCodec,
    "bytes": BytesCodec,
    "msgpack": MsgpackCodec,
}


def codec_from(given: object, place: str) -> Codec:
    """The codec of this name; or `given` itself, or an instance of it, when it has encode and decode."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]()
    made = given() if isinstance(given, type) else given
    if isinstance(made, str) or not isinstance(made, Codec):
        reason = f"{given!r} has no methods encode and decode" if not isinstance(given, str) else f"no codec {given!r}"
        raise ConfigError(f"{place}: {reason}; choose {', '.join(NAMED)}, or an object with encode and decode")
    return made


def decoded(codec: Codec, body: bytes) -> Any:
    """Raises UnreadableBody for whatever the codec raises, which may be code of the user's."""
    try:
        return codec.decode(body)
    except Exception as error:
        raise UnreadableBody(f"{type(codec).__name__} cannot decode the body: {error_text(error)}") from error


def encoded(codec: Codec, value: Any) -> bytes:
    """Raises ArgumentError, at the push."""
    try:
        body = codec.encode(value)
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError(f"{type(codec).__name__} cannot encode the message: {error_text(error)}") from error
    if not isinstance(body, bytes):
        raise ArgumentError(f"{type(codec).__name__}.encode must return bytes, not {type(body).__name__}")
    return body
