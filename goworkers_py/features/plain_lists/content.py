"""Decodes a body by what its message says of it: `content_type` and `content_encoding`.

Programs write `content_encoding` in two ways: as in HTTP, where it says how the body is compressed, and as Celery and
kombu do, where it names the character set. Both are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from email.message import Message as Header
from functools import cache, lru_cache
from typing import Any

from goworkers_py.core.errors import UnreadableBody
from goworkers_py.wire.codecs import NAMED, Codec, decoded
from goworkers_py.wire.failure import error_text
from goworkers_py.wire.properties import UNREADABLE, Properties

# A small body may stand for a very large one, in each thread. RabbitMQ 4 takes messages of this size, as it is set up.
LARGEST = 2**24
AT_ONCE = 2**16  # bytes
_AS_IT_IS = ("", "identity", "binary", "7bit", "8bit")
_GZIP, _DEFLATE = ("gzip", "x-gzip"), ("deflate",)
_OF_GZIP = 16 + zlib.MAX_WBITS  # for zlib: with gzip's header
_BYTES = ("application/octet-stream", "application/protobuf", "application/x-protobuf")
_MSGPACK = ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack")


def decoded_body(body: bytes, properties: Properties | None, codec: Codec | None) -> Any:
    """The value of the body, by the codec that the configuration names, or by the content type. A body that says
    nothing of itself is JSON, as in a list of Redis. Raises UnreadableBody."""
    given = properties or Properties()
    body = uncompressed(body, properties)
    if codec is not None:
        return decoded(codec, body)
    kind, charset = _content_type(_text(given.content_type), _text(given.content_encoding))
    name = codec_name(kind)
    if name in ("json", "text") and charset not in ("", "utf-8"):
        body = _transcoded(body, charset)
    try:
        return decoded(_codec(name), body)
    except UnreadableBody as error:
        why = f"content type {kind}" if kind else "no content type, so it was read as JSON"
        raise UnreadableBody(f"{error} ({why}; `codec` of the queue names another codec)") from error


def codec_name(kind: str) -> str:
    """The name of the codec for a content type; `kind` is in lower case, without parameters."""
    if kind in ("", "application/json", "text/json") or kind.endswith("+json"):
        return "json"
    if kind in _BYTES:
        return "bytes"
    if kind in _MSGPACK or kind.endswith("+msgpack"):
        return "msgpack"
    if kind.startswith("text/"):
        return "text"
    raise UnreadableBody(
        f"there is no codec for the content type {kind[:100]}: set codec = bytes, text or module:Class for the queue"
    )


def uncompressed(body: bytes, properties: Properties | None) -> bytes:
    """The body, after gzip or deflate of its `content_encoding`. Raises UnreadableBody, also for a message of which the
    headers cannot be read: code that looks for one would find none."""
    if properties is not None and UNREADABLE in properties.headers:
        raise UnreadableBody("the headers of the message cannot be read")
    encoding = _text(properties.content_encoding if properties is not None else None)
    if encoding not in _GZIP + _DEFLATE:
        return body
    whole, size = [], 0
    try:
        for part in _unpacked(body, _OF_GZIP if encoding in _GZIP else zlib.MAX_WBITS):
            whole.append(part)
            size += len(part)
            if size > LARGEST:
                raise UnreadableBody(f"content encoding {encoding}: the body has more than {LARGEST} bytes")
    except (EOFError, zlib.error) as error:
        raise UnreadableBody(f"content encoding {encoding}: {error_text(error)}") from error
    return b"".join(whole)


def _unpacked(body: bytes, wbits: int) -> Iterator[bytes]:
    """In parts. Gzip may have several members, each of which begins anew, and zeros that fill up a block behind them.
    What stands behind the end of deflate is passed over."""
    inflater = zlib.decompressobj(wbits)
    for begin in range(0, len(body), AT_ONCE):  # as the unused rest is copied at each step
        rest, part = body[begin : begin + AT_ONCE], b""
        while rest or (len(part) == AT_ONCE and not inflater.eof):
            if inflater.eof:
                if wbits != _OF_GZIP:
                    return
                if not (rest := rest.lstrip(b"\0")):
                    break
                inflater = zlib.decompressobj(wbits)
            part = inflater.decompress(rest, AT_ONCE)
            rest = inflater.unused_data or inflater.unconsumed_tail
            yield part
    if body and not inflater.eof:
        raise EOFError("the compressed body ends too early")


@cache
def _codec(name: str) -> Codec:
    return NAMED[name]()


@lru_cache(256)
def _content_type(content_type: str, encoding: str) -> tuple[str, str]:
    """The content type without its parameters, and the character set."""
    header = Header()
    header["content-type"] = content_type
    kind, *parameters = header.get_params(failobj=[("", "")])
    charset = next((str(value) for name, value in parameters if name == "charset"), "")
    if not charset and encoding not in _AS_IT_IS + _GZIP + _DEFLATE:
        charset = encoding
    return kind[0].strip(), charset.strip().lower()


def _transcoded(body: bytes, charset: str) -> bytes:
    try:
        return body.decode(charset).encode("utf-8")
    except (LookupError, ValueError) as error:
        raise UnreadableBody(f"character set or content encoding {charset[:100]}: {error_text(error)}") from None


def _text(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""
